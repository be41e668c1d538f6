"""Uncertainty files: the 90 % interval of each fitted number of a boss file, and what could not be measured.

The fit of a boss (`soulslab.arena.fitting`) writes ``margit.toml``, an ordinary boss file, and beside it
``margit.uncertainty.toml``::

    level = 0.9
    n_fights = 31
    game_time_s = 1204.5
    unknown = ["moves[4].windows[0].parry"]   # not measured; the boss file holds a default

    [intervals]
    hp = [1037.0, 1037.0]
    "pause_s[0][1]" = [1.2833, 1.3]
    "moves[0].windows[0].start_s" = [0.6333, 0.65]

A key is the place of a number in the boss file, written as in the messages of `BossFileError`. Only numbers have
intervals. A number without an interval was not measured, or has no effect. The table ``[known]`` has the numbers that
were given to the fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, inspect

from soulslab.arena.boss_file import MAX_NUMBER, Boss, Move, Window
from soulslab.arena.records import TICKS_PER_S
from soulslab.config.checking import check, join_place, type_info
from soulslab.config.input_files import parse_toml, read_text
from soulslab.errors import BossFileError, did_you_mean

#: Probability that an interval contains the true number.
LEVEL = 0.9
#: Half the width of this interval of a normal distribution, in standard deviations.
Z = 1.645
SUFFIX = ".uncertainty.toml"
_STEP = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")
_Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]

#: An interval that ends above this (rad) does not exclude a full circle.
NEARLY_FULL_RAD = 6.28
#: Probability that such an arc is drawn as a full circle. The normal distribution would draw few of them, and a policy
#: would learn to stand behind the boss.
FULL_CIRCLE_PROBABILITY = 1 / 3
#: Largest bearing of a boss file.
MAX_BEARING = 3.1416
#: Distance from a bound that a number must not reach.
_JUST = 1e-6

#: Least and greatest plausible value of a number.
Interval: TypeAlias = tuple[_Number, _Number]


class Uncertainty(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Intervals of the numbers of a fitted boss file, and the places that no fight showed.

    Attributes:
        intervals: Interval of each measured number, by its place in the boss file.
        unknown: Places of the numbers and choices that no fight showed; the boss file holds defaults.
        known: Numbers that were known from elsewhere, by their places with animations
            (`soulslab.arena.fitting.known_numbers`); a later fit uses them again.
        recordings: Absolute paths of the recordings to which the boss was fitted; a later fit uses them again.
        level: Probability that an interval contains the true number.
        n_fights: Number of recorded fights.
        game_time_s: Game time of all recorded fights.
    """

    intervals: dict[str, Interval]
    unknown: tuple[str, ...] = ()
    known: dict[str, Interval] = {}
    recordings: tuple[str, ...] = ()
    level: Annotated[float, Meta(gt=0, lt=1)] = LEVEL
    n_fights: Annotated[int, Meta(ge=0)] = 0
    game_time_s: Annotated[float, Meta(ge=0)] = 0.0


def uncertainty_path(boss: Path) -> Path:
    """Return the path of the uncertainty file of a boss file."""
    return boss.with_suffix(SUFFIX)


def load_uncertainty(path: Path, boss: Boss) -> Uncertainty:
    """Load an uncertainty file, and check it against its boss.

    Raises:
        BossFileError: The file cannot be read or is invalid, or a place is not a number of the boss.
    """
    error = partial(BossFileError, source=path)
    if not path.exists():
        raise error(
            "does not exist; 'soulslab boss fit' writes it beside the boss file; for a boss without intervals set "
            "boss_intervals to [0, 0]"
        )
    data = parse_toml(read_text(path, error), error)
    loaded = check(data, Uncertainty, lambda problem, place: BossFileError(problem, path=place, source=path))
    numbers = dict(numbers_of(boss))
    for place, (low, high) in loaded.intervals.items():
        where = join_place("intervals", place)
        if place not in numbers:
            raise BossFileError("is not the place of a number in the boss file", path=where, source=path)
        if not low <= high:
            raise BossFileError(f"{low} is greater than {high}", path=where, source=path)
    return loaded


