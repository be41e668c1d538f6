"""The reference player: a script that fights well by knowing the moves, and sees the boss only 200 ms late.

It is the measure of a fair fight (a boss should lose to it most of the time, but not always) and writes the recorded
fights that learners can start from. It uses what a practised human knows: when each move of the boss hurts, how far
it reaches, and how long the boss is open afterwards. Its own state it knows at once, as its hands do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss import PARRY_STUN, STAGGER
from soulslab.arena.boss_file import Boss
from soulslab.arena.kernel import kernel
from soulslab.arena.knight import load_knight
from soulslab.arena.state import DECISION_S, TICKS_PER_S, Record, Table
from soulslab.arena.tables import fight_table
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, FIRST_ROLL, LIGHT_ATTACK, NOTHING

#: Decisions that a sight of the boss takes to arrive: 0.2 s, a good human's reaction.
DELAY = 2
_VIEW: np.dtype[Any] = np.dtype(
    (np.record, [("animation", "i8"), ("time_s", "f8"), ("x", "f8"), ("y", "f8"), ("angle", "f8")])
)

# What it decides by. Times in s, distances in m, stamina in points.
ROLL_BEFORE_S = 0.17
ATTACK_TAKES_S = 0.75
PUNISH_S = 0.5
MARGIN_M = 0.7
STRIKE_M = 2.2
ENOUGH_SP = 38.0
#: No blow in sight.
NO_THREAT_S = 100.0

FORWARD, FORWARD_RIGHT, BACKWARD = 0, 1, 4


@kernel
def _next_threat(f: Record, m: Record, now_s: float, gap_m: float) -> float:
    """Return the seconds until the next window of a move that can reach the player; a large number if none can."""
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
    """Return the seconds until the next blow that can reach the player, and for how long the boss is open."""
    if view.animation in (STAGGER, PARRY_STUN):
        return NO_THREAT_S, 1.0
    # Attack1500 is in no vocabulary: whatever is unknown is taken for the change of phase.
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
    """Return the action of one player.

    Args:
        s: The present `DUEL_STATE`; only the player's part is used.
        view: What the boss looked like 200 ms ago.
        f: The fight's tables.
        move_of: Move by boss animation, -1 for none.
        mask: (A,) open actions.
    """
    dx, dy = view.x - s.player_pose[0], view.y - s.player_pose[1]
    gap = math.sqrt(dx * dx + dy * dy) - f.p_radius - f.b_radius
    threat_s, open_s = _read_boss(view, f, move_of, gap)
    if threat_s <= ROLL_BEFORE_S:
        # Past the boss's side: out of a thrust's line, under a sweep, and near enough to strike back.
        return FIRST_ROLL + FORWARD_RIGHT if mask[FIRST_ROLL] else NOTHING
    if threat_s < ATTACK_TAKES_S:
        return NOTHING
    if open_s >= PUNISH_S and gap <= STRIKE_M and s.player_sp >= ENOUGH_SP and mask[LIGHT_ATTACK]:
        return LIGHT_ATTACK
    return _step(gap, open_s) if mask[FORWARD] else NOTHING


@kernel
def _step(gap_m: float, open_s: float) -> int:
    """Keep the distance: close to an open boss, a step away from any other."""
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
    fight: Table,
    move_of: NDArray[np.int64],
    masks: NDArray[np.bool_],
    actions: NDArray[np.int64],
) -> None:
    """Decide for all players, and remember in ``seen`` (DELAY + 1, N) what the bosses look like now."""
    oldest = (place + 1) % seen.shape[0]
    for i in range(states.shape[0]):
        s, new = states[i], seen[place, i]
        new.animation, new.time_s = s.boss_animation, s.boss_animation_duration
        new.x, new.y, new.angle = s.boss_pose[0], s.boss_pose[1], s.boss_pose[3]
        actions[i] = _decide(s, seen[oldest, i], fight[0], move_of, masks[i])


class ReferencePlayer:
    """Plays N fights against one boss at once.

    Args:
        boss: The boss that it knows.
        n_duels: N.
    """

    def __init__(self, boss: Boss, n_duels: int) -> None:
        self._fight = fight_table(boss, load_knight())
        self._move_of = np.full(len(BOSS_ANIMATIONS), -1, np.int64)
        for i, move in enumerate(boss.moves):
            if move.animation in BOSS_ANIMATIONS:
                self._move_of[BOSS_ANIMATIONS.index(move.animation)] = i
        self._seen = np.zeros((DELAY + 1, n_duels), _VIEW)
        self._place = 0
        self._actions = np.zeros(n_duels, np.int64)

    def begin(self, states: NDArray[np.record], which: NDArray[np.bool_]) -> None:
        """Look at fresh fights: ``states`` (N,) `DUEL_STATE`, ``which`` (N,) of them are new."""
        for name, field in (("animation", "boss_animation"), ("time_s", "boss_animation_duration")):
            self._seen[name][:, which] = states[field][which]
        for i, name in enumerate(("x", "y")):
            self._seen[name][:, which] = states["boss_pose"][which, i]

    def act(self, states: NDArray[np.record], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return an action for each fight, (N,) int64, overwritten by the next call.

        Args:
            states: (N,) `DUEL_STATE` records; the boss's part of them is used 200 ms later.
            masks: (N, A) open actions.
        """
        self._place = (self._place + 1) % len(self._seen)
        _act(states, self._seen, self._place, self._fight, self._move_of, masks, self._actions)
        return self._actions
