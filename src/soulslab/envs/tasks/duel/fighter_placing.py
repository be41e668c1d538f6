"""Placing both fighters at the start of an episode, within a fight that is in progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from soulslab.arena.binding import UNNAMED
from soulslab.arena.features import CAMERA_COS, CAMERA_SIN
from soulslab.arena.vocabulary import BOSS_ATTACKS, BOSS_MISC
from soulslab.envs.tasks.duel.duel_actions import is_falling
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Pose, Scenario, Vitals
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetState

#: Largest distance of a start pose from the drawn pose, along x and y each (as in `soulslab.arena.duel_rules`).
JITTER_M = 0.5
#: Largest distance from a start pose at which a fighter has arrived.
NEAR_M = 0.5
IDLE = "Idle"
LOCK_ON_KEY = "lock_on"

#: Limits of game time. The longest chain of attacks of a boss takes less than the first limit.
SETTLE_LIMIT_S = 20.0
PLACE_LIMIT_S = 2.0
LOCK_ON_LIMIT_S = 5.0
READY_LIMIT_S = 3.0
TRANSFORM_LIMIT_S = 30.0
#: Game time after which the lock-on key is pressed again. A game locks on within about this time, or not at all.
LOCK_ON_REPEAT_S = 0.3
#: Game time between two readings in states that last long.
POLL_S = 0.1

#: Flags with which no fighter dies, falls or attacks.
SAFETY_FLAGS = ("player.no_death", "player.no_gravity", "boss.no_attack")


class StartPoses(msgspec.Struct, frozen=True):
    """Start poses of an episode; None for a fighter that is not moved.

    `number` is the index of the player's pose among the random poses of the scenario; -1 for the fixed pose.
    """

    player: Pose | None
    boss: Pose | None
    number: int


def draw_start_poses(scenario: Scenario, rng: np.random.Generator, *, is_random: bool) -> StartPoses:
    """Return the start poses of an episode. If both are known, the fighters face each other, as with the lock-on."""
    player, boss, number = scenario.player_pose, scenario.boss_pose, -1
    if is_random and scenario.player_poses_random:
        number = int(rng.integers(len(scenario.player_poses_random)))
        x, y, z, angle = scenario.player_poses_random[number]
        player = (x + rng.uniform(-JITTER_M, JITTER_M), y + rng.uniform(-JITTER_M, JITTER_M), z, angle)
    if not (player and boss):
        return StartPoses(player, boss, number)
    # The direction of an angle a is (-sin a, -cos a).
    player_angle = math.atan2(player[0] - boss[0], player[1] - boss[1])
    boss_angle = math.atan2(boss[0] - player[0], boss[1] - player[1])
    return StartPoses((*player[:3], player_angle), (*boss[:3], boss_angle), number)


def set_safety_flags(game: DuelGame, *, is_on: bool, keep: tuple[str, ...] = ()) -> None:
    """Set or clear the `SAFETY_FLAGS` that the game has; flags in `keep` are set in both cases."""
    flags = {name: is_on or name in keep for name in SAFETY_FLAGS if game.is_writable(name)}
    if flags:
        game.write(flags)


def is_busy(animation: str, scenario: Scenario) -> bool:
    """Return whether the boss performs an action with this animation, which takes some time."""
    return (
        animation in scenario.attacks
        or animation in BOSS_ATTACKS
        or animation in BOSS_MISC
        or (bool(animation) and animation == scenario.phase_two_animation)
    )


def refill(game: DuelGame, scenario: Scenario) -> None:
    """Refill the health of both and the player's stamina; not the health of a dead boss, which stays dead anyway."""
    vitals = game.vitals(scenario)
    full = {"player.hp": vitals.hp, "player.sp": vitals.sp, "boss.hp": scenario.boss_max_hp}
    values = {name: value for name, value in full.items() if game.is_writable(name)}
    if "boss.hp" in values and game.read("boss.hp")["boss.hp"] <= 0:
        del values["boss.hp"]
    game.write(values)


def settle_state(
    game: DuelGame, scenario: Scenario, start: StartPoses, on_phase_change: Callable[[], None]
) -> ResetState:
    """Return the state in which both fighters are at rest. A falling player is put at its start pose."""

    def keep_alive(values: QuantityValues) -> None:
        refill(game, scenario)
        if scenario.phase_two_animation and values.get("boss.animation") == scenario.phase_two_animation:
            on_phase_change()
        if values and _has_fallen(values, scenario):
            _write_pose(game, "player", start.player)

    return ResetState(
        name="settle",
        waits_for="the player to stand and the boss to rest",
        is_reached=lambda values: bool(values) and _is_settled(values, scenario),
        quantities=("player.animation", "player.position", "boss.animation"),
        limit_s=SETTLE_LIMIT_S,
        action=keep_alive,
        poll_s=POLL_S,
    )