def numbers_of(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield the place and the value of each number in a boss or a part of it; bools are not numbers."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:  # msgspec.structs.fields evaluates annotations, which takes 10 ms a boss
            yield from numbers_of(getattr(value, name), f"{place}.{name}".lstrip("."))
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from numbers_of(item, f"{place}[{i}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value


def with_numbers(boss: Boss, numbers: Mapping[str, float]) -> Boss:
    """Return a boss with other numbers at some places; whole numbers of the boss file are rounded.

    Raises `KeyError` if a place is not in the boss. The result is not validated.
    """
    tree: dict[str | int, Any] = {}
    for place, number in numbers.items():
        branch = tree
        *steps, last = _steps(place)
        for step in steps:
            branch = branch.setdefault(step, {})
        branch[last] = number
    changed: Boss = _replaced(boss, tree)
    return changed


def _steps(place: str) -> list[str | int]:
    return [name or int(index) for name, index in _STEP.findall(place)]


def _replaced(value: Any, tree: Any) -> Any:
    if not isinstance(tree, dict):
        return round(tree) if isinstance(value, int) else float(tree)
    if isinstance(value, tuple):
        items = list(value)
        for index, branch in tree.items():
            if not (isinstance(index, int) and index < len(items)):
                raise KeyError(index)
            items[index] = _replaced(items[index], branch)
        return tuple(items)
    if not isinstance(value, msgspec.Struct) or any(not hasattr(value, str(name)) for name in tree):
        raise KeyError(*tree)
    changes = {str(name): _replaced(getattr(value, str(name)), branch) for name, branch in tree.items()}
    return msgspec.structs.replace(value, **changes)


def draw_boss(boss: Boss, uncertainty: Uncertainty, rng: np.random.Generator, *, width: float = 1.0) -> Boss:
    """Return a valid boss whose uncertain numbers are drawn from their intervals.

    The distribution of a number is a normal one on either side of the fitted number, which is its median, with the
    interval as its 90 % interval; nothing is drawn from beyond the interval. A uniform distribution would draw too many
    extreme numbers: an interval is often much longer on one side. With width 1, an arc whose interval does not exclude
    a full circle is one in a third of the draws, and in two thirds if the fitted arc is one.

    Args:
        boss: The fitted boss.
        uncertainty: Its intervals.
        rng: Random generator.
        width: Factor of the width of the intervals around the fitted numbers; 0 returns the boss itself.
    """
    numbers = dict(numbers_of(boss))
    drawn = {}
    for place, (low, high) in uncertainty.intervals.items():
        fitted = numbers[place]
        share = min(max(rng.normal() / Z, -1.0), 1.0)
        span = share * (high - fitted if share > 0.0 else fitted - low)
        if place.endswith("arc_rad") and high > NEARLY_FULL_RAD and rng.random() < FULL_CIRCLE_PROBABILITY:
            span = high - fitted
        least, most = number_bounds(place)
        drawn[place] = min(max(fitted + width * span, least), most)
    return in_order(with_numbers(boss, drawn))


@lru_cache(maxsize=4096)
def number_type(place: str) -> inspect.IntType | inspect.FloatType:
    """Return the type of the number at a place of a boss file, with its bounds; raise `ValueError` if there is none."""
    kind: Any = type_info(Boss)
    for step in _steps(place):
        if isinstance(kind, inspect.UnionType):  # an optional part, such as a projectile
            kind = next(each for each in kind.types if isinstance(each, inspect.StructType))
        if isinstance(step, str):
            fields = {field.name: field.type for field in getattr(kind, "fields", ())}
            if step not in fields:
                raise ValueError(f"a boss file has no number {step!r} here{did_you_mean(step, fields)}")
            kind = fields[step]
        elif isinstance(kind, inspect.VarTupleType):
            kind = kind.item_type
        elif isinstance(kind, inspect.TupleType) and step < len(kind.item_types):
            kind = kind.item_types[step]
        else:
            raise ValueError(f"a boss file has no item [{step}] here")
        kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return kind
        case inspect.TupleType():
            raise ValueError(f"is {len(kind.item_types)} numbers; give each of them, the first one with [0] after it")
    raise ValueError("is not a number")


@lru_cache(maxsize=4096)
def number_bounds(place: str) -> tuple[float, float]:
    """Return the least and the greatest number that a boss file may have at a place."""
    kind = number_type(place)
    just = 1 if isinstance(kind, inspect.IntType) else _JUST
    least = kind.ge if kind.ge is not None else -MAX_NUMBER if kind.gt is None else kind.gt + just
    most = kind.le if kind.le is not None else MAX_NUMBER if kind.lt is None else kind.lt - just
    return least, most


def in_order(boss: Boss) -> Boss:
    """Return a boss with drawn numbers within the bounds of a boss file, and its pairs and windows in order."""
    moves = tuple(_move_in_order(move) for move in boss.moves)
    pauses = tuple((min(pair), max(pair)) for pair in boss.pause_s)
    return msgspec.structs.replace(boss, moves=moves, pause_s=pauses, keep_m=(min(boss.keep_m), max(boss.keep_m)))


def _move_in_order(move: Move) -> Move:
    windows: list[Window] = []
    end_s = 0.0
    for window in move.windows:
        start_s = max(window.start_s, end_s)
        end_s = max(window.end_s, start_s + 1 / TICKS_PER_S)
        windows.append(msgspec.structs.replace(window, start_s=start_s, end_s=end_s))
    recovery_s = min(max(move.recovery_s, 0.0), 10.0 - end_s)
    nearest, farthest = min(move.range_m), max(move.range_m)
    bearing = (min(move.bearing_rad), min(max(move.bearing_rad), MAX_BEARING))
    return msgspec.structs.replace(
        move, windows=tuple(windows), recovery_s=recovery_s, range_m=(nearest, farthest), bearing_rad=bearing
    )
