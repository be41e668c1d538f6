"""Attacks that throw projectiles, which recordings do not show: found by hits that come later from farther away."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.fitting.attacks import Attack, Columns, Course, Hit, Observations
from soulslab.arena.fitting.estimate import Estimate, middle
from soulslab.arena.fitting.hit_windows import LONGEST_TICKS
from soulslab.arena.records import TICKS_PER_S

SPEEDS_M_S = np.arange(5.0, 40.1, 0.25)
#: Throws of one attack are at least this far apart.
APART_TICKS = 12
#: Radius of a projectile that is assumed; a hit shows only the sum of radius and speed times time.
RADIUS_M, RADIUS_LOW_M, RADIUS_HIGH_M = 0.5, 0.3, 0.8
#: Fewest hits, and least spread of the lengths of their flights and of their gaps, that show a projectile.
MIN_HITS, MIN_SPREAD_M = 4, 1.5
#: Cost of a flight, as a share of the cost of blades, below which hits are those of projectiles; and that share with a
#: hit from farther away than blades reach.
FLIGHT_SHARE, FAR_SHARE, FAR_M = 0.5, 0.6, 10.0
#: Where irregular areas may explain hits, the greatest mean deviation from a flight (ticks), the greatest speed, which
#: rings and tips of blades exceed, and the greatest bearing of the outermost projectile, which a ring exceeds. A wider
#: fan of such a boss is found only by hits from far away.
MAX_DEVIATION_TICKS = 0.75
FASTEST_M_S = 16.0
WIDEST_RAD = 0.7
#: Longest flight.
MAX_FLIGHT_TICKS = 240
#: Spreads that are compared, and the distance of two of them.
SPREAD_STEP_RAD = 0.02
SPREADS_RAD = np.arange(5, 41) * SPREAD_STEP_RAD
MAX_COUNT = 5
#: Spread that is assumed if only one projectile is possible, with its interval.
USUAL_SPREAD_RAD = (0.2, 0.1, 0.35)
#: Bearings of projectiles that are examined, and the distance of two of them.
BEARING_STEP_RAD = 0.01
BEARINGS_RAD = np.arange(-160, 161) * BEARING_STEP_RAD
#: Ticks before and after contact in which the player has to be open, so that an error of the flight does not count.
SLACK_TICKS = 2
#: Costs of a fan are negative logarithms of likelihoods. Cost per projectile beside the first.
PROJECTILE_COST = 0.3
#: Cost per throw in which a projectile should have hit the player, and did not.
MISS_COST = 1.5
#: Cost per m by which all projectiles pass the player at a hit, and per m² from the middle of the nearest projectile.
BEYOND_COST, ASIDE_COST = 4.0, 0.1
#: Separate fans of the throws of an attack must cost less than a shared one by more than this.
SEPARATE_COST = 1.0
#: Fans whose cost is greater than the least one by more than this are not in the interval.
POSSIBLE_COST = 2.3
#: The fans that are compared, as (number, spread): one projectile, or several.
FANS = np.array([(1, 0.0), *((count, spread) for count in range(2, MAX_COUNT + 1) for spread in SPREADS_RAD)])


class Throw(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Projectiles of one window. ``start`` is in ticks since the attack began.

    Attributes:
        hits: The hits of these projectiles.
        count: Number of projectiles; ``spread_rad`` is the angle between two. Projectiles that could not meet any
            player are not counted.
    """

    start: Estimate
    speed_m_s: Estimate
    count: Estimate
    spread_rad: Estimate
    hits: tuple[Hit, ...]


class _Flights(Columns, frozen=True, eq=False, kw_only=True):
    """Hits as arrays (H,), with the length of the flight of the projectile that may have caused each.

    Attributes:
        ks: Ticks since the attack began.
        distance: Distance of the player in m from where the boss was at the tick given to `_flights`.
        aside: Bearing of the player from there in rad.
        gap: Gap at the hit in m.
        flight_m: Length of the flight in m.
    """

    ks: NDArray[np.float64]
    distance: NDArray[np.float64]
    aside: NDArray[np.float64]
    gap: NDArray[np.float64]
    flight_m: NDArray[np.float64]

    def throw_ticks(self, speed_m_s: float) -> NDArray[np.float64]:
        """Return the time of the throw of each projectile with a speed."""
        return self.ks - self.flight_m * TICKS_PER_S / speed_m_s


