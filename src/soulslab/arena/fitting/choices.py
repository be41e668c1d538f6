"""Which attack the boss chooses: ranges, bearings, weights, cooldowns, follow-ups and pauses.

A choice is drawn by weight among the attacks that fit distance, bearing, phase and cooldown. The limits of an attack
have the likelihood of all choices of other attacks beyond them: each makes a wider limit less likely, by the share
that the attack would have had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lgamma
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.fitting.attacks import NO_ATTACKS, STUNS, Attack, Course, Observations
from soulslab.arena.fitting.estimate import LIMIT_RATIO, Estimate, between
from soulslab.arena.records import TICKS_PER_DECISION

N_ROUNDS = 4
#: Farthest distance of a choice that is written if no choice bounds it (m).
FAR_M = 40.0
#: Added to an interval of a limit for each tick between two moments (m, rad): motion before the choice is not seen.
NEAR_M, NEAR_RAD = 0.02, 0.03
#: Factor of the share that an attack would have had, because the weights and limits of the others are not exact.
TRUST = 0.7
#: Least information about a weight, so that its interval is finite if there was no alternative at its choices.
LEAST_INFORMATION = 0.7
#: Factor of the intervals of weights, for the same reason as `TRUST`.
WIDER = 1.4
#: Ticks between two tries to choose an attack: a failed try is followed by a pause of a decision.
RETRY_TICKS = TICKS_PER_DECISION + 1
#: Possible shares of the first tries that fail, and of the further ones.
FAILED_SHARES = np.linspace(0.0, 0.95, 12)
#: Share of the waits that have other causes, such as rules that no boss file describes.
OTHER_WAITS = 0.01
#: Waits of at least this many ticks are not used: a boss file has no longer pauses.
LONGEST_WAIT = 600
#: Number of ticks beyond the longest wait that was seen, up to which the greatest pause is searched at least.
BEYOND_WAITS = 30
#: Cooldown in ticks that is assumed at most if no choice bounds it from below, and the longest one that is considered.
USUAL_COOLDOWN, LONGEST_COOLDOWN = 240.0, 1200.0
#: 95 % quantile of the normal distribution, for intervals of weights.
Z = 1.645
#: Probability on each side of a 90 % interval.
TAIL = 0.05
#: Number of distances and of probabilities on the grid for a follow-up, and the prior probability that its distance has
#: no limit.
N_LIMITS, N_SHARES, UNLIMITED = 200, 200, 0.2


class Choice(msgspec.Struct, frozen=True):
    """One choice: attack ``chosen`` at a distance in m and a bearing in rad, in a phase.

    ``since`` is the time since the last start of each attack in ticks, -1 if it had not been seen.
    """

    chosen: int
    distance: float
    bearing: float
    phase: int
    since: tuple[int, ...]


class MoveChoice(msgspec.Struct, frozen=True, kw_only=True):
    """When an attack is chosen; ``is_chosen`` is False for attacks that only follow others."""

    is_chosen: bool
    weight: Estimate
    range_m: tuple[Estimate, Estimate]
    bearing_rad: tuple[Estimate, Estimate]
    cooldown_ticks: Estimate | None
    phases: tuple[int, ...]


class Follower(msgspec.Struct, frozen=True):
    """A follow-up: its attack, its probability, and the distance within which it follows."""

    animation: str
    probability: Estimate
    within_m: Estimate
    phases: tuple[int, ...]


def follows_directly(o: Observations, i: int) -> bool:
    """Return whether an attack began at the end of another one, without a pause."""
    if i == 0:
        return False
    before, attack = o.attacks[i - 1], o.attacks[i]
    return before.course == attack.course and before.is_attack


def choices(o: Observations, animations: Sequence[str], phase_two_move: str | None) -> list[Choice]:
    """Return all choices of attacks; ``chosen`` is the index in ``animations``."""
    found = []
    last: dict[str, int] = {}
    course = -1
    for i, attack in enumerate(o.attacks):
        if attack.course != course:
            course, last = attack.course, {}
        if attack.animation not in animations:
            continue
        if not follows_directly(o, i) and attack.animation != phase_two_move and attack.first > 0:
            distance, bearing = _place_at(o.courses[course], attack.start - 1)
            since = tuple(attack.start - last[name] if name in last else -1 for name in animations)
            chosen = animations.index(attack.animation)
            found.append(Choice(chosen, distance, bearing, attack.phase, since))
        last[attack.animation] = attack.start
    return found


def _place_at(course: Course, tick: int) -> tuple[float, float]:
    """Return distance and absolute bearing at a tick, interpolated between two moments if the rate is lower."""
    bearings = np.abs(course.bearing)
    return float(np.interp(tick, course.tick, course.distance)), float(np.interp(tick, course.tick, bearings))


class _Limits(msgspec.Struct):
    """Limits of all attacks, arrays with one row for each: the narrowest or the widest that are plausible."""

    near: NDArray[np.float64]
    far: NDArray[np.float64]
    ahead: NDArray[np.float64]
    behind: NDArray[np.float64]
    cooldown: NDArray[np.float64]
    phases: NDArray[np.bool_]  # (M, 3)


class _Table(msgspec.Struct):
    """Choices as arrays: chosen, distance, bearing and phase (C,), since (C, M)."""

    chosen: NDArray[np.int64]
    distance: NDArray[np.float64]
    bearing: NDArray[np.float64]
    phase: NDArray[np.int64]
    since: NDArray[np.int64]


def _fits(table: _Table, inner: _Limits, outer: _Limits) -> NDArray[np.float64]:
    """Return the probability that each attack fits each choice, (C, M): it falls from the inner to the outer limits."""
    d, b = table.distance[:, None], table.bearing[:, None]
    fits = _below(d, inner.far, outer.far) * _below(-d, -inner.near, -outer.near)
    fits *= _below(b, inner.behind, outer.behind) * _below(-b, -inner.ahead, -outer.ahead)
    fits *= np.where(table.since < 0, 1.0, _below(-table.since, -inner.cooldown, -outer.cooldown))
    fits *= inner.phases.T[table.phase]
    fits[np.arange(len(table.chosen)), table.chosen] = 1.0
    return fits


def _below(values: NDArray[Any], inner: NDArray[np.float64], outer: NDArray[np.float64]) -> NDArray[np.float64]:
    share: NDArray[np.float64] = np.clip((outer - values) / np.maximum(outer - inner, 1e-9), 0.0, 1.0)
    return np.where(values <= inner, 1.0, share)


def fit_choices(found: Sequence[Choice], n_moves: int, step: int) -> list[MoveChoice]:
    """Return when each attack is chosen, from choices seen at moments ``step`` ticks apart."""
    table = _Table(
        np.array([c.chosen for c in found], np.int64),
        np.array([c.distance for c in found]),
        np.array([c.bearing for c in found]),
        np.array([c.phase for c in found], np.int64),
        np.array([c.since for c in found], np.int64).reshape(len(found), n_moves),
    )
    inner, outer = _narrowest(table, n_moves), _narrowest(table, n_moves)
    estimates: list[dict[str, Estimate]] = [{} for _ in range(n_moves)]
    for _ in range(N_ROUNDS):
        fits = _fits(table, inner, outer)
        weight = _weights(table.chosen, fits)
        for i in range(n_moves):
            if (table.chosen == i).any():
                estimates[i] = _limits_of(table, inner, _costs(fits, weight, i), i, step)
        for i, own in enumerate(estimates):
            for name, estimate in own.items():
                getattr(outer, name)[i] = estimate.high if name in ("far", "behind") else estimate.low
    return [_move_choice(table, fits, weight, i, estimates[i]) for i in range(n_moves)]


def _narrowest(table: _Table, n: int) -> _Limits:
    near, far, ahead, behind, cooldown = (np.zeros(n) for _ in range(5))
    limits = _Limits(near, far, ahead, behind, cooldown, np.zeros((n, 3), np.bool_))
    for i in range(n):
        mine = table.chosen == i
        if not mine.any():
            continue  # no phase, so it never fits
        limits.near[i], limits.far[i] = table.distance[mine].min(), table.distance[mine].max()
        limits.ahead[i], limits.behind[i] = table.bearing[mine].min(), table.bearing[mine].max()
        since = table.since[mine, i]
        limits.cooldown[i] = since[since >= 0].min() if (since >= 0).any() else 0
        # An attack of phase 1 is also one of phase 2, unless it was seen only in phase 1 in spite of many choices.
        limits.phases[i, np.unique(table.phase[mine])] = True
        if limits.phases[i, 1]:
            limits.phases[i] = True
    return limits


def _weights(chosen: NDArray[np.int64], fits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of maximum likelihood (Hunter 2004, MM for the Plackett-Luce model), with mean 1."""
    n_chosen = np.bincount(chosen, minlength=fits.shape[1]).astype(np.float64)
    weight = np.where(n_chosen > 0, 1.0, 0.0)
    for _ in range(60):
        total = np.maximum((fits * weight).sum(axis=1), 1e-12)
        # The prior is one choice among attacks of mean weight, for attacks that were the only ones that fitted.
        weight = (n_chosen + 1) / ((fits / total[:, None]).sum(axis=0) + 1)
        weight = np.where(n_chosen > 0, weight, 0.0)
        weight /= weight[n_chosen > 0].mean()
    return weight


