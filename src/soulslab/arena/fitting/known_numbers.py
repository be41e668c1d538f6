"""Numbers of a boss that are known from elsewhere, and their use in a fit.

A file of known numbers is a part of a boss file, in which attacks have the names of their animations, because their
places are not known before the fit::

    hp = 1037
    phase_two.below = 0.5
    "pause_s[0][1]" = [1.0, 1.5]      # an interval: the least and the greatest plausible value

    [moves.Attack3007]
    recovery_s = 1.0
    windows = [{ damage = 118, reach_m = [2.0, 3.5] }]

    [moves.Attack3000.follow_ups.Attack3001]
    probability = 0.6

The numbers have the scale of a fit: the damage is that of phase 1, and the weights have a mean of 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.inspect import IntType

from soulslab.arena.boss_file import Boss
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.uncertainty import (
    Interval,
    Uncertainty,
    in_order,
    number_bounds,
    number_type,
    numbers_of,
    with_numbers,
)
from soulslab.config.checking import short
from soulslab.config.input_files import parse_toml, read_text
from soulslab.errors import BossFileError, FitError, did_you_mean

#: Share of a number by which a known one may differ without a contradiction: numbers are rounded.
ROUNDING: Final = 1e-3
_ATTACK: Final = re.compile(r"(moves|follow_ups)\.([^.\[\]]+)")
_WHOLE: Final = re.compile(r"[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*", re.ASCII)
_PLACE: Final = re.compile(r"moves\[(\d+)\](?:\.follow_ups\[(\d+)\])?(.*)")
#: Numbers that cannot be given, and why.
_REFUSED: Final = {
    r"ground\b.*": "the ground is not given as numbers; name a boss with this ground with --ground",
    r"damage_scale\[0\]": "is 1 in each fit; give the damage of the attacks as it is in phase 1",
    r"(.*\.)?(moves|follow_ups)\[.*": "the order of the attacks is not known before the fit; name an attack by its "
    "animation, as in [moves.Attack3000] and [moves.Attack3000.follow_ups.Attack3001]",
    r".*\bphases\[.*": "is a choice, not a measured number; it cannot be given",
}


def read_known_numbers(path: Path) -> dict[str, Interval]:
    """Read a file of known numbers.

    Returns:
        The interval of each number, by its place with animations, such as ``moves.Attack3007.windows[0].start_s``; both
        ends are equal if the number itself is known.

    Raises:
        BossFileError: The file cannot be read, or a number is unknown, has the wrong type or is out of its range.
    """
    error = partial(BossFileError, source=path)
    found = {}
    for place, value in _values(parse_toml(read_text(path, error), error)):
        if place in found:
            raise BossFileError("is given twice", path=place, source=path)
        try:
            found[place] = known_interval(place, value)
        except ValueError as problem:
            raise BossFileError(str(problem), path=place, source=path) from problem
    return found


def _values(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each entry of nested tables and lists of tables."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _values(item, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _values(item, f"{place}[{i}]")
    else:
        yield place, value


def known_interval(place: str, value: Any) -> Interval:
    """Return the interval of a known number, a number or a list of two; raise `ValueError` if it is invalid."""
    for pattern, why in _REFUSED.items():
        if re.fullmatch(pattern, place):
            raise ValueError(why)
    in_file = _ATTACK.sub(r"\1[0]", place)
    if not _WHOLE.fullmatch(in_file):
        raise ValueError("is not the place of a number, such as pause_s[0][1] or phase_two.below")
    kind = number_type(in_file)
    ends = value if isinstance(value, list) and len(value) == 2 else [value, value]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise ValueError(f"must be a number, or [least, greatest], got {short(value)}")
    least, most = number_bounds(in_file)
    if not all(least <= end <= most for end in ends):
        raise ValueError(f"must be from {least:g} to {most:g}, got {short(value)}")
    if isinstance(kind, IntType) and any(end != math.floor(end) for end in ends):
        raise ValueError(f"must be a whole number, got {short(value)}")
    low, high = map(float, ends)
    if low > high:
        raise ValueError(f"{low:g} is greater than {high:g}")
    return low, high


def narrowed(measured: Interval | None, known: Interval) -> tuple[Interval, bool]:
    """Return the interval of a number that is measured and known, and whether the two contradict each other.

    It is the part that both have in common; without one it is the known one.
    """
    if measured is None:
        return known, False
    low, high = max(measured[0], known[0]), min(measured[1], known[1])
    if low <= high:
        return (low, high), False
    return known, low - high > ROUNDING * max(abs(low), abs(high))


class Narrowed(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A fit with known numbers.

    Attributes:
        boss: The boss file.
        uncertainty: The intervals.
        places: Places of the known numbers in the boss file.
        contradictions: What is known and what was measured, where the two contradict each other.
        unused: Known numbers that the fit does not have, and why.
    """

    boss: Boss
    uncertainty: Uncertainty
    places: frozenset[str] = frozenset()
    contradictions: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def narrow_fit(
    boss: Boss, uncertainty: Uncertainty, animations: Sequence[str], known: Mapping[str, Interval]
) -> Narrowed:
    """Return a fit in which known numbers replace the measured ones.

    A number outside of its narrowed interval becomes the middle of it. Numbers that were measured relative to
    a changed number change with it: an attack keeps its duration, and its aim and its step forward keep their times.

    Args:
        boss: The fitted boss.
        uncertainty: Its intervals.
        animations: The animation of each attack in the recordings.
        known: Known numbers, by their places with animations.

    Raises:
        FitError: Known numbers contradict each other.
    """
    numbers = _Numbers(boss, uncertainty)
    names = _names(boss, animations)
    contradictions, unused = [], {}
    for name, interval in known.items():
        if name not in names:
            unused[name] = f"{name}: {_why_unused(name, names, animations)}"
        elif (problem := numbers.narrow(names[name], interval)) is not None:
            contradictions.append(f"{name}: {problem}")
    numbers.adapt(boss)
    narrow = in_order(with_numbers(boss, numbers.values))
    final = dict(numbers_of(narrow))
    for place, number in final.items():
        least, most = number_bounds(place)
        if not least <= number <= most:
            raise FitError(f"{place}: the known numbers leave {number:g}, which must be from {least:g} to {most:g}")
    for name in known.keys() - unused.keys():
        low, high = numbers.intervals[names[name]]
        if not low <= final[names[name]] <= high:
            raise FitError(
                f"{name}: the known number {_words((low, high))} contradicts other known numbers of the boss"
            )
    return Narrowed(
        boss=narrow,
        uncertainty=msgspec.structs.replace(
            uncertainty,
            intervals={
                place: (min(low, final[place]), max(high, final[place]))
                for place, (low, high) in numbers.intervals.items()
            },
            unknown=tuple(place for place in uncertainty.unknown if place not in numbers.known),
            known={name: interval for name, interval in known.items() if name not in unused},
        ),
        places=frozenset(numbers.known),
        contradictions=tuple(contradictions),
        unused=tuple(unused.values()),
    )


