"""Scripted players and their results, which show that a boss is a fair fight.

`measure` plays seeded fights with each player. The naive players use the strategies that a learner would find first if
the fight could be won without skill: random or constant attacks, standing, circling, fleeing, waiting at the wall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.held_out_rules import HeldOutRules
from soulslab.arena.records import DECISION_S, MAX_DECISIONS
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, N_DIRECTIONS, NOTHING

#: Function from (simulator, random generator) to actions (N,).
Player: TypeAlias = Callable[[Simulator, np.random.Generator], NDArray[np.int64]]

FORWARD, RIGHT, BACKWARD = 0, 2, 4


class Score(msgspec.Struct, frozen=True):
    """Results of one player: shares of the fights, and means over them."""

    player: str
    phase: str
    fights: int
    win_rate: float
    loss_rate: float
    timeout_rate: float
    time_s: float
    damage_taken: float


def _random(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose an open action uniformly."""
    actions: NDArray[np.int64] = np.argmax(rng.random(simulator.masks.shape) * simulator.masks, axis=1)
    return actions


def _always(action: int) -> Player:
    def act(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG001
        return np.full(simulator.n_duels, action)

    return act


def _gap(simulator: Simulator) -> NDArray[np.float64]:
    """Return the distance between the bodies, (N,) in m."""
    way = simulator.states["boss_pose"][:, :2] - simulator.states["player_pose"][:, :2]
    radii = (simulator.fight["p_radius"] + simulator.fight["b_radius"])[simulator.duels["fight"]]
    gap: NDArray[np.float64] = np.hypot(way[:, 0], way[:, 1]) - radii
    return gap


def _attack(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG001
    """Run to the boss and attack constantly."""
    can_attack = simulator.masks[:, LIGHT_ATTACK]
    return np.where((_gap(simulator) < 1.8) & can_attack, LIGHT_ATTACK, np.where(can_attack, FORWARD, NOTHING))


def _circle_and_attack(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG001
    """Circle the boss at close range and attack whenever it is in reach, every third second."""
    strike = (simulator.duels["decision"] % 30 < 8) & simulator.masks[:, LIGHT_ATTACK]
    near = _gap(simulator) < 1.8
    return np.where(near & strike, LIGHT_ATTACK, np.where(near, RIGHT, FORWARD + 1))


def _roll_about(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:
    """Roll in a random direction whenever possible, and attack occasionally."""
    rolls = FIRST_ROLL + rng.integers(0, N_DIRECTIONS, simulator.n_duels)
    strike = (rng.random(simulator.n_duels) < 0.3) & (_gap(simulator) < 1.8)
    return np.where(strike, LIGHT_ATTACK, np.where(_gap(simulator) < 1.8, rolls, FORWARD))


def _hug_wall(simulator: Simulator, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG001
    """Walk backwards to the wall, then attack whenever the boss is near."""
    ready = (simulator.duels["decision"] > 80) & (_gap(simulator) < 1.8) & simulator.masks[:, LIGHT_ATTACK]
    return np.where(ready, LIGHT_ATTACK, BACKWARD)


def _naive_players() -> dict[str, Player]:
    return {
        "random": _random,
        "attack": _attack,
        "stand": _always(NOTHING),
        "circle": _always(RIGHT),
        "run": _always(BACKWARD),
        "wall": _hug_wall,
        "circle and attack": _circle_and_attack,
        "roll about": _roll_about,
    }


#: Names for `measure`; "reference" is `ReferencePlayer`.
PLAYERS = (*_naive_players(), "reference")


def measure(
    boss: Boss | Sequence[Boss],
    phase: str,
    player: str,
    *,
    n_fights: int,
    seed: int,
    held_out_rules: HeldOutRules = "none",
) -> Score:
    """Play ``n_fights`` seeded fights, one per duel so that short fights are not overrepresented, and score them.

    Args:
        boss: The boss; or bosses, of which each fight draws one.
        phase: ``"1"``, ``"2"`` or ``"full"``.
        player: One of `PLAYERS`.
        n_fights: Number of fights, played in parallel.
        seed: Seed of the first fight; the other seeds follow from it.
        held_out_rules: A set of `soulslab.arena.held_out_rules`.

    Returns:
        The results.
    """
    options = FightOptions(
        phase=phase,
        random_pose=True,
        features=False,
        states=True,
        autoreset="disabled",
        held_out_rules=held_out_rules,
    )
    simulator = Simulator(boss, n_fights, options)
    everyone = np.ones(n_fights, np.bool_)
    simulator.seed(np.arange(seed, seed + n_fights, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    if player == "reference":
        reference = ReferencePlayer(boss, n_fights, simulator.duels["fight"])
        reference.begin(simulator.states, everyone)
        act: Player = lambda sim, rng: reference.act(sim.states, sim.masks)  # noqa: ARG005, E731
    else:
        act = _naive_players()[player]
    rng = np.random.default_rng(seed)
    finished = np.zeros(n_fights, np.bool_)
    reports = simulator.reports.copy()
    for _ in range(MAX_DECISIONS):
        simulator.step(np.ascontiguousarray(act(simulator, rng), dtype=np.int64))
        # A duel that is over restarts at its next step; only its first fight is scored.
        fresh = (simulator.duels["over"] == 1) & ~finished
        reports[fresh] = simulator.reports[fresh]
        finished |= fresh
        if finished.all():
            break
    return _score(player, phase, reports)


def _score(player: str, phase: str, reports: NDArray[np.record]) -> Score:
    won = reports["won"] == 1
    timeout = ~won & (reports["n_decisions"] >= MAX_DECISIONS)
    return Score(
        player=player,
        phase=phase,
        fights=len(reports),
        win_rate=float(won.mean()),
        loss_rate=float((~won & ~timeout).mean()),
        timeout_rate=float(timeout.mean()),
        time_s=float(reports["n_decisions"].mean() * DECISION_S),
        damage_taken=float(reports["damage_taken"].mean()),
    )