def _costs(fits: NDArray[np.float64], weight: NDArray[np.float64], i: int) -> NDArray[np.float64]:
    """Return the log-likelihood that each choice of another attack would cost if attack ``i`` had fitted, (C,)."""
    others = fits @ weight - fits[:, i] * weight[i]
    share = weight[i] / np.maximum(others + weight[i], 1e-9)
    costs: NDArray[np.float64] = -np.log(np.maximum(1.0 - TRUST * share, 1e-6))
    return costs


def _limits_of(table: _Table, inner: _Limits, cost: NDArray[np.float64], i: int, step: int) -> dict[str, Estimate]:
    """Return the limits of one attack, given what each choice of another attack costs beyond them.

    Only choices that are within the ``inner`` limits of this attack in all other respects count against a wider limit:
    it would surely have fitted in these respects.
    """
    mine = table.chosen == i
    rivals = ~mine & inner.phases[i][table.phase]
    d, b, since = table.distance, table.bearing, table.since[:, i]
    in_range = (d >= inner.near[i]) & (d <= inner.far[i])
    in_bearing = (b >= inner.ahead[i]) & (b <= inner.behind[i])
    ready = (since < 0) | (since >= inner.cooldown[i])
    by_range, by_bearing = rivals & in_bearing & ready, rivals & in_range & ready
    result = {
        "near": _mirrored(_limit(-d[mine], -d[by_range], cost[by_range], 0.0, NEAR_M * step)),
        "far": _limit(d[mine], d[by_range], cost[by_range], FAR_M, NEAR_M * step),
        "ahead": _mirrored(_limit(-b[mine], -b[by_bearing], cost[by_bearing], 0.0, NEAR_RAD * step)),
        "behind": _limit(b[mine], b[by_bearing], cost[by_bearing], 3.1416, NEAR_RAD * step),
    }
    own = since[mine & (since >= 0)].astype(np.float64)
    waited = rivals & in_range & in_bearing & (since >= 0)
    if len(own):
        # A cooldown is a lower limit of the time since the last start.
        limit = _mirrored(_limit(-own, -since[waited].astype(np.float64), cost[waited], 0.0, 0.0))
        high = min(limit.high, max(limit.low, LONGEST_COOLDOWN))
        value = limit.value if limit.low > 0 else min(limit.value, USUAL_COOLDOWN)
        result["cooldown"] = Estimate(min(value, high), limit.low, high)
    return result


