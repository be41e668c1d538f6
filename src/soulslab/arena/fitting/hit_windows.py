"""The periods of an attack in which it hits, and the area that it hits: from hits and near misses.

A near miss is a moment in which a hit would have hurt the player, and none did. In a window it bounds reach and arc,
outside of it the window's times. The number of windows is not known: hits belong to different windows if their damage
or the player's animation after them differ, or if near misses lie between them.

In the simulator a window hits its whole area from its first tick on, the area is a sector, and all hits have the same
damage. Recordings show whether a boss obeys these rules. If the player was often open in the area of the hits and was
not hit, or later, the areas are *irregular*: a blade may pass through them, or they may be longer on one side. A near
miss is then an attack in which the player was open during the whole window, and it bounds the area only where hits are
near. If the hits of windows have several damages, only the player's animation shows which hits belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.fitting.attacks import PARRIED, Columns, Hit, Observations
from soulslab.arena.fitting.estimate import Estimate
from soulslab.arena.fitting.vitals import VARIED_HP

#: Hits that are farther apart belong to different windows (s. `_split`).
SPLIT_TICKS = 15
#: So many attacks with near misses between two hits show that the hits belong to different windows. Fewer may be
#: outside of the area: the widest hit and the farthest one need not be the same.
N_BETWEEN = 3
#: So many hits in the same tick show that a window opens in it.
N_AT_START = 3
#: A boss with so many windows that have near misses in the area of the hits, or several damages, does not obey the
#: rules of the simulator. There, only a projectile that looks like a blade has such near misses.
N_IRREGULAR, N_VARIED = 2, 3
#: A near miss of an irregular area bounds the reach if a hit of at least this share of the farthest one is within this
#: angle (rad).
ALIKE_SHARE, ALIKE_RAD = 0.7, 0.35
#: Lengths of a window that are assumed if nothing bounds it.
USUAL_TICKS, LONGEST_TICKS = 10, 20
#: Full circle, and the half arc beyond which hits show one.
FULL_RAD, ALMOST_FULL_RAD = 6.2832, 2.75
#: Share of the prior of an arc that is a full circle.
FULL_SHARE = 0.3
#: Scales of the exponential priors of a reach beyond the farthest hit, and of a half arc beyond the widest one.
BEYOND_M, BEYOND_RAD = 0.6, 0.7
#: Farthest reach beyond the farthest hit that is considered (m), and the share of the prior that is uniform up to it if
#: no near miss bounded the reach: at least this share, all of it after a single hit or if few areas were bounded, and
#: half of it after two hits. Without this share, policies relied on short reaches that no recording had shown.
FARTHEST_M, UNIFORM_SHARE = 5.0, 0.3
#: Share of the prior that is like the other areas of the boss if there are enough of them, and its spread (m, rad).
OTHERS_SHARE, MIN_OTHERS, SPREAD = 0.7, 3, 0.4
_GRID = 81


class Risk(Columns, frozen=True, eq=False):
    """Moments of an attack in which a hit would hurt the player; arrays with one row for each.

    ``attack`` is the index of the attack, ``k`` the ticks since its start, ``is_hit`` whether it was hit then.
    """

    attack: NDArray[np.int64]
    k: NDArray[np.int64]
    gap: NDArray[np.float64]
    bearing: NDArray[np.float64]
    is_hit: NDArray[np.bool_]


class Area(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The area that a window hits.

    Attributes:
        reach_m: Reach beyond the bodies.
        arc_rad: Full width of the arc.
        facing_rad: Middle of the arc.
        is_reach_bounded: Whether near misses bounded the reach; ``is_arc_bounded`` likewise.
        is_contradicted: Whether there were near misses in the area of the hits.
        misses: (M, 2) gap and bearing of the near misses in the window.
    """

    reach_m: Estimate
    arc_rad: Estimate
    facing_rad: float
    is_reach_bounded: bool
    is_arc_bounded: bool
    is_contradicted: bool = False
    misses: NDArray[np.float64]


class OtherAreas(msgspec.Struct, frozen=True):
    """Areas of the same boss that near misses bounded: an area that none bounded is assumed to be like these.

    Attributes:
        reaches_m: Their reaches; ``halves_rad`` their half arcs.
        are_irregular: Whether the areas of the boss are irregular.
        damages_vary: Whether the hits of a window have several damages.
    """

    reaches_m: tuple[float, ...] = ()
    halves_rad: tuple[float, ...] = ()
    are_irregular: bool = False
    damages_vary: bool = False


