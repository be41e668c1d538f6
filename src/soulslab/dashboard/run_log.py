"""The telemetry file of a run, read while the run is still writing it.

A run that a dashboard shows may be running, killed in the middle of a line, or resumed from an older checkpoint. The
reader therefore reads only complete lines, reads what was appended since the last call, starts again if the file became
shorter or was replaced, and drops the part that a resume repeats.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn import telemetry
from soulslab.learn.actors import episode_window
from soulslab.learn.evaluate import wilson_interval
from soulslab.learn.ppo import episode_tracker
from soulslab.learn.sinks.metric_names import numbers

AXES: Final = ("decisions", "game time", "training time", "wall time", "updates")
"""Horizontal axes of charts."""

DECISION_S: Final = 0.1
"""Game time of a decision (s) if the environment has no option ``step_ms``."""

_CHUNK: Final = 8 << 20
_MAX_BACK: Final = 8 << 20
_NAN: Final = float("nan")


class _Stamp(msgspec.Struct, frozen=True):
    """The wall time of a line."""

    time: datetime


class Event(NamedTuple):
    """A message that is not a measurement, with its wall time (Unix time, s)."""

    wall_s: float
    message: telemetry.TrainStarted | telemetry.CheckpointSaved | telemetry.TrainFinished | telemetry.Evaluated


class Series(NamedTuple):
    """Values over game decisions and wall time (Unix time, s), float64 (T,) each; unknown values are NaN."""

    env_steps: NDArray[np.float64]
    wall_s: NDArray[np.float64]
    values: NDArray[np.float64]


class Band(NamedTuple):
    """A win rate with the ends of its 95 % Wilson interval, in %, float64 (T,) each."""

    series: Series
    low: NDArray[np.float64]
    high: NDArray[np.float64]


_MESSAGE: Final = msgspec.json.Decoder(telemetry.Message)
_STAMP: Final = msgspec.json.Decoder(_Stamp)


def decode_line(line: bytes) -> tuple[telemetry.Message, float] | None:
    """Return the message of a line and its wall time (Unix time, s); None if it is not a message."""
    try:
        return _MESSAGE.decode(line), _STAMP.decode(line).time.timestamp()
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return None


class _Table:
    """The measurements of one type of message, by column; all columns have the same length."""

    def __init__(self, kind: type[telemetry.Message]) -> None:
        self.steps, self.wall_s = array("d"), array("d")
        self.columns: dict[str, array[float]] = {}
        self._scalars = [(each.field, each.tag) for each in numbers(kind) if each.tag and not each.label]
        self._spread = [(each.field, each.tag) for each in numbers(kind) if each.label]
        for _, tag in self._scalars:
            self.columns[tag] = array("d")

    def add(self, message: Any, wall_s: float) -> None:
        """Append a message; rows with the same or a later number of decisions are replaced."""
        self.cut(message.env_steps - 1)
        n = len(self.steps)
        self.steps.append(message.env_steps)
        self.wall_s.append(wall_s)
        for field, tag in self._scalars:
            value = getattr(message, field)
            self.columns[tag].append(_NAN if value is None else value)
        for field, tag in self._spread:
            parts = getattr(message, field)
            for label, value in parts.items() if isinstance(parts, dict) else enumerate(parts):
                column = self.columns.setdefault(f"{tag}/{label}", array("d"))
                column.extend([_NAN] * (n - len(column)))
                column.append(value)
        for column in self.columns.values():
            if len(column) == n:
                column.append(_NAN)

    def cut(self, last_step: float) -> None:
        """Remove the rows after a number of decisions."""
        while self.steps and self.steps[-1] > last_step:
            self.steps.pop()
            self.wall_s.pop()
            for column in self.columns.values():
                column.pop()

    def series(self, tag: str) -> Series:
        """Return copies of a column and of its axes."""
        return Series(*(np.array(each, np.float64) for each in (self.steps, self.wall_s, self.columns[tag])))


class RunLog:
    """The measurements and events of a ``progress.jsonl``, updated by `update`.

    The names of the measurements are those in TensorBoard, such as ``train/win_rate`` and ``fight/damage/Attack3005``.

    Attributes:
        n_malformed: Number of complete lines that are not messages; they are skipped.
        last_wall_s: Wall time of the last message (Unix time, s); None without messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = (0, 0)
        self._offset = 0
        self._clear()

    def update(self) -> bool:
        """Read what was appended since the last call; return whether anything changed.

        A missing file is empty. Reading stops without an error if the file disappears meanwhile.
        """
        try:
            with self._path.open("rb") as file:
                about = os.fstat(file.fileno())
                is_new = (about.st_dev, about.st_ino) != self._identity or about.st_size < self._offset
                if is_new:
                    self._clear()
                    self._identity = (about.st_dev, about.st_ino)
                start = self._offset
                file.seek(start)
                self._read(file)
                return is_new or self._offset > start
        except OSError:
            had = self._offset > 0
            self._clear()
            return had

    @property
    def tags(self) -> list[str]:
        """Names of the measurements that have a value."""
        return [tag for table in self._tables.values() for tag in table.columns]

    def series(self, tag: str) -> Series:
        """Return a measurement without its unknown values; empty if the run never sent it."""
        for table in self._tables.values():
            if tag in table.columns:
                found = table.series(tag)
                known = ~np.isnan(found.values)
                return Series(*(part[known] for part in found))
        return Series(*(np.empty(0) for _ in range(3)))

    def moving_win_rate(self) -> Band:
        """Return the win rate of the last fights of training, with its interval."""
        table = self._tables.get(telemetry.TrainProgress)
        if table is None:
            return _empty_band()
        rates, n_fights = table.series("train/win_rate"), table.series("train/n_fights").values
        window = win_rate_window(is_rainbow=telemetry.LearningStats in self._tables)
        known = ~np.isnan(rates.values)
        series = Series(*(part[known] for part in rates))
        n = np.minimum(np.maximum(n_fights[known], 1.0), window)
        interval = lru_cache(maxsize=None)(wilson_interval)  # a long run has few different pairs of wins and fights
        wins = np.rint(series.values * n).astype(np.int64).tolist()
        ends = [interval(won, count) for won, count in zip(wins, n.astype(np.int64).tolist(), strict=True)]
        low, high = (np.array([100.0 * end[i] for end in ends]) for i in range(2))
        return Band(series._replace(values=100.0 * series.values), low, high)

    def evaluated_win_rate(self) -> Band:
        """Return the evaluated win rate, with its interval."""
        rows = [
            (message.env_steps, wall_s, message.win_rate, message.low, message.high)
            for wall_s, message in self.events
            if isinstance(message, telemetry.Evaluated) and message.win_rate is not None
        ]
        if not rows:
            return _empty_band()
        steps, wall_s, rates, low, high = np.array(rows, np.float64).T
        return Band(Series(steps, wall_s, 100.0 * rates), 100.0 * low, 100.0 * high)

    def axis(self, name: str, series: Series, decision_s: float = DECISION_S) -> NDArray[np.float64]:
        """Return the positions of a series on one of `AXES`: decisions, hours, s, Unix time in ms, or updates."""
        if name == "game time":
            return series.env_steps * (decision_s / 3600.0)
        if name == "wall time":
            return series.wall_s * 1000.0
        if name == "training time":
            return self._interpolated(series, "train/seconds")
        if name == "updates":
            return self._interpolated(series, "update/n_updates")
        return series.env_steps

    def _interpolated(self, series: Series, tag: str) -> NDArray[np.float64]:
        known = self.series(tag)
        if tag == "update/n_updates" and len(known.values) == 0:  # PPO sends a message for each update
            steps = self.series("update/policy_loss").env_steps
            known = Series(steps, steps, np.arange(1, len(steps) + 1, dtype=np.float64))
        if len(known.values) == 0:
            return np.full(len(series.values), np.nan)
        return np.interp(series.env_steps, known.env_steps, known.values)

    def _clear(self) -> None:
        self._identity, self._offset = (0, 0), 0
        self._tables: dict[type[telemetry.Message], _Table] = {}
        self.events: list[Event] = []
        self.last: dict[type[telemetry.Message], telemetry.Message] = {}
        self.n_malformed = 0
        self.last_wall_s: float | None = None

    def _read(self, file: BinaryIO) -> None:
        """Process the complete lines; an incomplete last line is read again by the next call."""
        rest = b""
        while chunk := file.read(_CHUNK):
            block = rest + chunk
            *lines, rest = block.split(b"\n")
            self._offset += len(block) - len(rest)
            for line in lines:
                decoded = decode_line(line)
                if decoded is None:
                    self.n_malformed += 1
                else:
                    self._add(*decoded)

    def _add(self, message: telemetry.Message, wall_s: float) -> None:
        self.last_wall_s = wall_s
        if isinstance(message, telemetry.TrainStarted):
            self._cut(message.env_steps)
        self.last[type(message)] = message
        match message:
            case telemetry.EvaluationProgress():
                return
            case telemetry.TrainStarted():
                self.events.append(Event(wall_s, message))
            case telemetry.CheckpointSaved() | telemetry.TrainFinished():
                self.events.append(Event(wall_s, message))
            case telemetry.Evaluated():
                self.events.append(Event(wall_s, message))
                self._table(message).add(message, wall_s)
            case _:
                self._table(message).add(message, wall_s)

    def _table(self, message: telemetry.Message) -> _Table:
        table = self._tables.get(type(message))
        if table is None:
            table = self._tables[type(message)] = _Table(type(message))
        return table

    def _cut(self, env_steps: int) -> None:
        """Drop the measurements after a number of decisions, which a resumed run repeats."""
        self.last = {kind: each for kind, each in self.last.items() if getattr(each, "env_steps", 0) <= env_steps}
        for table in self._tables.values():
            table.cut(env_steps)
        self.events = [
            event
            for event in self.events
            if not (isinstance(event.message, telemetry.Evaluated) and event.message.env_steps > env_steps)
        ]


