"""Attacks that throw projectiles, which recordings do not show: found by hits that come later from farther away."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.fitting.attacks import Columns, Hit, Observations
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
SPREADS_RAD = np.arange(0.06, 0.6, 0.02)
MAX_COUNT = 5
#: Spread that is assumed if one path explains all hits, with its interval, and the relative error of other spreads.
USUAL_SPREAD_RAD, SPREAD_ERROR = (0.2, 0.1, 0.35), 0.3


class Throw(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Projectiles of one window. ``start`` is in ticks since the attack began.

    Attributes:
        hits: The hits of these projectiles.
        count: Number of projectiles; ``spread_rad`` is the angle between two. Hits show only how many there are at
            least: others may have passed where the player never was.
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
        distance: Distance of the player in m from where the boss was in this attack at the least of ``ks``.
        aside: Bearing of the player from there in rad.
        gap: Gap at the hit in m.
        flight_m: Length of the flight in m.
    """

    ks: NDArray[np.float64]
    distance: NDArray[np.float64]
    aside: NDArray[np.float64]
    gap: NDArray[np.float64]
    flight_m: NDArray[np.float64]

    def thrown(self, speed_m_s: float) -> NDArray[np.float64]:
        """Return the time of the throw of each projectile with a speed."""
        return self.ks - self.flight_m * TICKS_PER_S / speed_m_s


def find_throws(o: Observations, hits: Sequence[Hit], *, are_irregular: bool) -> list[Throw]:
    """Return the throws of one kind of attack; the result is empty if the hits show none.

    Hits of melee windows are not explained by a flight. The blades of a boss with irregular areas may also hit later
    farther away, so its hits must be those of no blade.

    Args:
        o: The observations.
        hits: All hits while attacks of this kind were under way and until the next one.
        are_irregular: Whether the areas of the boss are irregular.
    """
    hits = [hit for hit in hits if hit.attack >= 0 and hit.k <= MAX_FLIGHT_TICKS]
    if len(hits) < MIN_HITS:
        return []
    radius = o.knight.vitals.radius_m + RADIUS_M
    all_hits = _flights(o, hits, radius)
    # The other hits came late: the player was invulnerable, or another projectile had just hit it.
    prompt = all_hits.where(np.array([hit.is_prompt for hit in hits]))
    flown = prompt if len(prompt.ks) >= MIN_HITS else all_hits
    # A boss that charges also hits later farther away, but it is near at the hit.
    if min(np.ptp(flown.flight_m), np.ptp(flown.gap)) < MIN_SPREAD_M:
        return []
    costs = [_cost(flown.thrown(speed)) for speed in SPEEDS_M_S]
    best = int(np.argmin(costs))
    most = FAR_SHARE if all_hits.distance.max() > FAR_M else FLIGHT_SHARE
    if costs[best] >= most * _cost(flown.ks) and not any(not hit.is_during for hit in hits):
        return []
    is_near = all_hits.gap.max() < FAR_M
    if are_irregular and is_near and _may_be_blades(flown, float(SPEEDS_M_S[best]), radius):
        return []
    near_best = SPEEDS_M_S[np.array(costs) <= costs[best] * 1.5 + 1.0]
    speed = Estimate(float(SPEEDS_M_S[best]), float(near_best.min()) - 0.25, float(near_best.max()) + 0.25)
    thrown = all_hits.thrown(speed.value)
    # A projectile that was thrown before the attack began is that of another attack.
    hits = [hit for hit, at in zip(hits, thrown, strict=True) if at > 0.0]
    all_hits, thrown = all_hits.where(thrown > 0.0), thrown[thrown > 0.0]
    throws = []
    parts = _clusters(thrown)
    largest = max(map(len, parts), default=0)
    # A single late hit is that of a projectile which the player met on its way.
    for part in (part for part in parts if len(part) >= max(2, 0.1 * largest)):
        mine = [hits[i] for i in part]
        own = all_hits.where(part)
        first = float(own.ks.min())
        # The first flight tick is that of the throw, and a hit is seen at the end of its tick.
        start = min(middle(thrown[part]) + 0.5, first)
        slack = 1.0 + (RADIUS_HIGH_M - RADIUS_M) * TICKS_PER_S / speed.value + 2.0 / np.sqrt(len(part))
        slack += speed.width / speed.value * middle(own.distance) * TICKS_PER_S / speed.value / 4
        value = max(round(start), 1)
        count, spread = _fan(own.distance, own.aside, radius)
        throws.append(
            Throw(
                start=Estimate(value, max(round(start - slack), 1), max(min(round(start + slack), int(first)), value)),
                speed_m_s=speed,
                count=Estimate(count, count, MAX_COUNT),
                spread_rad=spread,
                hits=tuple(mine),
            )
        )
    return throws


def _flights(o: Observations, hits: Sequence[Hit], radius_m: float) -> _Flights:
    first = min(hit.k for hit in hits)
    distance, aside = np.zeros(len(hits)), np.zeros(len(hits))
    for n, hit in enumerate(hits):
        attack, course = o.attacks[hit.attack], o.courses[hit.course]
        row = attack.first + int(np.searchsorted(course.boss_ticks[attack.first : attack.last + 1], first))
        row = min(row, attack.last)
        way, facing = course.player_xy[hit.moment] - course.boss_xy[row], course.facing[row]
        distance[n] = np.hypot(way[0], way[1])
        aside[n] = np.arctan2(facing[0] * way[1] - facing[1] * way[0], facing @ way)
    return _Flights(
        ks=np.array([hit.k for hit in hits], np.float64),
        distance=distance,
        aside=aside,
        gap=np.array([hit.gap for hit in hits]),
        flight_m=np.maximum(distance - radius_m, 0.0),  # near ones hit in the tick of the throw
    )


def _may_be_blades(flown: _Flights, speed_m_s: float, radius_m: float) -> bool:
    """Return whether irregular areas may explain hits: a blade that sweeps, a tip that moves, or a ring that grows."""
    thrown = flown.thrown(speed_m_s)
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


def _fan(distance: NDArray[np.float64], angle: NDArray[np.float64], radius: float) -> tuple[int, Estimate]:
    """Return number and spread of projectiles: the fewest whose paths pass all hits."""
    best, cost = (1, 0.0), _aside(distance, angle, 1, 0.0, radius)
    for count in range(2, MAX_COUNT + 1):
        for spread in SPREADS_RAD:
            now = _aside(distance, angle, count, float(spread), radius) + 0.05 * len(distance) * (count - 1) + 0.5
            if now < cost - 1e-9:
                best, cost = (count, round(float(spread), 2)), now
    number, spread = best
    if number == 1:
        return number, Estimate(*USUAL_SPREAD_RAD)
    return number, Estimate(spread, (1 - SPREAD_ERROR) * spread, (1 + SPREAD_ERROR) * spread)


def _aside(
    distance: NDArray[np.float64], angle: NDArray[np.float64], count: int, spread: float, radius: float
) -> float:
    rays = (np.arange(count) - (count - 1) / 2) * spread
    off = np.abs(angle[:, None] - rays).min(axis=1)
    lateral = distance * np.sin(np.minimum(off, np.pi / 2))
    return float(np.maximum(lateral - radius, 0.0).sum() * 4 + (lateral**2).sum() * 0.2)
