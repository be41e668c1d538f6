"""How the boss moves: its tracking and its steps in attacks, and its walks between them.

The motion between two moments is compared with what the rules can do in the ticks between them, so the estimates hold
for any rate of the recording; a lower rate widens the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_rules import TURN_COS
from soulslab.arena.fitting.attacks import NO_ATTACKS, Observations
from soulslab.arena.fitting.estimate import Estimate, between, exact, middle
from soulslab.arena.records import TICKS_PER_S

#: Turns and steps of at most this size per tick count as none (rad, m); data sets hold positions as float32.
STILL = 3e-4
#: An aim that is off by more than this would be corrected (rad).
OFF_RAD = 0.01
#: Number of saturated turns of which the median is the turn rate.
_FEW = 3
#: Time without a step between the steps to two windows, and from a turn to a window.
PAUSE_TICKS, AIM_TICKS = 8, 9
#: Place in its interval of the end of an aim, and of a turn rate, if only its limits were seen. With the end at its
#: earliest, a policy that won 46 % against the fitted frost beast won 5 % against the true one: it walked aside.
LATE_SHARE, FAST_SHARE = 0.8, 0.2
#: Gap from which on contact does not stop a step (m).
FREE_M = 0.3
#: Error of the mean speed of a step forward, as a share of its difference from the greatest speed.
UNEVEN_SHARE = 0.1
#: Factor of a step forward that was always stopped by contact.
STOPPED = 3.0
#: Widest walk or turn that is assumed if none was seen.
MAX_RATE = 8.0
#: A step is at most so many ticks shorter or longer because the start of its window is inexact.
MAX_SHIFT_TICKS = 2


class Steps(msgspec.Struct, frozen=True, eq=False):
    """Motion between neighbouring moments; arrays with one row for each pair.

    Attributes:
        attack: Index of the attack.
        k0: Ticks since its start at the first moment; ``k1`` at the second one.
        turn: Change of the facing in rad.
        off: Angle from the facing at the first moment to the player, in rad; ``off_after`` after the turn.
        ahead: Step along the facing in m.
        aside: Step to the left in m.
        gap: Gap after the step in m.
        distance: Distance of the centres before the step in m.
        course: Index of the fight; ``row`` of the second moment.
    """

    attack: NDArray[np.int64]
    k0: NDArray[np.int64]
    k1: NDArray[np.int64]
    turn: NDArray[np.float64]
    off: NDArray[np.float64]
    off_after: NDArray[np.float64]
    ahead: NDArray[np.float64]
    aside: NDArray[np.float64]
    gap: NDArray[np.float64]
    distance: NDArray[np.float64]
    course: NDArray[np.int64]
    row: NDArray[np.int64]

    def where(self, which: NDArray[np.bool_]) -> Steps:
        """Return some of the pairs."""
        return Steps(*(getattr(self, name)[which] for name in self.__struct_fields__))

    @property
    def n_ticks(self) -> NDArray[np.int64]:
        """Ticks between the two moments."""
        return self.k1 - self.k0


def steps_of(o: Observations, indices: Sequence[int]) -> Steps:
    """Return the motion between all neighbouring moments within some attacks.

    If enough of them were recorded at a higher rate than the others, only these are used: they show the motion exactly.
    """
    rates = np.array([o.courses[o.attacks[i].course].step for i in indices])
    finest = [i for i, rate in zip(indices, rates.tolist(), strict=True) if rate == rates.min()]
    indices = finest if len(finest) >= _FEW else indices
    names = Steps.__struct_fields__
    parts: list[list[NDArray[Any]]] = [[np.zeros(0)] * len(names)]
    for i in indices:
        attack = o.attacks[i]
        rows = np.arange(attack.first + 1, attack.last + 1)
        if not len(rows):
            continue
        c = o.courses[attack.course]
        before, after = c.facing[rows - 1], c.facing[rows]
        way, step = c.player_xy[rows - 1] - c.boss_xy[rows - 1], c.boss_xy[rows] - c.boss_xy[rows - 1]
        parts.append(
            [
                np.full(len(rows), i),
                c.boss_ticks[rows - 1],
                c.boss_ticks[rows],
                _angle(before, after),
                _angle(before, way),
                _angle(after, way),
                (step * after).sum(axis=1),
                after[:, 0] * step[:, 1] - after[:, 1] * step[:, 0],
                o.gap(c)[rows],
                c.distance[rows - 1],
                np.full(len(rows), attack.course),
                rows,
            ]
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    whole = ("attack", "k0", "k1", "course", "row")
    typed: list[Any] = [v.astype(np.int64) if name in whole else v for name, v in zip(names, columns, strict=True)]
    return Steps(*typed)


def _angle(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the signed angle from one direction to another, (T,)."""
    cross = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
    return np.arctan2(cross, (one * other).sum(axis=1))


class Tracking(msgspec.Struct, frozen=True):
    """Turn rate before a window, and the ticks of the attack in which it ends; None if it was not seen."""

    rate_rad_s: Estimate
    is_rate_known: bool
    end: Estimate | None


