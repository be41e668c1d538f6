"""Placing both fighters for an episode, in the middle of a fight that goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from soulslab.arena.binding import UNNAMED
from soulslab.arena.features import CAMERA_COS, CAMERA_SIN
from soulslab.arena.vocabulary import BOSS_ATTACKS, BOSS_MISC
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Pose, Scenario, Vitals
from soulslab.envs.tasks.duel.reset_states import ResetState, Seen
from soulslab.envs.tasks.duel.respawn import is_writable

#: The player may start up to this far from a drawn pose, along x and y each (as `soulslab.arena.duel_rules`).
JITTER_M = 0.5
#: Fighters that stand this near to where they were put have arrived.
NEAR_M = 0.5
IDLE = "Idle"
FALL = "Fall"
LOCK_ON_KEY = "lock_on"

#: Game time that each state may take. The longest chain of a boss's attacks takes less than the first.
SETTLE_LIMIT_S = 20.0
PLACE_LIMIT_S = 2.0
LOCK_ON_LIMIT_S = 5.0
READY_LIMIT_S = 3.0
TRANSFORM_LIMIT_S = 30.0
#: A game needs about so long to lock on after the key went down, or to show that it did not.
LOCK_ON_AGAIN_S = 0.3
#: Looks while something takes its time.
POLL_S = 0.1

_HOLDS = ("player.no_death", "player.no_gravity", "boss.no_attack")


class Start(msgspec.Struct, frozen=True):
    """Where an episode starts.

    Attributes:
        player: Pose of the player, turned to the boss; None for one that stays where it is.
        boss: Pose of the boss, turned to the player; the same.
        number: Of the player's pose in the scenario; -1 for the fixed one.
    """

    player: Pose | None
    boss: Pose | None
    number: int


def draw_start(scenario: Scenario, rng: np.random.Generator, *, is_random: bool) -> Start:
    """Return where the fighters start, turned to each other as by the lock-on where both are known."""
    player, boss, number = scenario.player_pose, scenario.boss_pose, -1
    if is_random and scenario.player_poses_random:
        number = int(rng.integers(len(scenario.player_poses_random)))
        x, y, z, angle = scenario.player_poses_random[number]
        player = (x + rng.uniform(-JITTER_M, JITTER_M), y + rng.uniform(-JITTER_M, JITTER_M), z, angle)
    if player is None or boss is None:
        return Start(player, boss, number)
    # The direction of an angle a is (-sin a, -cos a).
    angle = math.atan2(player[0] - boss[0], player[1] - boss[1])
    facing = math.atan2(boss[0] - player[0], boss[1] - player[1])
    return Start((*player[:3], angle), (*boss[:3], facing), number)


def hold(game: DuelGame, *, is_on: bool, keep: tuple[str, ...] = ()) -> None:
    """Hold the fight, as far as the game can be: nobody dies, falls or attacks; or let go but for what is kept."""
    flags = {name: is_on or name in keep for name in _HOLDS if is_writable(game, name)}
    if flags:
        game.write(flags)


def is_busy(animation: str, scenario: Scenario) -> bool:
    """Tell whether the boss does something with this animation that takes its time."""
    return (
        animation in scenario.attacks
        or animation in BOSS_ATTACKS
        or animation in BOSS_MISC
        or (bool(animation) and animation == scenario.phase_two_animation)
    )


def refill(game: DuelGame, scenario: Scenario) -> None:
    """Fill up the health of both and the player's stamina; a boss that is dead stays so, with whatever number."""
    vitals = game.vitals(scenario)
    full = {
        "player.hp": vitals.hp,
        "player.sp": vitals.sp,
        "boss.hp": scenario.boss_max_hp,
    }
    values = {name: value for name, value in full.items() if is_writable(game, name)}
    if "boss.hp" in values and game.read("boss.hp")["boss.hp"] <= 0:
        del values["boss.hp"]
    game.write(values)


def settle_state(game: DuelGame, scenario: Scenario, start: Start, on_change: Callable[[], None]) -> ResetState:
    """Return the state in which nobody does anything; a player that falls is put back.

    Args:
        game: The game.
        scenario: The boss and its place.
        start: Where a player that falls is put, where that is known.
        on_change: Called when the boss is seen to change its phase.
    """

    def keep_up(seen: Seen) -> None:
        refill(game, scenario)
        if scenario.phase_two_animation and seen.get("boss.animation") == scenario.phase_two_animation:
            on_change()
        if seen and _falls(seen, scenario):
            _put_player(game, start)

    return ResetState(
        name="settle",
        waits_for="the player to stand and the boss to rest",
        is_reached=lambda seen: bool(seen) and _is_settled(seen, scenario),
        quantities=("player.animation", "player.position", "boss.animation"),
        limit_s=SETTLE_LIMIT_S,
        act=keep_up,
        poll_s=POLL_S,
    )