def _names(boss: Boss, animations: Sequence[str]) -> dict[str, str]:
    """Return the place of each number in the boss file, by its place with animations."""
    followers = {move.id: animation for move, animation in zip(boss.moves, animations, strict=True)}
    names = {}
    for place, _ in numbers_of(boss):
        name = place
        if match := _PLACE.fullmatch(place):
            i, j, rest = match.groups()
            name = f"moves.{animations[int(i)]}"
            name += f".follow_ups.{followers[boss.moves[int(i)].follow_ups[int(j)].move]}" if j else ""
            name += rest
        names[name] = place
    return names


def _why_unused(name: str, names: Mapping[str, str], animations: Sequence[str]) -> str:
    animation = name.split(".")[1] if name.startswith("moves.") else ""
    if animation not in animations:
        return f"the recordings show no attack {animation!r}{did_you_mean(animation, animations)}"
    own = [each for each in names if each.startswith(f"moves.{animation}.")]
    return f"the fit has no such number of this attack{did_you_mean(name, own)}"


def _words(interval: Interval) -> str:
    low, high = interval
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


class _Numbers:
    """The numbers of a boss and their intervals, while known ones replace them."""

    def __init__(self, boss: Boss, uncertainty: Uncertainty) -> None:
        self.fitted = dict(numbers_of(boss))
        self.values = dict(self.fitted)
        self.intervals = dict(uncertainty.intervals)
        self.known: set[str] = set()

    def narrow(self, place: str, known: Interval) -> str | None:
        """Narrow a number to what is known; return what contradicts it, or None."""
        measured, number = self.intervals.get(place), self.values[place]
        (low, high), is_contradiction = narrowed(measured, known)
        self.known.add(place)
        self.intervals[place] = low, high
        if not low <= number <= high:
            self.values[place] = (low + high) / 2
        if measured is None or not is_contradiction:
            return None
        shown = f"{number:g} ({_words(measured)})"
        return f"{_words((low, high))} is known, but the recordings show {shown}; the known number is used"

    def adapt(self, boss: Boss) -> None:
        """Change the numbers that depend on known ones."""
        self._make_room(["keep_m[0]", "keep_m[1]"])
        for phase in range(2):
            self._make_room([f"pause_s[{phase}][0]", f"pause_s[{phase}][1]"])
        for i, move in enumerate(boss.moves):
            for field in ("range_m", "bearing_rad"):
                self._make_room([f"moves[{i}].{field}[0]", f"moves[{i}].{field}[1]"])
            windows = [f"moves[{i}].windows[{j}]" for j in range(len(move.windows))]
            self._make_room([f"{w}.{end}" for w in windows for end in ("start_s", "end_s")], 1 / TICKS_PER_S)
            for window in windows:
                for field in ("aim_s", "advance_s"):
                    self._shift(f"{window}.{field}", self._change(f"{window}.start_s"))
            self._shift(f"moves[{i}].recovery_s", -self._change(f"{windows[-1]}.end_s"))
        # The second phase was seen to begin at a number of hit points.
        below = self.values["phase_two.below"]
        self._shift("phase_two.below", below * (self.fitted["hp"] / self.values["hp"] - 1))

    def _change(self, place: str) -> float:
        return self.values[place] - self.fitted[place]

    def _make_room(self, places: Sequence[str], window_s: float = 0.0) -> None:
        """Limit the unknown numbers of a sequence by the known ones; a window takes ``window_s`` at least."""
        for i, place in enumerate(places):
            for k, other in enumerate(places):
                if place not in self.known or other in self.known:
                    continue
                # Only the start and the end of a window cannot be equal.
                limit = self.values[place] + window_s * ((k + 1) // 2 - (i + 1) // 2)
                limited = partial(min if k < i else max, limit)
                self.values[other] = limited(self.values[other])
                if other in self.intervals:
                    low, high = self.intervals[other]
                    self.intervals[other] = limited(low), limited(high)

    def _shift(self, place: str, change: float) -> None:
        """Change a number that was measured, and its interval, unless it is known."""
        if change and place in self.intervals and place not in self.known:
            least, most = number_bounds(place)
            low, high = (min(max(end + change, least), most) for end in self.intervals[place])
            self.intervals[place] = low, high
            self.values[place] = min(max(self.values[place] + change, least), most)
