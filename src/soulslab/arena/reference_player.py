"""The reference player: a script that knows the boss's moves, and sees the boss with a delay of 200 ms.

It measures whether a fight is fair (it should win most of the fights against a boss, but not all), and it writes the
recorded fights that learners can start from. It uses the knowledge of a practised human: when each move of the boss
hits, how far it reaches, and how long the boss is open afterwards. It sees its own state without delay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.boss_rules import PARRY_STUN, STAGGER
from soulslab.arena.fight_table import fight_table
from soulslab.arena.kernel import kernel
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, FIGHT, TICKS_PER_S, Record, Table
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, FIRST_ROLL, LIGHT_ATTACK, NOTHING

#: Delay of what it sees of the boss, in decisions: 0.2 s, a good human's reaction time.
DELAY = 2
_VIEW: np.dtype[Any] = np.dtype(
    (np.record, [("animation", "i8"), ("time_s", "f8"), ("x", "f8"), ("y", "f8"), ("angle", "f8")])
)

# Parameters of its decisions. Times in s, distances in m, stamina in points.
ROLL_BEFORE_S = 0.17
ATTACK_TAKES_S = 0.75
PUNISH_S = 0.5
MARGIN_M = 0.7
STRIKE_M = 2.2
ENOUGH_SP = 38.0
#: Result of `_next_threat` if no attack can reach the player.
NO_THREAT_S = 100.0

FORWARD, FORWARD_RIGHT, BACKWARD = 0, 1, 4


@kernel
def _next_threat(f: Record, m: Record, now_s: float, gap_m: float) -> float:
    """Return the seconds until the next window of a move that can reach the player, or `NO_THREAT_S`."""
    for i in range(m.first_window, m.first_window + m.n_windows):
        w = f.windows[i]
        start_s, end_s = w.start / TICKS_PER_S, w.end / TICKS_PER_S
        if w.n_projectiles > 0:
            arrives_s = start_s + gap_m / (w.speed * TICKS_PER_S)
            if now_s <= arrives_s:
                return arrives_s - now_s
            continue
        if end_s <= now_s:
            continue
        still_to_go = w.advance * (w.start - max(w.advance_from, now_s * TICKS_PER_S))
        if gap_m <= w.reach + max(still_to_go, 0.0) + MARGIN_M:
            return max(start_s - now_s, 0.0)
    return NO_THREAT_S


@kernel
def _read_boss(view: Record, f: Record, move_of: NDArray[np.int64], gap_m: float) -> tuple[float, float]:
    """Return the seconds until the next attack that can reach the player, and for how long the boss is open."""
    if view.animation in (STAGGER, PARRY_STUN):
        return NO_THREAT_S, 1.0
    # Attack1500 is not in the vocabulary: an unknown animation is treated as the change of phase.
    number = move_of[view.animation] if view.animation >= 0 else f.phase_two_move
    if number < 0:
        return NO_THREAT_S, 0.0
    m = f.moves[number]
    now_s = view.time_s + DELAY * DECISION_S
    threat_s = _next_threat(f, m, now_s, gap_m)
    if threat_s < NO_THREAT_S:
        return threat_s, threat_s
    last_end_s = f.windows[m.first_window + m.n_windows - 1].end / TICKS_PER_S
    return NO_THREAT_S, m.duration / TICKS_PER_S - now_s if now_s >= last_end_s else 0.0


@kernel
def _decide(s: Record, view: Record, f: Record, move_of: NDArray[np.int64], mask: NDArray[np.bool_]) -> int:
    """Choose the action of one player from its state and the boss as it was 200 ms ago.

    Only the player's fields of the `DUEL_STATE` are used. ``move_of`` has the move number of each boss animation, -1
    for none; ``mask`` (A,) has the open actions.
    """
    dx, dy = view.x - s.player_pose[0], view.y - s.player_pose[1]
    gap = math.sqrt(dx * dx + dy * dy) - f.p_radius - f.b_radius
    threat_s, open_s = _read_boss(view, f, move_of, gap)
    if threat_s <= ROLL_BEFORE_S:
        # Roll past the boss's side: out of the line of a thrust, under a sweep, and near enough to attack.
        return FIRST_ROLL + FORWARD_RIGHT if mask[FIRST_ROLL] else NOTHING
    if threat_s < ATTACK_TAKES_S:
        return NOTHING
    if open_s >= PUNISH_S and gap <= STRIKE_M and s.player_sp >= ENOUGH_SP and mask[LIGHT_ATTACK]:
        return LIGHT_ATTACK
    return _step(gap, open_s) if mask[FORWARD] else NOTHING


@kernel
def _step(gap_m: float, open_s: float) -> int:
    """Return a step that keeps the distance: close to an open boss, one step farther from any other."""
    if gap_m > (0.8 if open_s > 0.0 else 1.6):
        return FORWARD
    if gap_m < 0.9 and open_s <= 0.0:
        return BACKWARD
    return NOTHING


@kernel
def _act(
    states: Table,
    seen: Table,
    place: int,
    fights: Table,
    boss_of: NDArray[np.int64],
    move_of: NDArray[np.int64],
    masks: NDArray[np.bool_],
    actions: NDArray[np.int64],
) -> None:
    """Decide for all players, and store the present view of the bosses in ``seen`` (DELAY + 1, N)."""
    oldest = (place + 1) % seen.shape[0]
    for i in range(states.shape[0]):
        s, new = states[i], seen[place, i]
        new.animation, new.time_s = s.boss_animation, s.boss_animation_duration
        new.x, new.y, new.angle = s.boss_pose[0], s.boss_pose[1], s.boss_pose[3]
        actions[i] = _decide(s, seen[oldest, i], fights[boss_of[i]], move_of[boss_of[i]], masks[i])


class ReferencePlayer:
    """Plays N fights in parallel, against one boss, or against any of K bosses."""

    def __init__(
        self, boss: Boss | Sequence[Boss], n_duels: int, boss_of: NDArray[np.integer[Any]] | None = None
    ) -> None:
        """Make the player; ``boss_of`` (N,) has the number of each fight's boss, 0 to K - 1; None is always 0."""
        bosses = [boss] if isinstance(boss, Boss) else boss
        self._boss_of = np.zeros(n_duels, np.int64) if boss_of is None else np.array(boss_of, np.int64)
        self._fights = np.zeros(len(bosses), FIGHT)
        self._move_of = np.full((len(bosses), len(BOSS_ANIMATIONS)), -1, np.int64)
        for row, each in enumerate(bosses):
            self._fights[row] = fight_table(each, load_knight())[0]
            for i, move in enumerate(each.moves):
                if move.animation in BOSS_ANIMATIONS:
                    self._move_of[row, BOSS_ANIMATIONS.index(move.animation)] = i
        self._seen = np.zeros((DELAY + 1, n_duels), _VIEW)
        self._place = 0
        self._actions = np.zeros(n_duels, np.int64)

    def begin(self, states: NDArray[np.record], which: NDArray[np.bool_]) -> None:
        """Observe the fights that are new: those of the (N,) `DUEL_STATE` records that are set in ``which`` (N,)."""
        for name, field in (("animation", "boss_animation"), ("time_s", "boss_animation_duration")):
            self._seen[name][:, which] = states[field][which]
        for i, name in enumerate(("x", "y")):
            self._seen[name][:, which] = states["boss_pose"][which, i]

    def act(self, states: NDArray[np.record], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Choose an action for each fight, (N,) int64, overwritten by the next call.

        The boss's fields of the (N,) `DUEL_STATE` records are used 200 ms later; ``masks`` are (N, A).
        """
        self._place = (self._place + 1) % len(self._seen)
        _act(states, self._seen, self._place, self._fights, self._boss_of, self._move_of, masks, self._actions)
        return self._actions