def win_rate_window(*, is_rainbow: bool) -> int:
    """Return the largest number of fights in the moving win rate of an algorithm."""
    return episode_window.WINDOW if is_rainbow else episode_tracker.WINDOW


def read_ends(path: Path, *, n_places: int = 48, n_bytes: int = 4096) -> Iterator[tuple[telemetry.Message, float]]:
    """Yield messages from evenly spaced places of a file, in order, with the first and the last ones.

    The time needed does not grow with the length of the file, so that a page can list many long runs. A file that is
    not longer than the places is read as a whole. A missing file has no messages.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            tail = 4 * n_bytes
            if size <= n_places * n_bytes + tail:
                starts = [(0, size)]
            else:
                spacing = (size - tail - n_bytes) / (n_places - 1)
                starts = [(int(i * spacing), n_bytes) for i in range(n_places)] + [(size - tail, tail)]
            for start, length in starts:
                file.seek(start)
                # The first and the last part of a window are incomplete lines.
                lines = file.read(length).split(b"\n")[(1 if start else 0) : -1]
                for line in lines:
                    decoded = decode_line(line)
                    if decoded is not None:
                        yield decoded
    except OSError:
        return


def last_evaluation(path: Path) -> telemetry.Evaluated | None:
    """Return the last evaluation in a file; None if there is none in its last `_MAX_BACK` bytes."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MAX_BACK))
            data = file.read(_MAX_BACK)
    except OSError:
        return None
    at = len(data)
    while (at := data.rfind(b'{"type":"Evaluated"', 0, at)) >= 0:
        found, resumed = (_decode_at(data, place) for place in (at, data.find(b'{"type":"TrainStarted"', at)))
        # A resume from an earlier checkpoint repeats the evaluation.
        is_cut = isinstance(resumed, telemetry.TrainStarted) and resumed.env_steps < getattr(found, "env_steps", 0)
        if isinstance(found, telemetry.Evaluated) and not is_cut:
            return found
    return None


def _decode_at(data: bytes, place: int) -> telemetry.Message | None:
    """Return the message of the line that begins at a place; None if it is not a message, or the place is -1."""
    decoded = decode_line(data[place:].partition(b"\n")[0]) if place >= 0 else None
    return decoded[0] if decoded is not None else None


def _empty_band() -> Band:
    return Band(Series(*(np.empty(0) for _ in range(3))), np.empty(0), np.empty(0))