NO_OTHERS = OtherAreas()


class HitWindow(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A period in which an attack hits. Times are in ticks since its start.

    Attributes:
        start: First tick in which it hits.
        end: First tick after it.
        is_end_bounded: Whether a near miss bounded the end.
        hits: The hits in it.
        area: The area that it hits.
        is_parried: Whether parries stun the boss; None if no parry met it.
    """

    start: Estimate
    end: Estimate
    is_end_bounded: bool
    hits: tuple[Hit, ...]
    area: Area
    is_parried: bool | None


def risk_of(o: Observations, indices: Sequence[int]) -> Risk:
    """Return the moments of some attacks in which a hit would hurt the player."""
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        rows = np.arange(attack.first, attack.last + 1)
        rows = rows[course.is_open[rows] & ~course.is_parrying[rows]]
        parts.append((np.full(len(rows), i), np.full(len(rows), attack.course), rows))
    if not parts:
        parts.append((np.zeros(0, np.int64),) * 3)
    attack_of, course_of, row_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    gap, bearing = np.zeros(len(row_of)), np.zeros(len(row_of))
    k, is_hit = np.zeros(len(row_of), np.int64), np.zeros(len(row_of), np.bool_)
    for number in np.unique(course_of):
        mine = course_of == number
        course, rows = o.courses[number], row_of[mine]
        gap[mine], bearing[mine] = o.gap(course)[rows], course.bearing[rows]
        k[mine] = course.boss_ticks[rows]
        is_hit[mine] = course.damage[rows] > 0
    return Risk(attack_of, k, gap, bearing, is_hit)


def other_areas(windows: Sequence[HitWindow], damage_ratio: float) -> OtherAreas:
    """Return the areas of some windows that near misses bounded, and how the windows of the boss hit."""
    areas = [window.area for window in windows]
    n_varied = sum(
        np.ptp([_nominal(hit, damage_ratio) for hit in window.hits if not hit.is_lethal] or [0]) > VARIED_HP
        for window in windows
    )
    return OtherAreas(
        tuple(area.reach_m.value for area in areas if area.is_reach_bounded),
        tuple(area.arc_rad.value / 2 for area in areas if area.is_arc_bounded),
        are_irregular=sum(area.is_contradicted for area in areas) >= N_IRREGULAR,
        damages_vary=int(n_varied) >= N_VARIED,
    )


def find_windows(
    o: Observations,
    indices: Sequence[int],
    hits: Sequence[Hit],
    damage_ratio: float,
    others: OtherAreas = NO_OTHERS,
) -> list[HitWindow]:
    """Return the windows of one kind of attack, by start.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        hits: All their hits, except for projectiles.
        damage_ratio: Damage in phase 2 as a share of that in phase 1.
        others: Areas of other windows of the same boss.
    """
    risk = risk_of(o, indices)
    signatures = _animations(hits) if others.damages_vary else _signatures(hits, damage_ratio)
    groups = [part for group in signatures for part in _split(group, risk, others)]
    groups.sort(key=lambda group: min(hit.k for hit in group))
    groups = _without_overlaps(groups)
    windows = []
    for n, group in enumerate(groups):
        before = max((hit.k for hit in groups[n - 1]), default=0) if n else 0
        after = min(hit.k for hit in groups[n + 1]) if n + 1 < len(groups) else None
        windows.append(_window(o, indices, group, _Evidence(risk, (before, after), others)))
    return windows


def _nominal(hit: Hit, damage_ratio: float) -> int:
    """Return the damage of a hit in terms of phase 1."""
    return round(hit.damage / (damage_ratio if hit.phase == 2 else 1.0))


def _animations(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the hits grouped by the player's animation."""
    return [[hit for hit in hits if hit.animation == name] for name in sorted({hit.animation for hit in hits})]


def _signatures(hits: Sequence[Hit], damage_ratio: float) -> list[list[Hit]]:
    """Return the hits grouped by the player's animation and by damage, both of which a window does not change."""
    groups: dict[tuple[str, int], list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.is_lethal):
        nominal = _nominal(hit, damage_ratio)
        for other in (nominal, nominal - 1, nominal + 1):
            if (hit.animation, other) in groups:
                groups[hit.animation, other].append(hit)
                break
        else:
            if not hit.is_lethal:  # a lethal hit takes only what was left
                groups[hit.animation, nominal] = [hit]
    return list(groups.values())


def _split(group: list[Hit], risk: Risk, others: OtherAreas) -> list[list[Hit]]:
    """Return the hits of different windows: far apart in time, or with near misses of the same area between them.

    Near misses show nothing if the areas are irregular.
    """
    group = sorted(group, key=lambda hit: hit.k)
    farthest, widest = max(hit.gap for hit in group), max(abs(hit.bearing) for hit in group)
    inside = risk.where((risk.gap <= farthest) & (np.abs(risk.bearing) <= widest) & ~risk.is_hit)
    parts = [[group[0]]]
    for hit in group[1:]:
        last = parts[-1][-1].k
        hit_now = [other.attack for other in parts[-1]]
        between_them = (inside.k > last) & (inside.k < hit.k) & ~np.isin(inside.attack, hit_now)
        n_between = len(np.unique(inside.attack[between_them]))
        is_between = hit.k - last > 2 and n_between >= N_BETWEEN and not others.are_irregular
        if hit.k - last > SPLIT_TICKS or is_between:
            parts.append([])
        parts[-1].append(hit)
    return parts


def _without_overlaps(groups: list[list[Hit]]) -> list[list[Hit]]:
    """Join groups whose times overlap: windows follow each other; the larger group keeps its damage."""
    joined: list[list[Hit]] = []
    for group in groups:
        if joined and min(hit.k for hit in group) <= max(hit.k for hit in joined[-1]):
            joined[-1] = sorted(joined[-1] + group, key=lambda hit: hit.k)
        else:
            joined.append(group)
    return joined


class _Evidence(msgspec.Struct, frozen=True):
    """What bounds a window beside its hits: moments of risk, last hit before and first one after it, other areas."""

    risk: Risk
    limits: tuple[int, int | None]
    others: OtherAreas


def _window(o: Observations, indices: Sequence[int], hits: list[Hit], evidence: _Evidence) -> HitWindow:
    risk, limits = evidence.risk, evidence.limits
    ks = np.array([hit.k for hit in hits])
    first, last = int(ks.min()), int(ks.max())
    own = np.array([hit.attack for hit in hits])
    at = dict(zip(own.tolist(), ks.tolist(), strict=True))
    # In the attacks that were hit, the moments after the hit say nothing: a window hits only once.
    since_hit = risk.k >= np.array([at.get(i, 1 << 30) for i in risk.attack.tolist()], np.int64)
    risk = risk.where(~since_hit & ~risk.is_hit)
    if evidence.others.are_irregular:
        in_window = _throughout(risk.where(~np.isin(risk.attack, own)), hits, o.step)
        risk = risk.where(np.zeros(len(risk.k), np.bool_))  # outside of the window, the area may be elsewhere
    else:
        in_window = risk.where((risk.k >= first) & (risk.k <= last))
    area = _area(hits, in_window, evidence.others)
    reach, half = area.reach_m.low, area.arc_rad.low / 2
    inside = risk.where((risk.gap <= reach) & (_off(risk.bearing, area.facing_rad) <= half))
    before = inside.k[(inside.k < first) & (inside.k > limits[0])]
    earliest = int(before.max()) + 1 if len(before) else limits[0] + 1
    start_is_sure = (ks == first).sum() >= N_AT_START and not evidence.others.are_irregular
    # N hits that are spread evenly over an irregular window begin about 1 / N of its length after its start; twice that
    # is allowed.
    most = -(-2 * (last - first + 1) // len(hits)) if evidence.others.are_irregular else SPLIT_TICKS
    start = Estimate(first, first if start_is_sure else max(earliest, first - most), first)
    after = inside.k[inside.k > last]
    bound = min(int(after.min()) if len(after) else 1 << 30, limits[1] if limits[1] is not None else 1 << 30)
    latest = min(bound, max(first + LONGEST_TICKS, last + 1))
    usual = min(max(first + USUAL_TICKS, last + 1), latest)
    value = usual if latest - last > 4 else (last + 1 + latest) // 2
    return HitWindow(
        start=start,
        end=Estimate(value, last + 1, latest),
        is_end_bounded=bound == latest,
        hits=tuple(hits),
        area=area,
        is_parried=_is_parried(o, indices, first, last, reach),
    )


def _throughout(risk: Risk, hits: Sequence[Hit], step: int) -> Risk:
    """Return one row for each attack in which the player was open throughout a window: the outermost place.

    Args:
        risk: Moments of attacks without a hit in the window.
        hits: The hits in the window, which may be few: the window has at least the usual length.
        step: Ticks between two moments.
    """
    ks = [hit.k for hit in hits]
    first, last = min(*ks, max(max(ks) - USUAL_TICKS + 1, 0)), max(*ks, min(ks) + USUAL_TICKS - 1)
    faces_back = np.cos([hit.bearing for hit in hits]).sum() < 0.0
    rows = []
    for attack in np.unique(risk.attack):
        mine = np.flatnonzero((risk.attack == attack) & (risk.k >= first) & (risk.k <= last))
        k = risk.k[mine]
        if len(k) and k[0] < first + step and k[-1] > last - step and (np.diff(k) <= step).all():
            off = _off(risk.bearing[mine], np.pi if faces_back else 0.0)
            rows.append((mine[np.argmax(risk.gap[mine])], mine[np.argmax(off)]))
    farthest, widest = np.array(rows, np.int64).reshape(-1, 2).T
    return msgspec.structs.replace(risk.where(farthest), bearing=risk.bearing[widest])


def _side(bearing: NDArray[np.float64], facing: float) -> NDArray[np.float64]:
    """Return the signed angle from the middle of an arc to bearings, from -pi to pi."""
    difference = bearing - facing
    side: NDArray[np.float64] = np.arctan2(np.sin(difference), np.cos(difference))
    return side


def _off(bearing: NDArray[np.float64], facing: float) -> NDArray[np.float64]:
    """Return the angle between bearings and the middle of an arc, from 0 to pi."""
    return np.abs(_side(bearing, facing))


def _area(hits: list[Hit], missed: Risk, others: OtherAreas) -> Area:
    """Return the area of a window; ``missed`` are the moments in it in which the player was open and not hit."""
    gaps, bearings = np.array([hit.gap for hit in hits]), np.array([hit.bearing for hit in hits])
    nearest = max(float(gaps.max()), 0.0)
    facing = _facing(bearings, missed.bearing[missed.gap <= nearest])
    off_hits, off_misses = _off(bearings, facing), _off(missed.bearing, facing)
    half = float(off_hits.max())
    # A near miss inside the area of the hits contradicts it (another shape than a sector), and is left out.
    kept = ~((missed.gap <= nearest) & (off_misses <= half))
    is_contradicted = not kept.all()
    if others.are_irregular:
        kept &= _is_near_hits(missed, hits, facing)
    gap, off = missed.gap[kept], off_misses[kept]
    bounding = gap[off <= half]
    is_reach_bounded = len(bounding) > 0
    reach_high = float(bounding.min()) if is_reach_bounded else nearest + FARTHEST_M
    aside = off[gap <= nearest]
    is_arc_bounded = len(aside) > 0
    half_high = float(aside.min()) if is_arc_bounded else np.pi
    if not is_arc_bounded and half >= ALMOST_FULL_RAD:
        half = np.pi
    # If misses bounded few areas of the boss, players were only near it or ahead of it, and hits there show no limit.
    least = UNIFORM_SHARE if len(others.reaches_m) >= MIN_OTHERS else 1.0
    uniform = 0.0 if is_reach_bounded else max(least, 1.0 / len(hits))
    arc_uniform = 0.0 if is_arc_bounded or len(others.halves_rad) >= MIN_OTHERS else 1.0
    full = FULL_SHARE if half_high >= np.pi else 0.0
    (reach, reach_most), (half_value, half_most) = _posterior(
        _prior(nearest, reach_high, BEYOND_M, others.reaches_m, uniform=uniform),
        _prior(half, half_high, BEYOND_RAD, others.halves_rad, full=full, uniform=arc_uniform),
        gap,
        off,
    )
    reach_high = reach_high if is_reach_bounded else reach_most
    half_high = half_high if is_arc_bounded else half_most
    return Area(
        reach_m=Estimate(reach, nearest, reach_high),
        arc_rad=Estimate(*(min(2 * number, FULL_RAD) for number in (half_value, half, half_high))),
        facing_rad=facing,
        is_reach_bounded=is_reach_bounded,
        is_arc_bounded=is_arc_bounded or half == np.pi,
        is_contradicted=is_contradicted,
        misses=np.stack([missed.gap, missed.bearing], axis=1),
    )


def _is_near_hits(missed: Risk, hits: Sequence[Hit], facing: float) -> NDArray[np.bool_]:
    """Return which near misses can bound an irregular area: beside far hits, or farther aside than wide ones."""
    gaps, sides = np.array([hit.gap for hit in hits]), _side(np.array([hit.bearing for hit in hits]), facing)
    side = _side(missed.bearing, facing)
    far, wide = gaps >= ALIKE_SHARE * gaps.max(), np.abs(sides) >= ALIKE_SHARE * np.abs(sides).max()
    is_beside = (np.abs(side[:, None] - sides[far]) <= ALIKE_RAD).any(axis=1)
    is_aside = (np.abs(side) > np.abs(sides).max()) & np.isin(np.sign(side), np.sign(sides[wide]))
    return is_beside | is_aside


def _facing(hits: NDArray[np.float64], misses: NDArray[np.float64]) -> float:
    """Return the middle of an arc: straight ahead, or behind, or the middle of the hits if near misses exclude both."""
    middle = float(np.arctan2(np.sin(hits).mean(), np.cos(hits).mean()))
    best, fewest = 0.0, float("inf")
    for facing in (0.0, 3.1416, round(middle, 2)):
        half = _off(hits, facing).max()
        contradictions = float((_off(misses, facing) < half).sum()) + 0.01 * half
        if contradictions < fewest - 0.5:
            best, fewest = facing, contradictions
    return best


_Prior: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Values, and the weight of each."""


def _prior(
    low: float, high: float, scale: float, others: Sequence[float], *, full: float = 0.0, uniform: float = 0.0
) -> _Prior:
    """Return the prior of a limit: it falls exponentially from the outermost hit, or is like the limits of others.

    ``full`` is a share that is added at the highest value, ``uniform`` the share that is uniform.
    """
    values = np.linspace(low, high, _GRID)
    weight = np.exp(-(values - low) / scale)
    weight /= weight.sum()
    beyond = np.array([other for other in others if other >= low - SPREAD])
    if len(beyond) >= MIN_OTHERS:
        alike = np.exp(-0.5 * ((values[:, None] - beyond) / SPREAD) ** 2).sum(axis=1)
        weight += OTHERS_SHARE / (1 - OTHERS_SHARE) * alike / alike.sum()
    weight = weight / weight.sum() * (1.0 - uniform) + uniform / _GRID
    weight[-1] += full
    return values, weight / weight.sum()


def _posterior(
    reach: _Prior, half: _Prior, gap: NDArray[np.float64], off: NDArray[np.float64]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return median and 95 % quantile of reach and half arc, given the near misses, which lie outside of the area."""
    reaches, halves = reach[0], half[0]
    is_possible = np.ones((_GRID, _GRID), np.bool_)
    order = np.argsort(gap)
    least_off = np.minimum.accumulate(off[order])
    for i, value in enumerate(reaches):
        n_within = int(np.searchsorted(gap[order], value, side="right"))
        if n_within:
            is_possible[i] = halves < least_off[n_within - 1]
    is_possible[0, 0] = True
    weight = is_possible * reach[1][:, None] * half[1]
    return _quantiles(reaches, weight.sum(axis=1)), _quantiles(halves, weight.sum(axis=0))


def _quantiles(values: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float]:
    total = np.cumsum(weight) / weight.sum()
    median, most = np.searchsorted(total, (0.5, 0.95 - 1e-9))
    return float(values[median]), float(values[most])


def _is_parried(o: Observations, indices: Sequence[int], first: int, last: int, reach: float) -> bool | None:
    """Return whether a parry in a window stunned the boss; None if none met the window."""
    n_met = 0
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        if attack.following == PARRIED and first <= attack.next_start - attack.start <= last + USUAL_TICKS:
            return True
        rows = np.arange(attack.first, attack.last + 1)
        in_time = (course.boss_ticks[rows] >= first) & (course.boss_ticks[rows] <= last) & course.is_parrying[rows]
        # The sector in front of the player is 60 degrees to either side; a player that is locked on faces the boss.
        n_met += bool((in_time & (o.gap(course)[rows] <= reach)).any())
    return False if n_met >= 2 else None
