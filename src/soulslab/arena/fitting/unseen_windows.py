"""The windows of attacks that never hit: from the boss's motion, and from how players avoided them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from soulslab.arena.fitting.attacks import Observations
from soulslab.arena.fitting.choices import Choice
from soulslab.arena.fitting.estimate import Estimate, between
from soulslab.arena.fitting.hit_windows import FULL_RAD, LONGEST_TICKS, USUAL_TICKS, Area, HitWindow, risk_of

#: The 90 % interval of the reach (m), and the least and the usual arc (rad).
REACH_M = (0.5, 6.0)
LEAST_ARC_RAD, USUAL_ARC_RAD = 0.6, 1.8
#: An attack that is begun at a greater bearing of the player (rad) hits all around. In recordings of 11 bosses, attacks
#: that hit ahead were begun at 0.94 at most.
BESIDE_RAD = 1.2
#: Players avoid a window if for so many ticks at most this share of those that were near the boss before is open to a
#: hit, and if there were at least so many.
AVOIDED_TICKS, AVOIDED_SHARE, MIN_AVOIDED = 8, 0.1, 5


def hit_around(found: Sequence[Choice], animations: Sequence[str], phase_two_move: str | None) -> frozenset[str]:
    """Return the attacks that are assumed to hit all around the boss if they never hit anyone.

    These are the attacks that the boss also begins with the player beside or behind it, and the one that changes its
    phase. Without this assumption, policies stood behind a boss that attacks all around it.

    Args:
        found: All choices of attacks.
        animations: The attacks; ``Choice.chosen`` is an index of them.
        phase_two_move: The attack that changes the phase, if it was seen.
    """
    beside = {animations[each.chosen] for each in found if each.bearing > BESIDE_RAD}
    return frozenset(beside | {phase_two_move} if phase_two_move else beside)


def unseen_window(
    o: Observations, indices: Sequence[int], start: Estimate, duration: int, *, since: float, is_around: bool
) -> HitWindow:
    """Return a window that never hit anyone, a guess from the boss's motion and from how players avoided it.

    The area is assumed to contain the direction in which the player was when the boss began to aim, and to be a full
    circle if a usual arc would not.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        start: Likely start of the window in ticks.
        duration: Duration of the attack in ticks.
        since: Tick at which the boss begins to aim: that of the window before, or 0.
        is_around: Whether the attack is assumed to hit all around the boss.
    """
    off = _median_off(o, indices, since, start.value)
    reach = between(*REACH_M, 0.35)
    least_arc = max(2.0 * off, LEAST_ARC_RAD)
    start = _avoided(o, indices, start, reach.value, max(off, LEAST_ARC_RAD))
    value = min(start.value, max(duration - 1, 1))
    area = Area(
        reach_m=reach,
        arc_rad=Estimate(FULL_RAD if is_around or least_arc > USUAL_ARC_RAD else USUAL_ARC_RAD, least_arc, FULL_RAD),
        facing_rad=0.0,
        is_reach_bounded=False,
        is_arc_bounded=False,
        misses=np.zeros((0, 2)),
    )
    return HitWindow(
        start=Estimate(value, min(start.low, value), max(start.high, value)),
        end=Estimate(value + USUAL_TICKS, value + 1, value + LONGEST_TICKS),
        is_end_bounded=False,
        hits=(),
        area=area,
        is_parried=None,
    )


def _avoided(o: Observations, indices: Sequence[int], start: Estimate, near_m: float, half_rad: float) -> Estimate:
    """Return the start of a window that players avoided: the tick from which hardly any was open near the boss.

    Without such a tick, return the likely start. The ticks after the end of an attack show nothing.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        start: Likely start of the window in ticks.
        near_m: Greatest gap of a player near the boss.
        half_rad: Greatest angle between the boss's facing and a player near it.
    """
    risk = risk_of(o, indices)
    near = risk.where((risk.gap <= near_m) & (np.abs(risk.bearing) <= half_rad))
    low, high = int(start.low), int(start.high)
    # At a lower rate, each attack has a moment in ``step`` ticks.
    n_open = np.convolve(np.bincount(near.k, minlength=high + AVOIDED_TICKS + 1), np.ones(o.step))[o.step - 1 :]
    ends = np.array([o.courses[o.attacks[i].course].boss_ticks[o.attacks[i].last] for i in indices])
    was_avoided = True
    for k in range(max(low - AVOIDED_TICKS, 1), high + 1):
        n_near = min(n_open[:k].max(), (ends >= k + AVOIDED_TICKS).sum())
        is_avoided = bool((n_open[k : k + AVOIDED_TICKS] <= AVOIDED_SHARE * n_near).all())
        if is_avoided and not was_avoided and n_near >= MIN_AVOIDED:
            value, first, last = np.clip((k + 1, k - 1, k + AVOIDED_TICKS), low, high).tolist()
            return Estimate(value, first, last)
        was_avoided = is_avoided
    return start


def _median_off(o: Observations, indices: Sequence[int], since: float, until: float) -> float:
    """Return the median angle (0 to pi) from the boss's facing at one tick to the player's place at an earlier one."""
    off = []
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        ticks = course.boss_ticks[attack.first : attack.last + 1]
        aimed, struck = attack.first + np.minimum(np.searchsorted(ticks, (since, until)), len(ticks) - 1)
        way, facing = course.player_xy[aimed] - course.boss_xy[aimed], course.facing[struck]
        off.append(abs(np.arctan2(facing[0] * way[1] - facing[1] * way[0], facing @ way)))
    return float(np.median(off))
