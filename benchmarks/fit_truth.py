"""Comparison of a fitted boss with the true boss file, number by number.

Numbers are compared where both files mean the same: damage is compared as the damage in phase 1, weights relative to
their mean, and probabilities of follow-ups in the order of the fitted file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from soulslab.arena.boss_file import Boss, Move, Window
from soulslab.arena.fitting.fit import Fit
from soulslab.arena.uncertainty import numbers_of

#: Kinds of numbers, by the last name of their place, in the order of the report.
KINDS = (
    "start_s",
    "end_s",
    "damage",
    "reach_m",
    "arc_rad",
    "tracking_rad_s",
    "aim_s",
    "advance_m",
    "advance_s",
    "speed_m_s",
    "count",
    "spread_rad",
    "recovery_s",
    "weight",
    "range_m",
    "bearing_rad",
    "cooldown_s",
    "probability",
    "within_m",
    "pause_s",
)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted number and the true one.

    Attributes:
        place: Place in the fitted boss file.
        kind: Last name of the place; ``boss`` for numbers of the whole boss.
        fitted: Fitted number; ``low`` and ``high`` are its interval.
        true: True number.
    """

    place: str
    kind: str
    fitted: float
    low: float
    high: float
    true: float

    @property
    def is_covered(self) -> bool:
        """Whether the interval contains the true number, up to rounding."""
        return self.low - 1e-4 <= self.true <= self.high + 1e-4

    @property
    def error(self) -> float:
        """Absolute error."""
        return abs(self.fitted - self.true)


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of a fit with the truth.

    Attributes:
        numbers: The numbers that both files have.
        n_moves: Attacks of the true boss; ``n_moves_found`` of them in the fit.
        n_windows: Windows of the attacks that were found; ``n_windows_found`` of them in the fit, ``n_windows_extra``
            are in the fit only.
        n_choices: Knock-backs, kinds of windows (melee or projectile) and known parries that were compared, of which
            ``n_choices_right`` are right.
    """

    numbers: tuple[Compared, ...]
    n_moves: int
    n_moves_found: int
    n_windows: int
    n_windows_found: int
    n_windows_extra: int
    n_choices: int
    n_choices_right: int

    @property
    def coverage(self) -> float:
        """Share of the intervals that contain the true number."""
        return float(np.mean([number.is_covered for number in self.numbers]))


def compare(fit: Fit, truth: Boss) -> Agreement:
    """Compare a fit with the boss that was recorded."""
    true_moves = {move.animation: move for move in truth.moves}
    pairs = [
        (i, move, true_moves[move.animation]) for i, move in enumerate(fit.boss.moves) if move.animation in true_moves
    ]
    expected = _boss_numbers(truth)
    n_windows = n_found = n_extra = n_choices = n_right = 0
    unknown = set(fit.uncertainty.unknown)
    for i, fitted, true in pairs:
        matched = _matched(fitted.windows, true.windows)
        n_windows, n_found = n_windows + len(true.windows), n_found + len(matched)
        n_extra += len(fitted.windows) - len(matched)
        expected |= _move_numbers(f"moves[{i}]", fitted, true, truth, fit.boss)
        for j, k in matched.items():
            place, ours, theirs = f"moves[{i}].windows[{j}]", fitted.windows[j], true.windows[k]
            expected |= dict(_window_numbers(place, theirs, truth))
            checks = [(ours.projectile is None) == (theirs.projectile is None)]
            checks += [ours.knock_back == theirs.knock_back] * (f"{place}.knock_back" not in unknown)
            is_parry_known = f"{place}.parry" not in unknown and theirs.projectile is None and ours.projectile is None
            checks += [ours.parry == theirs.parry] * is_parry_known
            n_choices, n_right = n_choices + len(checks), n_right + sum(checks)
    expected |= _weights(pairs, fit.uncertainty.intervals)
    numbers = dict(numbers_of(fit.boss))
    compared = tuple(
        Compared(place=place, kind=kind_of(place), fitted=numbers[place], low=low, high=high, true=expected[place])
        for place, (low, high) in fit.uncertainty.intervals.items()
        if place in expected
    )
    return Agreement(
        numbers=compared,
        n_moves=len(truth.moves),
        n_moves_found=len(pairs),
        n_windows=n_windows,
        n_windows_found=n_found,
        n_windows_extra=n_extra,
        n_choices=n_choices,
        n_choices_right=n_right,
    )


def kind_of(place: str) -> str:
    """Return the kind of a number, one of `KINDS` or ``boss``."""
    name = place.rpartition(".")[2].partition("[")[0]
    return name if name in KINDS else "boss"


def _boss_numbers(truth: Boss) -> dict[str, float]:
    whole = {place: number for place, number in numbers_of(truth) if not place.startswith(("moves", "ground"))}
    whole["damage_scale[0]"] = 1.0
    whole["damage_scale[1]"] = truth.damage_scale[1] / truth.damage_scale[0]
    return whole


def _matched(fitted: tuple[Window, ...], true: tuple[Window, ...]) -> dict[int, int]:
    """Return the true window of each fitted one: the nearest in time, within half a second."""
    result: dict[int, int] = {}
    for k, window in enumerate(true):
        off = {j: abs(each.start_s - window.start_s) for j, each in enumerate(fitted) if j not in result}
        if off and min(off.values()) < 0.5:
            result[min(off, key=lambda j: off[j])] = k
    return result


def _move_numbers(place: str, fitted: Move, true: Move, truth: Boss, boss: Boss) -> dict[str, float]:
    numbers: dict[str, float] = {f"{place}.recovery_s": true.recovery_s}
    far = min(true.range_m[1], 40.0)
    numbers |= {f"{place}.range_m[0]": true.range_m[0], f"{place}.range_m[1]": far}
    numbers |= {f"{place}.bearing_rad[0]": true.bearing_rad[0], f"{place}.bearing_rad[1]": true.bearing_rad[1]}
    # A cooldown that ends before the attack and a pause have ended has no effect.
    if true.cooldown_s > true.duration_s + min(pair[0] for pair in truth.pause_s):
        numbers[f"{place}.cooldown_s"] = true.cooldown_s
    if true.weight <= 0:  # the other choices of this attack have no meaning
        numbers = {f"{place}.recovery_s": true.recovery_s}
    ids = {move.id: move.animation for move in boss.moves}
    true_ids = {move.id: move.animation for move in truth.moves}
    left, shares, within = 1.0, {}, {}
    for follow in true.follow_ups:
        shares[true_ids[follow.move]] = left * follow.probability
        within[true_ids[follow.move]] = min(follow.within_m, 40.0)
        left *= 1 - follow.probability
    left = 1.0
    for j, follow in enumerate(fitted.follow_ups):
        share = shares.get(ids[follow.move])
        if share is not None:
            numbers[f"{place}.follow_ups[{j}].probability"] = min(share / left, 1.0)
            numbers[f"{place}.follow_ups[{j}].within_m"] = within[ids[follow.move]]
            left -= share
    return numbers


def _window_numbers(place: str, true: Window, truth: Boss) -> Iterator[tuple[str, float]]:
    yield f"{place}.start_s", true.start_s
    if true.projectile is None:  # the end of a projectile's window has hardly an effect
        yield f"{place}.end_s", true.end_s
        yield f"{place}.reach_m", true.reach_m
        yield f"{place}.arc_rad", true.arc_rad
    else:
        yield f"{place}.projectile.speed_m_s", true.projectile.speed_m_s
        yield f"{place}.projectile.count", true.projectile.count
        if true.projectile.count > 1:
            yield f"{place}.projectile.spread_rad", true.projectile.spread_rad
    yield f"{place}.damage", true.damage * truth.damage_scale[0]
    yield f"{place}.tracking_rad_s", true.tracking_rad_s
    if true.tracking_rad_s > 0:
        yield f"{place}.aim_s", true.aim_s
    yield f"{place}.advance_m", true.advance_m
    if true.advance_m > 0:
        yield f"{place}.advance_s", true.advance_s


def _weights(pairs: list[tuple[int, Move, Move]], intervals: Mapping[str, tuple[float, float]]) -> Mapping[str, float]:
    """Return the true weights, times the common factor that agrees best with the fitted ones."""
    logs, trust = [], []
    for i, fitted, true in pairs:
        low, high = intervals.get(f"moves[{i}].weight", (0.0, 0.0))
        if fitted.weight > 0 and true.weight > 0 and high > low > 0:
            logs.append(np.log(fitted.weight / true.weight))
            trust.append(np.log(high / low) ** -2)
    factor = float(np.exp(np.average(logs, weights=trust))) if logs else 1.0
    return {f"moves[{i}].weight": true.weight * factor for i, _, true in pairs}
