"""Terminal output of sessions: tables, images in files, and parsing of typed values."""

from __future__ import annotations

import logging
import statistics
import time
import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from soulslab.errors import (
    AccessRefusedError,
    AttributeVersionError,
    ConfigError,
    ProcessExitedError,
    ServerUnavailableError,
    SessionStateError,
    SiphonError,
    UnknownAttributeError,
    WaitTimeoutError,
)
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.recording.recorder import Recordable, Recorder, RecordingOptions, RecordingStatus
from soulslab.siphon.session import Frame, Session, SessionInfo

_log = logging.getLogger(__name__)

MEDIAN_OF = 50
#: Interval between two reports on a recording.
LOOK_S = 0.1


def info_table(info: SessionInfo) -> Table:
    """Return a table of the facts about a session."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("process", f"{info.pid}, {info.executable}{f' {info.version}' if info.version else ''}")
    table.add_row("loaded at", f"{info.module_base:#x}")
    table.add_row("clock", info.clock_grade)
    if info.capture_backend:
        width, height = info.window_px
        table.add_row("window", f"{width}x{height} px on {info.display}")
        table.add_row("input, frames", f"{info.input_backend}, {info.capture_backend}")
    for name, source in info.sources.items():
        table.add_row("source", f"{name}: {source or 'not decided yet'}")
    return table


def attribute_table(game: Session, names: Iterable[str] | None = None) -> tuple[Table, int]:
    """Return a table of attributes with their values, and the number of unreadable ones.

    With names None, attributes that are not known for the version of the game are left out. An unreadable attribute has
    its error in place of its value.
    """
    table = Table(box=None, pad_edge=False)
    for title in ("attribute", "value", "unit"):
        table.add_column(title, overflow="fold")
    values: Mapping[str, Value | SiphonError]
    wanted = tuple(names) if names is not None else None
    try:
        values = game.snapshot(wanted)
    except (ProcessExitedError, SessionStateError, ServerUnavailableError, AccessRefusedError):
        raise
    except WaitTimeoutError as error:  # single reads would wait as long, one after another
        values = dict.fromkeys(wanted or game.profile.attributes, error)
    except SiphonError:
        values = {name: _read_or_error(game, name) for name in wanted or game.profile.attributes}
        if wanted is None:
            values = {name: value for name, value in values.items() if not isinstance(value, AttributeVersionError)}
    for name, value in values.items():
        text = Text(str(value), style="red") if isinstance(value, SiphonError) else Text(format_value(value))
        table.add_row(Text(name), text, game.profile.attributes[name].unit)
    return table, sum(isinstance(value, SiphonError) for value in values.values())


def format_value(value: Value) -> str:
    """Return a value as text for people."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return "  ".join(format_value(part.item()) for part in value)
    return value.hex(" ") if isinstance(value, bytes) else str(value)


def watch(game: Session, console: Console, *, rate_hz: float, seconds: float | None = None) -> None:
    """Show all attributes at least once and repeatedly, with the time that reading them took.

    Without `seconds` it ends with Ctrl-C, or with `ProcessExitedError` when the game ends.
    """
    started = next_look = time.perf_counter()
    took_s: deque[float] = deque(maxlen=MEDIAN_OF)
    with suppress(KeyboardInterrupt), Live(console=console, refresh_per_second=max(rate_hz, 1), screen=False) as live:
        while not took_s or seconds is None or time.perf_counter() - started < seconds:
            before = time.perf_counter()
            table, _ = attribute_table(game)
            took_s.append(time.perf_counter() - before)
            step = (
                f"game time {game.clock.game_time_s:.2f} s, read in {1e6 * statistics.median(took_s):.0f} µs (median)"
            )
            live.update(Group(table, Text(step, style="dim")))
            next_look += 1 / rate_hz
            time.sleep(max(next_look - time.perf_counter(), 0.0))


def record(session: Recordable, file: Path, options: RecordingOptions, console: Console) -> RecordingStatus:
    """Record until the time is over, the game ends, or Ctrl-C; print the progress and the result.

    Raises `RecordingError` if the file cannot be written; it holds everything written before.
    """
    with Live(console=console, transient=True, refresh_per_second=4) as live, Recorder(session, file, options) as going:
        try:
            while (status := going.status()).is_recording:
                live.update(Text(f"{status.duration_s:.1f} s, {_counted(status)}; Ctrl-C ends it", style="dim"))
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            live.update("")
    status = going.stop()
    film = f" and {going.video}" if going.video else ""
    console.print(Text(f"{file}{film}: {status.duration_s:.1f} s, {_counted(status)}"), soft_wrap=True)
    if status.problem:
        console.print(Text(status.problem, style="yellow"), soft_wrap=True)
    return status


def _counted(status: RecordingStatus) -> str:
    n = status.n_samples
    parts = [f"{n} sample{'' if n == 1 else 's'} at {status.rate_hz:.1f} Hz", f"{status.n_dropped} dropped"]
    if status.n_dropped:
        parts[1] += f" ({status.n_late} late, {status.n_overflowed} not written in time, {status.n_failed} failed)"
    if status.n_unreadable:
        parts.append(f"{status.n_unreadable} values could not be read")
    return ", ".join(parts)


def parse_values(profile: Profile, texts: Mapping[str, str]) -> dict[str, Value]:
    """Parse typed values as TOML; a plain word for a text attribute is text.

    Raises `UnknownAttributeError`, or `ConfigError` if a text is not a value.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in profile.attributes:
            raise UnknownAttributeError(name, profile.attributes)
        kind = profile.attributes[name].type
        try:
            values[name] = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError) as error:
            if kind not in ("utf8", "utf16"):
                raise ConfigError(f"is not a value of type {kind}: {error}", path=name, source=text) from error
            values[name] = text
        if kind == "bytes":
            try:
                values[name] = bytes.fromhex(values[name])
            except (TypeError, ValueError) as error:
                raise ConfigError("is not hex text, such as '90 90'", path=name, source=str(values[name])) from error
    return values


def save_frame(frame: Frame, file: Path) -> None:
    """Write a frame as an image; the suffix of the file name selects the format. Raises `ConfigError` if that fails.

    A warning is logged if all of its pixels are equal, as in a game that has just been started.
    """
    pixels = frame.pixels if frame.pixels.ndim == 2 else cv2.cvtColor(frame.pixels, cv2.COLOR_RGB2BGR)
    try:
        is_encoded, data = cv2.imencode(file.suffix, pixels)
    except cv2.error as error:
        raise ConfigError("is not the name of a supported image file; end it in .png", source=file) from error
    if not is_encoded:
        raise ConfigError("could not be encoded; end it in .png", source=file)
    try:
        file.write_bytes(data.tobytes())
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", source=file) from error
    if (frame.pixels == frame.pixels[0, 0]).all():
        _log.warning("%s: all pixels are alike; a game that has just been started may show nothing yet", file)


def _read_or_error(game: Session, name: str) -> Value | SiphonError:
    try:
        return game.read(name)
    except SiphonError as error:
        return error