def place_states(game: DuelGame, scenario: Scenario, start: Start) -> Iterator[ResetState]:
    """Yield the states that put both where they start, as far as that is known, lock on, and end in full health."""

    def put(_: Seen) -> None:
        _put_player(game, start)
        _put_boss(game, start)
        _turn_camera(game, start)

    def are_there(seen: Seen) -> bool:
        return _is_near(seen, "player", start.player) and _is_near(seen, "boss", start.boss)

    def put_right(seen: Seen) -> None:
        refill(game, scenario)
        if seen and not are_there(seen):
            put(seen)

    put({})
    yield ResetState(
        name="place",
        waits_for="player and boss to stand where they start",
        is_reached=are_there,
        quantities=("player.position", "boss.position"),
        limit_s=PLACE_LIMIT_S,
        act=put,
    )
    if game.has("lock_on"):
        yield ResetState(
            name="lock_on",
            waits_for="the camera to lock on the boss",
            is_reached=lambda seen: bool(seen.get("lock_on")),
            quantities=("lock_on",),
            limit_s=LOCK_ON_LIMIT_S,
            press=(LOCK_ON_KEY,) if LOCK_ON_KEY in game.profile.keys else (),
            again_s=LOCK_ON_AGAIN_S,
            act=put,
        )
    refill(game, scenario)
    yield ResetState(
        name="ready",
        waits_for="both in full health where they start, and the player with all its stamina",
        is_reached=lambda seen: bool(seen) and are_there(seen) and _is_ready(seen, scenario, game.vitals(scenario)),
        quantities=("player.hp", "player.sp", "boss.hp", "player.animation", "player.position", "boss.position"),
        limit_s=READY_LIMIT_S,
        act=put_right,
    )


def transform_state(game: DuelGame, scenario: Scenario) -> ResetState:
    """Return the state in which the boss has gone over to its second phase, for which its health is lowered."""
    has_begun = False

    def is_done(seen: Seen) -> bool:
        nonlocal has_begun
        if not seen:
            return False
        is_changing = seen.get("boss.animation") == scenario.phase_two_animation
        has_begun |= is_changing
        return bool(seen["phase"] == 2) if "phase" in seen else has_begun and not is_changing

    def force(_: Seen) -> None:
        boss_hp = scenario.boss_max_hp if has_begun else forcing_hp(scenario)
        game.write({"player.hp": game.vitals(scenario).hp, "boss.hp": boss_hp})

    return ResetState(
        name="transform",
        waits_for="the boss's second phase, with its health below the first",
        is_reached=is_done,
        quantities=("phase", "boss.animation"),
        limit_s=TRANSFORM_LIMIT_S,
        act=force,
        poll_s=POLL_S,
    )


def forcing_hp(scenario: Scenario) -> int:
    """Return the health of the boss that brings on its second phase, and that a blow does not take."""
    return scenario.forcing_hp or max(int(0.9 * scenario.phase_two_hp), 1)


def _is_settled(seen: Seen, scenario: Scenario) -> bool:
    animation = seen.get("player.animation", IDLE)
    # Nobody can wait for a number without a name to pass: in Elden Ring all of them are so.
    is_standing = (animation == IDLE or animation.startswith(UNNAMED)) and not _falls(seen, scenario)
    return is_standing and not is_busy(seen.get("boss.animation", ""), scenario)


def _falls(seen: Seen, scenario: Scenario) -> bool:
    position = seen.get("player.position")
    is_below = position is not None and bool(position[2] < scenario.fall_m)
    return is_below or seen.get("player.animation", IDLE).startswith(FALL)


def _is_ready(seen: Seen, scenario: Scenario, vitals: Vitals) -> bool:
    return bool(
        seen.get("player.hp", vitals.hp) >= vitals.hp
        and seen.get("player.sp", vitals.sp) >= vitals.sp
        and seen.get("boss.hp", scenario.boss_max_hp) >= scenario.boss_max_hp
        and not _falls(seen, scenario)
    )


def _is_near(seen: Seen, who: str, pose: Pose | None) -> bool:
    if pose is None:
        return True
    if not seen:
        return False
    position = seen.get(f"{who}.position")
    return position is None or math.hypot(position[0] - pose[0], position[1] - pose[1]) <= NEAR_M


def _put_player(game: DuelGame, start: Start) -> None:
    _put(game, "player", start.player)


def _put_boss(game: DuelGame, start: Start) -> None:
    _put(game, "boss", start.boss)


def _put(game: DuelGame, who: str, pose: Pose | None) -> None:
    if pose is None:
        return
    values: dict[str, object] = {}
    if is_writable(game, f"{who}.position"):
        values[f"{who}.position"] = np.array(pose[:3])
    if is_writable(game, f"{who}.angle"):
        values[f"{who}.angle"] = pose[3]
    if values:
        game.write(values)


def _turn_camera(game: DuelGame, start: Start) -> None:
    if start.player is not None and is_writable(game, "camera.direction"):
        angle = start.player[3]
        ahead = (-math.sin(angle) * CAMERA_COS, -math.cos(angle) * CAMERA_COS, -CAMERA_SIN)
        game.write({"camera.direction": np.array(ahead)})