def place_states(game: DuelGame, scenario: Scenario, start: StartPoses) -> Iterator[ResetState]:
    """Yield the states that put both fighters at their start poses, lock on, and refill health and stamina."""

    def place(_: QuantityValues) -> None:
        _write_pose(game, "player", start.player)
        _write_pose(game, "boss", start.boss)
        if start.player is not None and game.is_writable("camera.direction"):
            angle = start.player[3]
            ahead = (-math.sin(angle) * CAMERA_COS, -math.cos(angle) * CAMERA_COS, -CAMERA_SIN)
            game.write({"camera.direction": np.array(ahead)})

    def are_placed(values: QuantityValues) -> bool:
        return _is_near(values, "player", start.player) and _is_near(values, "boss", start.boss)

    def correct(values: QuantityValues) -> None:
        refill(game, scenario)
        if values and not are_placed(values):
            place(values)

    place({})
    yield ResetState(
        name="place",
        waits_for="player and boss to stand where they start",
        is_reached=are_placed,
        quantities=("player.position", "boss.position"),
        limit_s=PLACE_LIMIT_S,
        action=place,
    )
    if game.has("lock_on"):
        yield ResetState(
            name="lock_on",
            waits_for="the camera to lock on the boss",
            is_reached=lambda values: bool(values.get("lock_on")),
            quantities=("lock_on",),
            limit_s=LOCK_ON_LIMIT_S,
            buttons=(LOCK_ON_KEY,) if LOCK_ON_KEY in game.profile.keys else (),
            repeat_s=LOCK_ON_REPEAT_S,
            action=place,
        )
    refill(game, scenario)
    yield ResetState(
        name="ready",
        waits_for="both in full health where they start, and the player with all its stamina",
        is_reached=lambda values: (
            bool(values) and are_placed(values) and _is_ready(values, scenario, game.vitals(scenario))
        ),
        quantities=("player.hp", "player.sp", "boss.hp", "player.animation", "player.position", "boss.position"),
        limit_s=READY_LIMIT_S,
        action=correct,
    )


def transform_state(game: DuelGame, scenario: Scenario) -> ResetState:
    """Return the state in which the boss is in its second phase. The boss's health is lowered to reach it."""
    has_begun = False

    def is_done(values: QuantityValues) -> bool:
        nonlocal has_begun
        if not values:
            return False
        is_changing = values.get("boss.animation") == scenario.phase_two_animation
        has_begun |= is_changing
        return bool(values["phase"] == 2) if "phase" in values else has_begun and not is_changing

    def force(_: QuantityValues) -> None:
        boss_hp = scenario.boss_max_hp if has_begun else forcing_hp(scenario)
        game.write({"player.hp": game.vitals(scenario).hp, "boss.hp": boss_hp})

    return ResetState(
        name="transform",
        waits_for="the boss's second phase, with its health below the first",
        is_reached=is_done,
        quantities=("phase", "boss.animation"),
        limit_s=TRANSFORM_LIMIT_S,
        action=force,
        poll_s=POLL_S,
    )


def forcing_hp(scenario: Scenario) -> int:
    """Return a health at which the boss begins its second phase, and which is larger than the damage of a blow."""
    return scenario.forcing_hp or max(int(0.9 * scenario.phase_two_hp), 1)


def _is_settled(values: QuantityValues, scenario: Scenario) -> bool:
    animation = values.get("player.animation", IDLE)
    # Animations without a name cannot be recognised as rest. In Elden Ring no animation has a name.
    is_standing = (animation == IDLE or animation.startswith(UNNAMED)) and not _has_fallen(values, scenario)
    return is_standing and not is_busy(values.get("boss.animation", ""), scenario)


def _has_fallen(values: QuantityValues, scenario: Scenario) -> bool:
    position = values.get("player.position")
    is_below = position is not None and bool(position[2] < scenario.fall_m)
    return is_below or is_falling(values.get("player.animation", IDLE))


def _is_ready(values: QuantityValues, scenario: Scenario, vitals: Vitals) -> bool:
    return bool(
        values.get("player.hp", vitals.hp) >= vitals.hp
        and values.get("player.sp", vitals.sp) >= vitals.sp
        and values.get("boss.hp", scenario.boss_max_hp) >= scenario.boss_max_hp
        and not _has_fallen(values, scenario)
    )


def _is_near(values: QuantityValues, fighter: str, pose: Pose | None) -> bool:
    if pose is None:
        return True
    if not values:
        return False
    position = values.get(f"{fighter}.position")
    return position is None or math.hypot(position[0] - pose[0], position[1] - pose[1]) <= NEAR_M


def _write_pose(game: DuelGame, fighter: str, pose: Pose | None) -> None:
    if pose is None:
        return
    wanted = {f"{fighter}.position": np.array(pose[:3]), f"{fighter}.angle": pose[3]}
    values = {name: value for name, value in wanted.items() if game.is_writable(name)}
    if values:
        game.write(values)