def find_throws(o: Observations, indices: Sequence[int], hits: Sequence[Hit], *, are_irregular: bool) -> list[Throw]:
    """Return the throws of one kind of attack; the result is empty if the hits show none.

    Hits of melee windows are not explained by a flight. The blades of a boss with irregular areas may also hit later
    farther away, so its hits must be those of no blade.

    Args:
        o: The observations.
        indices: Indices of all attacks of this kind.
        hits: All hits while attacks of this kind were under way and until the next one.
        are_irregular: Whether the areas of the boss are irregular.
    """
    hits = [hit for hit in hits if hit.attack >= 0 and hit.k <= MAX_FLIGHT_TICKS]
    if len(hits) < MIN_HITS:
        return []
    radius = o.knight.vitals.radius_m + RADIUS_M
    all_hits = _flights(o, hits, radius, min(hit.k for hit in hits))
    # The other hits came late: the player was invulnerable, or another projectile had just hit it.
    prompt = all_hits.where(np.array([hit.is_prompt for hit in hits]))
    flown = prompt if len(prompt.ks) >= MIN_HITS else all_hits
    # A boss that charges also hits later farther away, but it is near at the hit.
    if min(np.ptp(flown.flight_m), np.ptp(flown.gap)) < MIN_SPREAD_M:
        return []
    costs = [_cost(flown.throw_ticks(speed)) for speed in SPEEDS_M_S]
    best = int(np.argmin(costs))
    most = FAR_SHARE if all_hits.distance.max() > FAR_M else FLIGHT_SHARE
    if costs[best] >= most * _cost(flown.ks) and not any(not hit.is_during for hit in hits):
        return []
    is_near = all_hits.gap.max() < FAR_M
    if are_irregular and is_near and _may_be_blades(flown, float(SPEEDS_M_S[best]), radius):
        return []
    near_best = SPEEDS_M_S[np.array(costs) <= costs[best] * 1.5 + 1.0]
    speed = Estimate(float(SPEEDS_M_S[best]), float(near_best.min()) - 0.25, float(near_best.max()) + 0.25)
    thrown = all_hits.throw_ticks(speed.value)
    # A projectile that was thrown before the attack began is that of another attack.
    hits = [hit for hit, at in zip(hits, thrown, strict=True) if at > 0.0]
    all_hits, thrown = all_hits.where(thrown > 0.0), thrown[thrown > 0.0]
    parts = _clusters(thrown)
    largest = max(map(len, parts), default=0)
    # A single late hit is that of a projectile which the player met on its way.
    parts = [part for part in parts if len(part) >= max(2, 0.1 * largest)]
    starts = [_start(all_hits.where(part), thrown[part], speed) for part in parts]
    groups = [[hits[i] for i in part] for part in parts]
    # The lifetime is not known, so only flights as long as the longest one that hit are examined.
    flights = [max(hit.k for hit in group) - start.value for group, start in zip(groups, starts, strict=True)]
    longest = int(max(flights, default=0))
    fan_costs: list[NDArray[np.float64]] = []
    for group, start in zip(groups, starts, strict=True):
        missed = _missed(o, indices, int(start.value), speed.value, longest)
        fan_costs.append(_fan_costs(_flights(o, group, radius, int(start.value)), missed, radius))
    return [
        Throw(start=start, speed_m_s=speed, count=count, spread_rad=spread, hits=tuple(group))
        for group, start, (count, spread) in zip(groups, starts, _fans(fan_costs), strict=True)
    ]