def _mirrored(limit: Estimate) -> Estimate:
    return Estimate(-limit.value, -limit.high, -limit.low)


def _limit(
    own: NDArray[np.float64], rivals: NDArray[np.float64], cost: NDArray[np.float64], most: float, error: float
) -> Estimate:
    """Return an upper limit: at least the greatest own value, and at most where the likelihood has fallen enough.

    Each rival value beyond costs log-likelihood. The value is the middle up to the point where it has fallen by half.
    """
    outermost = float(own.max())
    most = max(most, outermost)
    beyond = rivals > outermost
    order = np.argsort(rivals[beyond])
    at, lost = rivals[beyond][order], np.cumsum(cost[beyond][order])

    def reach(ratio: float) -> float:
        index = int(np.searchsorted(lost, -np.log(ratio)))
        return float(at[index]) if index < len(at) else most

    value = (outermost + reach(0.5)) / 2 if reach(0.5) < most else outermost + 0.25 * (reach(0.5) - outermost)
    return Estimate(value, outermost - error, max(reach(LIMIT_RATIO), value) + error)


def _move_choice(
    table: _Table,
    fits: NDArray[np.float64],
    weights: NDArray[np.float64],
    i: int,
    own: Mapping[str, Estimate],
) -> MoveChoice:
    n_chosen = int((table.chosen == i).sum())
    if not n_chosen:
        zero = Estimate(0.0, 0.0, 0.2)
        full = (between(0.0, 0.0), between(0.0, FAR_M, 1.0))
        return MoveChoice(
            is_chosen=False,
            weight=zero,
            range_m=full,
            bearing_rad=(between(0.0, 0.0), between(0.0, 3.1416, 1.0)),
            cooldown_ticks=None,
            phases=(1, 2),
        )
    share = fits[:, i] * weights[i] / np.maximum(fits @ weights, 1e-12)
    # The curvature of the likelihood in the logarithm of the weight.
    information = max(float((share * (1 - share)).sum()), LEAST_INFORMATION)
    factor = float(np.exp(WIDER * Z / np.sqrt(information)))
    weight = float(weights[i])
    seen = {int(phase) for phase in np.unique(table.phase[table.chosen == i])}
    return MoveChoice(
        is_chosen=True,
        weight=Estimate(weight, weight / factor, weight * factor),
        range_m=(own["near"], own["far"]),
        bearing_rad=(own["ahead"], own["behind"]),
        cooldown_ticks=own.get("cooldown"),
        phases=(1, 2) if seen & {0, 1} else (2,),
    )