def tracking(steps: Steps, start: int, end: int) -> Tracking:
    """Return the tracking between two ticks of an attack: the previous window's end, and a window's start."""
    mine = steps.where((steps.k0 >= start - 1) & (steps.k1 <= end))
    rate, is_known = turn_rate(mine)
    is_turning = np.abs(mine.turn) > STILL * mine.n_ticks
    is_still = ~is_turning & (np.abs(mine.off) > OFF_RAD) & (np.abs(mine.off_after) > OFF_RAD)
    if not is_turning.any():
        return Tracking(rate, is_known, None)
    last_turn = int((mine.k0[is_turning] + 1).max())
    still = mine.k1[is_still & (mine.k0 >= last_turn)]
    # A boss that faces the player does not turn, so its aim ends later than its last turn.
    latest = max(int(still.min()) if len(still) else end, last_turn + 1)
    return Tracking(rate, is_known, between(last_turn + 1, latest, LATE_SHARE))


def turn_rate(steps: Steps) -> tuple[Estimate, bool]:
    """Return the turn rate in rad/s, and whether it was seen: in turns that do not reach the player's direction."""
    rates = np.abs(steps.turn) / np.maximum(steps.n_ticks, 1) * TICKS_PER_S
    is_short = (np.abs(steps.off_after) > OFF_RAD) & (np.abs(steps.off) > OFF_RAD)
    saturated = rates[is_short & (rates > STILL * TICKS_PER_S)]
    # A pair of moments may contain ticks without a turn, so the rate is the greatest value, if it was seen repeatedly.
    fastest = saturated[saturated >= 0.98 * saturated.max()] if len(saturated) else saturated
    if len(fastest) >= _FEW:
        rate = middle(fastest)
        return Estimate(rate, float(fastest.min()) - 1e-3, float(fastest.max()) * (1 + 1e-3)), True
    least = float(rates.max()) if len(rates) else 0.0
    if is_short.sum() >= _FEW and least < STILL * TICKS_PER_S:
        return exact(0.0), True
    return between(least, max(MAX_RATE, least), FAST_SHARE), False


class Advance(msgspec.Struct, frozen=True):
    """A step forward before a window: its distance in m, and its first tick, None without a step.

    ``is_known`` is False if contact with the player always stopped it.
    """

    distance_m: Estimate
    first: Estimate | None
    is_known: bool = True


def advance(steps: Steps, start: int, window_start: Estimate) -> Advance:
    """Return the step between the previous window's end and a window's start, in ticks of an attack."""
    end = round(window_start.value)
    mine = steps.where((steps.k0 >= start - 1) & (steps.k1 <= end))
    per_tick = mine.ahead / np.maximum(mine.n_ticks, 1)
    is_moving = per_tick > STILL
    if is_moving.sum() < 2:
        return Advance(exact(0.0, 0.02), None)
    # Contact stops the boss, and a pair of moments may contain ticks without a step.
    speed = float(np.sort(per_tick[is_moving])[-2])
    is_free = mine.gap > 2 * speed + 0.05
    first_step = int((mine.k1[is_moving]).min())
    if first_step >= end:
        return Advance(exact(0.0, 0.02), None)
    idle = mine.k1[~is_moving & is_free & (mine.k1 < first_step)]
    first = Estimate(first_step, min(int(idle.max()) + 1, first_step) if len(idle) else max(start, 1), first_step)
    # The boss moves until the window begins.
    earlier, later = (min(abs(each - end), MAX_SHIFT_TICKS) for each in (window_start.low, window_start.high))
    n_ticks = Estimate(end - first.value, max(end - first.high - earlier, 0), end - first.low + later)
    is_known = bool((is_free & (per_tick >= 0.95 * speed)).any())
    profile = _profile(mine.where(is_free), first_step, end)
    is_seen = ~np.isnan(profile)
    mean = min(float(_completed(profile, speed).mean()), speed)
    most = float(np.where(is_seen, profile, speed).mean()) if is_known else STOPPED * speed
    error = 0.02 + speed * 0.5 * (mine.n_ticks.max() - 1) + UNEVEN_SHARE * (speed - mean) * n_ticks.value
    if is_seen.any():
        error += 0.5 * float(np.ptp(profile[is_seen])) * int((~is_seen).sum())
    return Advance(
        Estimate(mean * n_ticks.value, max(mean * n_ticks.low - error, 0.0), most * n_ticks.high + error),
        first,
        is_known,
    )


def _profile(free: Steps, first: int, end: int) -> NDArray[np.float64]:
    """Return the mean step in each tick from the first one on (m), nan in ticks without a pair; a speed may change."""
    per_tick = free.ahead / np.maximum(free.n_ticks, 1)
    rows = [(free.k0 >= first - 1) & (free.k0 < k) & (free.k1 >= k) for k in range(first, end)]
    return np.array([per_tick[row].mean() if row.any() else np.nan for row in rows])