def _start(own: _Flights, thrown: NDArray[np.float64], speed: Estimate) -> Estimate:
    """Return the tick of a throw, given its hits, and the time of the throw that each of them shows."""
    first = float(own.ks.min())
    # The first flight tick is that of the throw, and a hit is seen at the end of its tick.
    value = max(round(min(middle(thrown) + 0.5, first)), 1)
    slack = 1.0 + (RADIUS_HIGH_M - RADIUS_M) * TICKS_PER_S / speed.value + 2.0 / np.sqrt(len(thrown))
    slack += speed.width / speed.value * middle(own.distance) * TICKS_PER_S / speed.value / 4
    return Estimate(value, max(round(value - slack), 1), max(min(round(value + slack), int(first)), value))


def _flights(o: Observations, hits: Sequence[Hit], radius_m: float, throw_tick: int) -> _Flights:
    """Return the flights of projectiles from where the boss was some ticks after the start of its attack."""
    distance, aside = np.zeros(len(hits)), np.zeros(len(hits))
    for n, hit in enumerate(hits):
        attack = o.attacks[hit.attack]
        course = o.courses[attack.course]
        xy = course.player_xy[hit.moment : hit.moment + 1]
        (distance[n],), (aside[n],) = _seen_from(course, _moment_at(course, attack, throw_tick), xy)
    return _Flights(
        ks=np.array([hit.k for hit in hits], np.float64),
        distance=distance,
        aside=aside,
        gap=np.array([hit.gap for hit in hits]),
        flight_m=np.maximum(distance - radius_m, 0.0),  # near ones hit in the tick of the throw
    )


def _moment_at(course: Course, attack: Attack, ticks: int) -> int:
    """Return the last moment of an attack until some ticks after its start; the first one if all are later.

    At a low rate, the boss may already turn for its next throw in the moment after.
    """
    since = course.boss_ticks[attack.first : attack.last + 1]
    return attack.first + max(int(np.searchsorted(since, ticks, side="right")) - 1, 0)


