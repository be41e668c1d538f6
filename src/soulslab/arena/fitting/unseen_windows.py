"""Assumptions about windows that never hit, and about areas that no near miss bounds.

Windows come from the boss's motion, and from how players avoided the attacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from soulslab.arena.boss_file import MAX_WINDOWS
from soulslab.arena.fight_table import ticks
from soulslab.arena.fitting.attacks import Observations
from soulslab.arena.fitting.choices import Choice
from soulslab.arena.fitting.estimate import Estimate, between
from soulslab.arena.fitting.hit_windows import (
    FULL_RAD,
    SPLIT_TICKS,
    USUAL_TICKS,
    Area,
    HitWindow,
    risk_of,
)
from soulslab.arena.fitting.motion import start_after_turn, starts_after_steps, steps_of
from soulslab.arena.fitting.projectiles import Throw

#: The reach (m), and the least and the usual arc (rad).
REACH_M = between(0.5, 6.0, 0.35)
LEAST_ARC_RAD, USUAL_ARC_RAD = 0.6, 1.8
#: An attack that is begun at a greater bearing of the player (rad) is assumed to hit all around. In recordings of 11
#: bosses of the simulator, attacks that hit only ahead were begun at 0.94 at most.
BESIDE_RAD = 1.2
#: Likely and longest reach of a change of phase (m). In the simulator and in many games it is an explosion.
EXPLOSION_M, FAR_EXPLOSION_M = 5.0, 8.0
#: Players avoid a window if for so many ticks at most this share of those that were near the boss before is open to a
#: hit, and if there were at least so many. After a step forward, one is enough.
AVOIDED_TICKS, AVOIDED_SHARE, MIN_AVOIDED = 8, 0.1, 5
#: Length of a window that never hit, if a roll protects so long. Most windows that hit are shorter, but a policy that
#: relies on a short window leaves its roll too early.
AVOIDED_LENGTH_TICKS = 15
#: Likely time from the first of these ticks to the start of the window: the reference player rolls so many ticks early.
AVOIDED_EARLY = 3


class Assumptions(msgspec.Struct, frozen=True):
    """Assumptions about the areas of attacks that no near miss bounds.

    Attributes:
        around: Attacks that hit all around the boss, unless all their hits were behind it. Without this assumption,
            policies stood behind a boss that attacks all around it.
        explosion: The attack that changes the phase, which reaches far; None if it was not seen.
    """

    around: frozenset[str]
    explosion: str | None

    def apply(self, animation: str, window: HitWindow) -> HitWindow:
        """Return a window of an attack with the assumed area; limits that near misses set stay."""
        area = window.area
        reach, arc = area.reach_m, area.arc_rad
        if animation in self.around and not area.is_arc_bounded and np.cos(area.facing_rad) > 0:
            arc = Estimate(FULL_RAD, arc.low, FULL_RAD)
        if animation == self.explosion and not area.is_reach_bounded:
            reach = Estimate(max(reach.value, EXPLOSION_M), reach.low, max(reach.high, FAR_EXPLOSION_M))
        area = msgspec.structs.replace(area, reach_m=reach, arc_rad=arc)
        return msgspec.structs.replace(window, area=area)


def assume(found: Sequence[Choice], animations: Sequence[str], phase_two_move: str | None) -> Assumptions:
    """Return the assumptions from the boss's choices.

    The attacks that the boss also begins with the player beside or behind it, and the change of phase, hit all around.

    Args:
        found: All choices of attacks.
        animations: The attacks; ``Choice.chosen`` is an index of them.
        phase_two_move: The attack that changes the phase, if it was seen.
    """
    beside = {animations[each.chosen] for each in found if each.bearing > BESIDE_RAD}
    return Assumptions(frozenset(beside | {phase_two_move} if phase_two_move else beside), phase_two_move)


def unseen_windows(o: Observations, indices: Sequence[int], duration: int) -> list[HitWindow]:
    """Return the windows of an attack that never hit anyone, guesses from the boss's motion and the players' rolls.

    Each window follows a step forward of the boss. An attack without a step has a window for each time at which the
    players began to avoid it. If there is no such time, it has one window after the boss's last turn.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        duration: Duration of the attack in ticks.
    """
    steps = steps_of(o, indices)
    starts = starts_after_steps(steps, o.step)
    if not starts:
        after_turn = start_after_turn(steps, o.step)
        starts = _avoided(o, indices, (1, duration), REACH_M.value, np.pi) or [after_turn]
    windows: list[HitWindow] = []
    for start in starts[:MAX_WINDOWS]:
        since = windows[-1].start.value + USUAL_TICKS if windows else 0.0  # the assumed end may be too late
        window = _unseen_window(o, indices, start, duration, since=since)
        if window.start.value >= since:
            windows.append(window)
    return windows


def _unseen_window(
    o: Observations, indices: Sequence[int], start: Estimate, duration: int, *, since: float
) -> HitWindow:
    """Return a window that never hit anyone, a guess from the boss's motion and from how players avoided it.

    The area is assumed to contain the direction in which the player was when the boss began to aim, and to be a full
    circle if a usual arc would not.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        start: Likely start of the window in ticks.
        duration: Duration of the attack in ticks.
        since: Tick at which the boss begins to aim: the likely end of the window before, or 0.
    """
    off = _median_off(o, indices, since, start.value)
    least_arc = max(2.0 * off, LEAST_ARC_RAD)
    avoided = _avoided(o, indices, (int(start.low), int(start.high)), REACH_M.value, max(off, LEAST_ARC_RAD))
    start = avoided[0] if avoided else start
    value = min(start.value, max(duration - 1, 1))
    protected_from, protected_until = map(ticks, o.knight.roll.invulnerable_s)
    longest = protected_until - protected_from
    latest = max(duration, value + 1)
    area = Area(
        reach_m=REACH_M,
        arc_rad=Estimate(FULL_RAD if least_arc > USUAL_ARC_RAD else USUAL_ARC_RAD, least_arc, FULL_RAD),
        facing_rad=0.0,
        is_reach_bounded=False,
        is_arc_bounded=False,
        misses=np.zeros((0, 2)),
    )
    return HitWindow(
        start=Estimate(value, min(start.low, value), max(start.high, value)),
        end=Estimate(
            min(value + min(AVOIDED_LENGTH_TICKS, longest), latest),
            value + 1,
            max(min(value + longest, latest), value + 1),
        ),
        is_end_bounded=False,
        hits=(),
        area=area,
        is_parried=None,
    )


def overlooked_windows(
    o: Observations, indices: Sequence[int], found: Sequence[HitWindow], duration: int
) -> list[HitWindow]:
    """Return windows that never hit beside those of the same attack that did, guesses like `unseen_windows`.

    Each follows a step forward. Players near the boss rolled then, and hardly any in front of it was open to a hit.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        found: The windows that hit, in order.
        duration: Duration of the attack in ticks.
    """
    hit_at = {hit.attack: hit.k for each in reversed(found) for hit in each.hits}
    windows: list[HitWindow] = []
    for start in starts_after_steps(steps_of(o, indices), o.step):
        since = max((each.end.value for each in (*found, *windows) if each.end.value <= start.value), default=0.0)
        window = _unseen_window(o, indices, start, duration, since=since)
        begins = (start.value, window.start.value)
        low, high = min(begins) - SPLIT_TICKS, max(begins) + SPLIT_TICKS
        ends = [each.end.high for each in found] + [each.start.value + USUAL_TICKS for each in windows]
        if any(low < end and each.start.low < high for end, each in zip(ends, (*found, *windows), strict=True)):
            continue
        k = round(window.start.value)
        n_rolled, n_open = _reactions(o, [i for i in indices if hit_at.get(i, k) >= k], k)
        if n_rolled and n_open <= AVOIDED_SHARE * n_rolled:
            windows.append(window)
    return windows


def cut_overlaps(windows: Sequence[HitWindow | Throw]) -> list[HitWindow | Throw]:
    """Return the windows of an attack, in order, of which none ends after the start of the next one.

    Throws have no end.
    """
    starts = [window.start.value for window in windows[1:]]
    return [_ending_by(window, start) for window, start in zip(windows, [*starts, math.inf], strict=True)]


def _ending_by(window: HitWindow | Throw, latest: float) -> HitWindow | Throw:
    if isinstance(window, Throw) or window.end.high <= latest:
        return window
    end = Estimate(*(min(each, latest) for each in (window.end.value, window.end.low, window.end.high)))
    return msgspec.structs.replace(window, end=end)


def _reactions(o: Observations, indices: Sequence[int], start: int) -> tuple[int, int]:
    """Return in how many attacks the player near the boss was not open in a window, and in how many it was, in front.

    Attacks that ended earlier do not count.
    """
    n_rolled = n_open = 0
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        rows = np.arange(attack.first, attack.last + 1)
        k = course.boss_ticks[rows]
        if k[-1] < start + USUAL_TICKS - course.step:
            continue
        rows = rows[(k >= start) & (k < start + USUAL_TICKS)]
        rows = rows[o.gap(course)[rows] <= REACH_M.value]
        is_open = course.is_open[rows]
        n_rolled += bool(len(rows) and not is_open.any())
        n_open += bool((is_open & (np.abs(course.bearing[rows]) <= USUAL_ARC_RAD / 2)).any())
    return n_rolled, n_open


def _avoided(
    o: Observations, indices: Sequence[int], within: tuple[int, int], near_m: float, half_rad: float
) -> list[Estimate]:
    """Return the starts of the windows that players avoided: from these ticks on, hardly any was open near the boss.

    The ticks after the end of an attack show nothing.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        within: First and last tick of the starts.
        near_m: Greatest gap of a player near the boss.
        half_rad: Greatest angle between the boss's facing and a player near it.
    """
    risk = risk_of(o, indices)
    near = risk.where((risk.gap <= near_m) & (np.abs(risk.bearing) <= half_rad))
    low, high = within
    n_open = np.zeros(max(int(near.k.max(initial=0)), high + AVOIDED_TICKS) + 1)
    steps = np.array([o.courses[attack.course].step for attack in o.attacks])[near.attack]
    for step in np.unique(steps):
        # Each attack has a moment in ``step`` ticks.
        counts = np.bincount(near.k[steps == step], minlength=len(n_open))
        n_open += np.convolve(counts, np.ones(step))[step - 1 :]
    ends = np.array([o.courses[o.attacks[i].course].boss_ticks[o.attacks[i].last] for i in indices])
    starts = []
    was_avoided = True
    for k in range(max(low - AVOIDED_TICKS, 1), high + 1):
        n_near = min(n_open[:k].max(), (ends >= k + AVOIDED_TICKS).sum())
        is_avoided = bool((n_open[k : k + AVOIDED_TICKS] <= AVOIDED_SHARE * n_near).all())
        if is_avoided and not was_avoided and n_near >= MIN_AVOIDED:
            value, first, last = np.clip((k + AVOIDED_EARLY, k - 1, k + AVOIDED_TICKS), low, high).tolist()
            starts.append(Estimate(value, first, last))
        was_avoided = is_avoided
    return starts


def _median_off(o: Observations, indices: Sequence[int], since: float, until: float) -> float:
    """Return the median angle (0 to pi) from the boss's facing at one tick to the player's place at an earlier one."""
    off = []
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        passed = course.boss_ticks[attack.first : attack.last + 1]
        aimed, struck = attack.first + np.minimum(np.searchsorted(passed, (since, until)), len(passed) - 1)
        way, facing = course.player_xy[aimed] - course.boss_xy[aimed], course.facing[struck]
        off.append(abs(np.arctan2(facing[0] * way[1] - facing[1] * way[0], facing @ way)))
    return float(np.median(off))