def _completed(profile: NDArray[np.float64], speed: float) -> NDArray[np.float64]:
    """Return the steps (m) with those that were not seen, because contact had stopped the boss.

    The speed continues to change as it did in the ticks that were seen. ``speed`` is the greatest one (m), which is
    assumed if fewer than two ticks were seen.
    """
    ticks, is_seen = np.arange(len(profile)), ~np.isnan(profile)
    if is_seen.sum() < 2:
        return np.where(is_seen, profile, speed)
    slope, start = np.polyfit(ticks[is_seen], profile[is_seen], 1)
    return np.where(is_seen, profile, np.clip(start + slope * ticks, 0.0, speed))


def starts_after_steps(steps: Steps, step: int) -> list[Estimate]:
    """Return where the windows of an attack begin if each follows a step forward, in ticks.

    Args:
        steps: The motion in the attack.
        step: Ticks between two moments.
    """
    is_step = steps.ahead > STILL * steps.n_ticks
    ends = np.unique(steps.k1[is_step])
    bursts = np.split(ends, np.flatnonzero(np.diff(ends) > PAUSE_TICKS + step) + 1)
    nexts = [int(burst.min()) for burst in bursts[1:]]
    starts = []
    for burst, following in zip_longest(bursts if len(ends) else [], nexts):
        last = int(burst.max())
        # Contact may have stopped the step before its end.
        is_free = (steps.gap[is_step & (steps.k1 == last)] > FREE_M).any()
        high = last + 1 if is_free else last + 4 * AIM_TICKS
        high = min(high, max(following, last + 1)) if following else high
        starts.append(Estimate(max(last + 1 - step // 2, 1), max(last + 1 - step, 1), high))
    return starts


def start_after_turn(steps: Steps, step: int) -> Estimate:
    """Return where the window of an attack begins if it follows the boss's last turn, in ticks."""
    turns = steps.k1[np.abs(steps.turn) > STILL * steps.n_ticks]
    last = int(turns.max()) if len(turns) else 0
    return Estimate(last + AIM_TICKS, max(last + 1 - step, 1), last + 4 * AIM_TICKS)


class Roaming(msgspec.Struct, frozen=True, kw_only=True):
    """Motion between attacks; None if it was not seen."""

    walk_m_s: Estimate | None
    run_m_s: Estimate | None
    run_beyond_m: Estimate | None
    turn_rad_s: Estimate | None
    near_m: Estimate | None
    far_m: Estimate | None


def roaming(o: Observations) -> Roaming:
    """Return the boss's motion between attacks."""
    walks = [i for i, attack in enumerate(o.attacks) if attack.animation in NO_ATTACKS and "Battle" in attack.animation]
    steps = steps_of(o, walks)
    # The boss turns on the spot if the player is far off its facing, at any distance.
    steps = steps.where((np.cos(steps.off) > TURN_COS + 0.05) & (steps.n_ticks > 0))
    names = np.array([o.attacks[i].animation for i in steps.attack])
    per_s = np.hypot(steps.ahead, steps.aside) / steps.n_ticks * TICKS_PER_S
    is_front, is_back = names == "WalkFrontBattle", names == "WalkBackBattle"
    is_between = np.isin(names, ("IdleBattle", "WalkLeftBattle", "WalkRightBattle"))
    rate, is_known = turn_rate(steps_of(o, walks))
    slow = per_s[(is_back | np.isin(names, ("WalkLeftBattle", "WalkRightBattle"))) & (per_s > 0.05)]
    walk = middle(slow) if len(slow) else None
    is_run = is_front & (per_s > 1.15 * walk) if walk is not None else np.zeros(len(names), np.bool_)
    is_walk = is_front & ~is_run
    is_exact = len(steps.n_ticks) > 0 and np.median(steps.n_ticks) == 1
    error, slack = (0.01, 0.0) if is_exact else (0.1, 0.1)
    return Roaming(
        walk_m_s=exact(walk, error) if walk is not None else None,
        run_m_s=exact(middle(per_s[is_run]), error) if is_run.sum() >= _FEW else None,
        run_beyond_m=_limit(steps.distance[is_walk], steps.distance[is_run], slack),
        turn_rad_s=rate if is_known else None,
        near_m=_limit(steps.distance[is_back], steps.distance[is_between], slack),
        far_m=_limit(steps.distance[is_between], steps.distance[is_front], slack),
    )


def _limit(below: NDArray[np.float64], above: NDArray[np.float64], error: float) -> Estimate | None:
    """Return the limit between two kinds of distances, of which few may be on the wrong side."""
    if len(below) < _FEW or len(above) < _FEW:
        return None
    # The animation of a moment is that of its last tick, so some pairs show the motion of the other kind.
    low, high = sorted((float(np.quantile(below, 0.995)), float(np.quantile(above, 0.005))))
    return Estimate((low + high) / 2, low - error, high + error)