def _seen_from(course: Course, moment: int, xy: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distance and bearing of points (N, 2) from where the boss is at a moment."""
    way, (fx, fy) = xy - course.boss_xy[moment], course.facing[moment]
    bearing = np.arctan2(fx * way[:, 1] - fy * way[:, 0], fx * way[:, 0] + fy * way[:, 1])
    return np.hypot(way[:, 0], way[:, 1]), bearing


def _missed(
    o: Observations, indices: Sequence[int], throw_tick: int, speed_m_s: float, longest: int
) -> NDArray[np.bool_]:
    """Return in which throws a projectile at each of `BEARINGS_RAD` should have hit the player, and did not.

    Args:
        o: The observations.
        indices: Indices of the attacks.
        throw_tick: Ticks from the start of an attack to the throw.
        speed_m_s: Speed of the projectiles.
        longest: Longest flight that is examined in ticks.

    Returns:
        An array (throws, bearings), without throws that were not recorded.
    """
    contact_m = o.knight.vitals.radius_m + RADIUS_LOW_M
    flight = np.arange(longest + 1)
    flown_m = ((flight + 1) * speed_m_s / TICKS_PER_S)[:, None]
    missed = []
    for i in indices:
        attack = o.attacks[i]
        course = o.courses[attack.course]
        if not course.boss_ticks[attack.first] <= throw_tick <= course.boss_ticks[attack.last]:
            continue
        at = attack.start + throw_tick + flight
        xy = np.stack([np.interp(at, course.tick, course.player_xy[:, axis]) for axis in (0, 1)], axis=1)
        distance, bearing = (each[:, None] for each in _seen_from(course, _moment_at(course, attack, throw_tick), xy))
        square = distance**2 + flown_m**2 - 2 * distance * flown_m * np.cos(bearing - BEARINGS_RAD)
        is_contact = square <= contact_m**2
        is_safe = np.convolve(~_open_at(course, at), np.ones(2 * SLACK_TICKS + 1))[SLACK_TICKS:-SLACK_TICKS] > 0
        missed.append(is_contact.any(axis=0) & ~(is_contact & is_safe[:, None]).any(axis=0))
    return np.array(missed).reshape(-1, len(BEARINGS_RAD))


def _open_at(course: Course, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return in which ticks the player was open until its first hit; in gaps of the recording it was not."""
    is_gap = np.diff(course.tick, append=np.iinfo(np.int64).max) > course.step
    is_open = course.is_open & np.append(course.is_open[1:], False) & ~is_gap
    moments = np.searchsorted(course.tick, at, side="right") - 1
    hits = np.flatnonzero((course.tick >= at[0]) & (course.damage > 0))
    last = int(hits[0]) - 1 if len(hits) else len(is_open)
    return is_open[moments] & (moments < last)


def _may_be_blades(flown: _Flights, speed_m_s: float, radius_m: float) -> bool:
    """Return whether irregular areas may explain hits: a blade that sweeps, a tip that moves, or a ring that grows."""
    thrown = flown.throw_ticks(speed_m_s)
    if max(np.ptp(flown.ks[part]) for part in _clusters(thrown)) > LONGEST_TICKS:
        return False
    beside_m = flown.distance * np.sin(np.clip(np.abs(flown.aside) - WIDEST_RAD, 0.0, np.pi / 2))
    deviation = _deviations(thrown).mean()
    return bool(speed_m_s > FASTEST_M_S or beside_m.max() > radius_m or deviation > MAX_DEVIATION_TICKS)


def _clusters(intercepts: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    order = np.argsort(intercepts)
    cuts = np.flatnonzero(np.diff(intercepts[order]) > APART_TICKS) + 1
    return [part for part in np.split(order, cuts) if len(part) >= 1]


def _deviations(intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute deviations of throw times from the medians of their clusters."""
    return np.concatenate([np.abs(intercepts[part] - np.median(intercepts[part])) for part in _clusters(intercepts)])


def _cost(intercepts: NDArray[np.float64]) -> float:
    """Return how badly throw times explain hits: deviations in the clusters, and a cost per cluster."""
    return float(_deviations(intercepts).sum()) + 4.0 * len(_clusters(intercepts))


def _fan_costs(own: _Flights, missed: NDArray[np.bool_], radius: float) -> NDArray[np.float64]:
    """Return how badly each of `FANS` explains the hits of a throw and the throws that should have hit, (F,)."""
    costs = np.zeros(len(FANS))
    for n, (count, spread) in enumerate(FANS):
        rays = (np.arange(count) - (count - 1) / 2) * spread
        off = np.abs(own.aside[:, None] - rays).min(axis=1)
        aside = own.distance * np.sin(np.minimum(off, np.pi / 2))
        costs[n] = BEYOND_COST * np.maximum(aside - radius, 0.0).sum() + ASIDE_COST * (aside**2).sum()
        bearings = np.rint((rays - BEARINGS_RAD[0]) / BEARING_STEP_RAD).astype(np.int64)
        costs[n] += MISS_COST * missed[:, bearings].any(axis=1).sum()
    return costs


def _fans(costs: Sequence[NDArray[np.float64]]) -> list[tuple[Estimate, Estimate]]:
    """Return number and spread of the projectiles of each throw of an attack, given the costs of all fans.

    The throws share one fan unless separate fans cost less by more than `SEPARATE_COST`.
    """
    n_projectiles = PROJECTILE_COST * (FANS[:, 0] - 1)
    separate = [cost + n_projectiles for cost in costs]
    shared = np.sum(costs, axis=0) + n_projectiles
    if shared.min() <= sum(cost.min() for cost in separate) + SEPARATE_COST:
        separate = [shared] * len(costs)
    return [_best_fan(cost) for cost in separate]


def _best_fan(cost: NDArray[np.float64]) -> tuple[Estimate, Estimate]:
    """Return number and spread of the projectiles with the least cost; the intervals have all possible fans."""
    count, spread = FANS[np.argmin(cost)]
    possible = FANS[cost <= cost.min() + POSSIBLE_COST]
    number = Estimate(int(count), int(possible[:, 0].min()), int(possible[:, 0].max()))
    spreads = possible[possible[:, 0] > 1, 1]
    if not len(spreads):
        return number, Estimate(*USUAL_SPREAD_RAD)
    low, high = round(spreads.min() - SPREAD_STEP_RAD, 2), round(spreads.max() + SPREAD_STEP_RAD, 2)
    return number, Estimate(round(float(spread if count > 1 else middle(spreads)), 2), low, high)