def followers(o: Observations, indices: Sequence[int], phase_two_move: str | None) -> list[Follower]:
    """Return the follow-ups of one kind of attack, the most frequent first."""
    ends: list[tuple[str, float, int]] = []  # what followed ("" for nothing), distance, phase at the end
    for i in indices:
        attack = o.attacks[i]
        if not attack.is_complete or attack.following == phase_two_move:
            continue
        following = o.attacks[i + 1]
        c, row = o.courses[attack.course], following.first
        phase = int(c.phase[row])
        # The choice sees the positions before its tick; a movement begins in the tick after it.
        distance, _ = _place_at(c, following.start - (1 if following.is_attack else 2))
        ends.append((following.animation if following.is_attack else "", distance, phase))
    names = [name for name, _, _ in ends if name]
    result = []
    taken: set[str] = set()
    for name in sorted(set(names), key=lambda name: (-names.count(name), name)):
        result.append(_follower(name, [end for end in ends if end[0] not in taken]))
        taken.add(name)
    return result


def _follower(name: str, ends: list[tuple[str, float, int]]) -> Follower:
    """Return a follow-up, given the ends of attacks after which it was tried."""
    phases = {phase for other, _, phase in ends if other == name}
    is_both = 1 in phases or 0 in phases
    own = np.array([distance for other, distance, _ in ends if other == name])
    others = np.array([distance for other, distance, phase in ends if other != name and (is_both or phase == 2)])
    within, n_failed, likely = _limits_and_failures(own, others)
    # The probability has a beta distribution for each limit; their mixture is its distribution.
    shares = (np.arange(N_SHARES) + 0.5) / N_SHARES
    density = len(own) * np.log(shares) + n_failed[:, None] * np.log1p(-shares)
    density = np.exp(density - density.max(1, keepdims=True))
    of_share = likely @ (density / density.sum(1, keepdims=True))
    return Follower(
        name,
        _interval(shares, of_share, TAIL, 1 - TAIL),
        _interval(within, likely, 0.0, 1 - 2 * TAIL),
        (1, 2) if is_both else (2,),
    )


