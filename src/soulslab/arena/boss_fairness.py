"""Fairness of a boss, measured by playing: which attacks can be avoided, and how much damage the reference takes."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import MAX_WINDOWS, Boss, Move
from soulslab.arena.boss_rules import start_move
from soulslab.arena.records import TICKS_PER_DECISION, TICKS_PER_S
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import FIRST_ROLL, N_DIRECTIONS, NOTHING

#: Times before a blow at which a roll is tried (s).
ROLL_LEADS_S: Final = (0.05, 0.15, 0.25, 0.35)
#: Largest distance at which an attack is tried.
MAX_DISTANCE_M: Final = 12.0
#: Time after a move in which its projectiles still fly.
FLIGHT_S: Final = 2.0
#: Fights of the reference player, and the decisions after which it counts as losing.
N_FIGHTS: Final = 256
MAX_DECISIONS: Final = 2000
#: Health with which the reference player survives every fight.
MUCH_HP: Final = 1e6


def longest_chain_s(boss: Boss) -> float:
    """Return the longest possible duration of moves that follow each other without a pause; infinity for a circle."""
    moves = {move.id: move for move in boss.moves}

    def longest(move: Move, earlier: frozenset[str]) -> float:
        if move.id in earlier:
            return float("inf")
        following = [moves[one.move] for one in move.follow_ups if one.probability > 0]
        return move.duration_s + max(map(partial(longest, earlier=earlier | {move.id}), following), default=0.0)

    return max(longest(move, frozenset()) for move in boss.moves)


def unavoidable_moves(boss: Boss) -> tuple[str, ...]:
    """Return the ids of the moves that no timing and direction of rolls avoids from some distance in their range.

    Each move is played alone, from the least, the middle and the greatest distance at which the boss chooses it. The
    player stands still, and rolls before each blow.
    """
    leads, ways = np.meshgrid(ROLL_LEADS_S, FIRST_ROLL + np.arange(N_DIRECTIONS))
    n_programs = leads.size
    distances = [_distances(boss, move) for move in boss.moves]
    numbers = np.repeat([i for i, several in enumerate(distances) for _ in several], n_programs)
    apart = np.repeat(np.concatenate(distances), n_programs)
    n_tries = len(numbers) // n_programs
    damage = _damage_of_tries(boss, numbers, apart, np.tile(leads.ravel(), n_tries), np.tile(ways.ravel(), n_tries))
    least = damage.reshape(n_tries, n_programs).min(axis=1)
    return tuple(dict.fromkeys(boss.moves[i].id for i in numbers[::n_programs][least > 0]))


def _distances(boss: Boss, move: Move) -> NDArray[np.float64]:
    """Return the distances between the centres from which a move is tried."""
    contact_m = boss.radius_m + 0.5
    low, high = np.clip(move.range_m, contact_m, MAX_DISTANCE_M)
    return np.unique([low, (low + high) / 2, high])


def _damage_of_tries(
    boss: Boss,
    numbers: NDArray[np.int64],
    distances: NDArray[np.float64],
    leads_s: NDArray[np.float64],
    rolls: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the damage of each try, (N,): a move from a distance, and a roll before each of its blows."""
    n_tries = len(numbers)
    simulator = Simulator(boss, n_tries, FightOptions(features=False, autoreset="disabled"))
    everyone = np.ones(n_tries, np.bool_)
    simulator.seed(np.arange(n_tries, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    fight, duels = simulator.fight[0], simulator.duels
    fight.p_max_hp, duels["p_hp"] = MUCH_HP, MUCH_HP
    fight.moves["n_follow_ups"] = 0
    fight.pause_low[:] = fight.pause_high[:] = 100 * TICKS_PER_S
    duels["b_x"], duels["b_y"] = boss.ground.centre_m
    duels["p_x"], duels["p_y"] = boss.ground.centre_m[0] + distances, boss.ground.centre_m[1]
    duels["p_fx"], duels["p_fy"] = -1.0, 0.0
    duels["c_fx"], duels["c_fy"], duels["b_fx"], duels["b_fy"] = -1.0, 0.0, 1.0, 0.0
    for i in range(n_tries):
        start_move(duels[i], fight, int(numbers[i]))
    blows = _blow_ticks(boss, simulator, distances, numbers)
    longest_s = max(move.duration_s for move in boss.moves) + FLIGHT_S
    for _ in range(round(longest_s * TICKS_PER_S / TICKS_PER_DECISION)):
        now = duels["b_ticks"][:, None]
        left = np.where(blows >= now, blows - now, 1e9).min(axis=1)
        attacks = duels["b_move"] >= 0
        is_due = (left <= leads_s * TICKS_PER_S + TICKS_PER_DECISION / 2) & (attacks | (duels["n_projectiles"] > 0))
        simulator.step(np.where(is_due & simulator.masks[:, FIRST_ROLL], rolls, NOTHING))
    damage: NDArray[np.float64] = duels["s_damage_taken"].copy()
    return damage


def _blow_ticks(
    boss: Boss, simulator: Simulator, distances: NDArray[np.float64], numbers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the ticks of a move at which its blows arrive, (N, MAX_WINDOWS); -1 for none."""
    fight = simulator.fight[0]
    blows = np.full((len(numbers), MAX_WINDOWS), -1.0)
    for i, number in enumerate(numbers):
        move = fight.moves[number]
        for j in range(move.n_windows):
            window = fight.windows[move.first_window + j]
            flight = (distances[i] - boss.radius_m) / window.speed if window.n_projectiles else 0.0
            blows[i, j] = window.start + flight
    return blows


def damage_factor(boss: Boss, win_share: float) -> float | None:
    """Return the factor of the boss's damage with which the reference player wins a share of its fights.

    What the reference player does depends on no damage. So it fights with more health than it can lose, and a fight
    counts as won with a factor if the damage times the factor is less than its health.

    Returns:
        The factor, or None if it defeats the boss in less than that share of the fights with any damage.
    """
    options = FightOptions(random_pose=True, features=False, states=True, autoreset="disabled")
    simulator = Simulator(boss, N_FIGHTS, options)
    full_hp = float(simulator.fight[0].p_max_hp)
    simulator.fight[0].p_max_hp = MUCH_HP
    everyone = np.ones(N_FIGHTS, np.bool_)
    simulator.seed(np.arange(N_FIGHTS, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    player = ReferencePlayer(boss, N_FIGHTS)
    player.begin(simulator.states, everyone)
    damage, has_ended = np.full(N_FIGHTS, np.inf), np.zeros(N_FIGHTS, np.bool_)
    for _ in range(MAX_DECISIONS):
        simulator.step(player.act(simulator.states, simulator.masks))
        ends = (simulator.duels["over"] == 1) & ~has_ended  # a fight that is over begins anew in the next step
        won = ends & (simulator.duels["won"] == 1)
        damage[won] = simulator.duels["s_damage_taken"][won]
        has_ended |= ends
        limit = float(np.sort(damage)[int(win_share * N_FIGHTS)])
        # Longer fights with more damage do not change the limit.
        if (simulator.duels["s_damage_taken"][~has_ended] >= limit).all():
            break
    return full_hp / max(limit, 1.0) if np.isfinite(limit) else None
