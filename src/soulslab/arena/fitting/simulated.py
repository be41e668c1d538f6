"""Recording of fights of the simulator, tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_rules import replay_ticks
from soulslab.arena.fitting.recorded_fight import MOMENT, TOP_UP_BELOW, RecordedFight, index_names
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DUEL, TICKS_PER_DECISION, TICKS_PER_S
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import BOSS_ANIMATIONS


class Player(Protocol):
    """A player of N fights, such as `soulslab.arena.reference_player.ReferencePlayer`."""

    def begin(self, states: NDArray[np.record], which: NDArray[np.bool_]) -> None:
        """Observe the fights that are new."""

    def act(self, states: NDArray[np.record], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Choose an action for each fight, (N,)."""


#: Returns a player of one fight, given the seed of the fight.
PlayerMaker: TypeAlias = Callable[[int], Player]


def record_simulated(
    boss: Boss,
    make_player: PlayerMaker,
    *,
    seed: int,
    minutes: float,
    top_up: bool = True,
    held_out_rules: HeldOutRules = "none",
) -> Iterator[RecordedFight]:
    """Record fights until they have lasted for some minutes of game time.

    Args:
        boss: The boss; the recordings do not show its file.
        make_player: Makes the player of each fight.
        seed: Seed of the first fight; the others follow.
        minutes: Game time of all fights; the last fight is cut.
        top_up: Restore the player's health below `TOP_UP_BELOW`, so that fights reach the second phase.
        held_out_rules: A set of rules that no boss file describes.
    """
    options = FightOptions(
        random_pose=True, features=False, states=True, autoreset="disabled", held_out_rules=held_out_rules
    )
    left = round(minutes * 60 * TICKS_PER_S / TICKS_PER_DECISION)
    while left > 0:
        simulator = Simulator(boss, 1, options)
        ticks, topped_up = _play(simulator, make_player(seed), seed, left, top_up=top_up)
        left -= -(-len(ticks) // TICKS_PER_DECISION)
        seed += 1
        yield fight_of_ticks(boss, ticks, topped_up)


def _play(
    simulator: Simulator, player: Player, seed: int, n_decisions: int, *, top_up: bool
) -> tuple[NDArray[np.record], list[int]]:
    """Play one fight; return the `DUEL` record of each tick, and the ticks after which the health was restored."""
    everyone = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), everyone)
    simulator.reset(everyone)
    player.begin(simulator.states, everyone)
    duels, fight = simulator.duels, simulator.fight[0]
    parts: list[bytes] = []
    topped_up = []
    for n in range(n_decisions):
        if top_up and 0.0 < duels["p_hp"][0] < TOP_UP_BELOW * fight.p_max_hp:
            duels["p_hp"] = fight.p_max_hp
            simulator.states["player_hp"] = fight.p_max_hp
            topped_up.append(n * TICKS_PER_DECISION)
        action = player.act(simulator.states, simulator.masks)
        before = duels.copy()
        simulator.step(action)
        n_ticks = int(duels["tick"][0] - before["tick"][0])
        parts.append(replay_ticks(before, fight, int(action[0]), n_ticks).tobytes())
        if duels["over"][0]:
            break
    # numpy compares the field names of all parts before it concatenates them.
    return np.frombuffer(b"".join(parts), DUEL), topped_up


def fight_of_ticks(boss: Boss, ticks: NDArray[np.record], topped_up: list[int]) -> RecordedFight:
    """Return the recording of a fight, given its `DUEL` records (T,); only quantities that a game shows are used."""
    knight = load_knight()
    moments = np.zeros(len(ticks), MOMENT)
    for ours, theirs in (("tick", "tick"), ("phase", "phase"), ("lock_on", "lock_on")):
        moments[ours] = ticks[theirs]
    for who, short in (("player", "p"), ("boss", "b")):
        moments[f"{who}_x"], moments[f"{who}_y"] = ticks[f"{short}_x"], ticks[f"{short}_y"]
        moments[f"{who}_angle"] = np.arctan2(-ticks[f"{short}_fx"], -ticks[f"{short}_fy"])
        moments[f"{who}_hp"] = ticks[f"{short}_hp"]
    moments["player_z"], moments["player_sp"] = ticks["p_z"], ticks["p_sp"]
    moments["player_animation"] = ticks["p_anim"]
    moments["player_time_s"] = ticks["p_ticks"] / TICKS_PER_S
    moments["boss_time_s"] = ticks["b_anim_ticks"] / TICKS_PER_S
    moves: list[Any] = [move.animation for move in boss.moves]
    names = [
        BOSS_ANIMATIONS[number] if number >= 0 else moves[move]
        for number, move in zip(ticks["b_anim"].tolist(), ticks["b_move"].tolist(), strict=True)
    ]
    moments["boss_animation"], boss_animations = index_names(names)
    moments["is_topped_up"][topped_up] = True
    return RecordedFight(
        moments=moments,
        player_animations=knight.animations,
        boss_animations=boss_animations,
        player_max_hp=float(knight.vitals.hp),
    )


def thinned(fight: RecordedFight, ticks_per_moment: int) -> RecordedFight:
    """Return a fight with only every n-th tick, as if it had been recorded at a lower rate."""
    moments = fight.moments
    kept = np.arange(ticks_per_moment - 1, len(moments), ticks_per_moment)
    thin = moments[kept].copy()
    for i, last in enumerate(kept):
        thin["is_topped_up"][i] = moments["is_topped_up"][last - ticks_per_moment + 1 : last + 1].any()
    return msgspec.structs.replace(fight, moments=thin)