def _limits_and_failures(
    own: NDArray[np.float64], others: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return possible limits of the distance, the failures within each, and the probability of each limit.

    The prior density of a limit is proportional to the inverse of its square; that of the probability of the follow-up
    is uniform.
    """
    outermost = max(float(own.max()) - NEAR_M, NEAR_M)
    limits = np.geomspace(outermost, max(FAR_M, outermost), N_LIMITS)
    # Distances are inexact: the attack may have followed at the true distance of any end as near as its own.
    n_failed = (others[:, None] <= np.maximum(limits, own.max())).sum(0)
    # The likelihood of a limit is the integral of share ** n_own * (1 - share) ** n_failed: a beta function.
    logs = np.array([lgamma(n + 1) - lgamma(len(own) + n + 2) for n in n_failed.tolist()])
    nearer = 1 / limits[:-1]
    likely = np.exp(logs - logs.max()) * np.append((1 - UNLIMITED) * nearer / nearer.sum(), UNLIMITED)
    return limits, n_failed, likely / likely.sum()


def _interval(values: NDArray[np.float64], likely: NDArray[np.float64], low: float, high: float) -> Estimate:
    """Return the median and the quantiles of a distribution over increasing values."""
    total = np.cumsum(likely)
    at = [float(values[min(int(np.searchsorted(total, level)), len(values) - 1)]) for level in (low, 0.5, high)]
    return Estimate(at[1], at[0], at[2])


def pauses(
    o: Observations, durations: Mapping[str, Estimate], phase: int, phase_two_move: str | None
) -> tuple[Estimate, Estimate] | None:
    """Return the least and the greatest pause after an attack in a phase, in ticks; None if there are under 3 waits."""
    waits = []
    for i, attack in enumerate(o.attacks[:-1]):
        if not (attack.is_attack and attack.is_complete):
            continue
        following = _next_attack(o, i)
        if following is None or following.animation == phase_two_move:
            continue
        end = attack.start + round(durations[attack.animation].value)
        c = o.courses[attack.course]
        row = int(np.searchsorted(c.tick, end))
        if row >= len(c.tick) or (c.phase[row] != phase and c.phase[row] != 0):
            continue
        wait = following.start - end - 1
        if -o.step <= wait < LONGEST_WAIT:  # a shorter wait means that the boss broke off the attack
            waits.append(max(wait, 0))
    if len(waits) < 3:
        return None
    n, low = len(waits), min(waits)
    greatest = greatest_pause(np.array(waits))
    span = max(greatest.value - low, 1)
    # The end of a uniform distribution, of which n values are known.
    slack = span * (LIMIT_RATIO ** (-1 / n) - 1)
    return Estimate(max(low - span / n / 2, 0), max(low - slack, 0.0), low), greatest


def greatest_pause(waits: NDArray[np.int64]) -> Estimate:
    """Return the greatest pause in ticks, with a 90 % interval.

    A pause is uniform between the least and the greatest one. If no attack fits at its end, the boss tries again every
    `RETRY_TICKS`, which makes the wait longer. The share of the first tries that fail, that of the further ones, and
    the greatest pause have uniform priors.

    Args:
        waits: (N,) times from the end of an attack to the start of the next one, from 0 to `LONGEST_WAIT` - 1 ticks;
            at least one.
    """
    low, longest = int(waits.min()), int(waits.max())
    ticks = np.arange(low, longest + 1)
    greatest = np.arange(low + 1.0, min(longest + max(BEYOND_WAITS, longest - low), LONGEST_WAIT) + 1)
    # Probability of each pause for each greatest pause.
    pause = (ticks[:, None] <= greatest) / (greatest - low + 1)
    counts = np.bincount(waits - low)
    seen = np.flatnonzero(counts)
    logs = []
    for again in FAILED_SHARES:
        retried = np.zeros_like(pause)
        for at in range(RETRY_TICKS, len(ticks), RETRY_TICKS):
            before = slice(at - RETRY_TICKS, min(at, len(ticks) - RETRY_TICKS))
            retried[at : at + RETRY_TICKS] = (1 - again) * pause[before] + again * retried[before]
        for first in FAILED_SHARES:
            known = (1 - OTHER_WAITS) * ((1 - first) * pause[seen] + first * retried[seen])
            logs.append(counts[seen] @ np.log(known + OTHER_WAITS / len(ticks)))
    likely = np.exp(np.array(logs) - np.max(logs)).sum(0)
    found = _interval(greatest, likely / likely.sum(), TAIL, 1 - TAIL)
    # The durations of attacks are exact to a tick.
    return Estimate(found.value, found.low - 1, min(found.high + 1, LONGEST_WAIT))


def _next_attack(o: Observations, i: int) -> Attack | None:
    """Return the attack after a pause; None if it follows directly, or a stun or the end of the fight is between."""
    if o.attacks[i + 1].is_attack:
        return None
    for following in o.attacks[i + 1 :]:
        if following.course != o.attacks[i].course or following.animation in STUNS:
            return None
        if following.animation not in NO_ATTACKS:
            return following
    return None
