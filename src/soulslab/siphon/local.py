"""A session with a game on this machine: its parts, with one lock around them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from soulslab.closing import Closing
from soulslab.errors import (
    ProcessExitedError,
    SessionStateError,
    WindowGoneError,
    WindowNotFoundError,
    optional_imports,
)
from soulslab.siphon.attributes.alternatives import Finding
from soulslab.siphon.attributes.pointer_chains import ChainNumber, Number
from soulslab.siphon.capture import NATIVE, Capture, FrameFormat
from soulslab.siphon.clock import Advance, Clock
from soulslab.siphon.input import Input
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.read_only import ReadOnlyClock, ReadOnlyInput, refuse_change
from soulslab.siphon.session import Frame, SessionInfo, SessionOptions, Snapshot, Step, StepResult

#: Longest delay between the end of a killed game's window and the end of its process.
EXIT_AFTER_WINDOW_S = 0.3
POLL_S = 0.01
NO_TIME = Advance(requested_s=0.0, elapsed_s=0.0)


class Attributes(Protocol):
    """Reads and writes attributes, as `soulslab.siphon.attributes.attribute_table.AttributeTable` does."""

    @property
    def sources(self) -> dict[str, str]:
        """See `SessionInfo.sources`."""

    def read(self, name: str) -> Value:
        """See `Session.read`."""

    def read_many(self, names: Sequence[str] | None) -> dict[str, Value]:
        """See `Session.snapshot`."""

    def examine(self, names: Sequence[str] | None) -> dict[str, tuple[Finding, ...]]:
        """See `Session.examine`."""

    def write(self, values: Mapping[str, Value]) -> None:
        """See `Session.write`."""

    def read_number(self, where: ChainNumber) -> Number:
        """See `Session.read_number`."""

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """See `Session.write_number`."""


class Game(Protocol):
    """The parts of one running game."""

    @property
    def info(self) -> SessionInfo:
        """Session info of the game."""

    @property
    def attributes(self) -> Attributes:
        """Its attributes."""

    @property
    def clock(self) -> Clock:
        """Its clock."""

    @property
    def input(self) -> Input | None:
        """Its keyboard, mouse and gamepad; None without a window."""

    @property
    def capture(self) -> Capture | None:
        """Its window capture; None without a window."""

    def explain_exit(self, error: ProcessExitedError) -> ProcessExitedError:
        """Return the error, extended by the exit status and the last output of the game."""

    def check_alive(self) -> None:
        """Raise `ProcessExitedError` if the game has ended."""

    def close(self) -> None:
        """Release keys and time, and end the game if it is a child; a second call does nothing."""


class GameOpener(Protocol):
    """Finds or starts a game; it may keep resources between starts, such as a private display."""

    def check(self, profile: Profile, options: SessionOptions) -> None:
        """Raise `ConfigError` for options with which no game can be opened."""

    def open(self, profile: Profile, options: SessionOptions) -> Game:
        """Find or start the game and wait until it is ready."""

    def close(self) -> None:
        """Release the kept resources; a second call does nothing."""


class LocalSession(Closing):
    """A session with a game on this machine (`soulslab.siphon.session.Session`).

    Raises `SiphonError` if it cannot be opened; nothing is left behind.
    """

    def __init__(self, profile: Profile, options: SessionOptions, opener: GameOpener) -> None:
        self.profile = profile
        self._options = options
        self._opener = opener
        self._lock = threading.RLock()
        self._is_closed = False
        self._n_starts = 1
        self._game: Game | None = None
        try:
            self._game = opener.open(profile, options)
        except BaseException:
            opener.close()
            raise

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def info(self) -> SessionInfo:
        """See `Session.info`."""
        with self._using() as game:
            size = game.capture.size_px if game.capture else (0, 0)
            sources = game.attributes.sources
            return msgspec.structs.replace(game.info, n_starts=self._n_starts, window_px=size, sources=sources)

    @property
    def input(self) -> Input:
        """See `Session.input`."""
        with self._using() as game:
            part = _with_window(game.input)
            return ReadOnlyInput(part) if self._options.is_read_only else part

    @property
    def clock(self) -> Clock:
        """See `Session.clock`."""
        with self._using() as game:
            return ReadOnlyClock(game.clock) if self._options.is_read_only else game.clock

    # --- using it -------------------------------------------------------------------------------------------

    def read(self, name: str) -> Value:
        """See `Session.read`."""
        with self._using() as game:
            return game.attributes.read(name)

    def snapshot(self, names: Sequence[str] | None = None) -> Snapshot:
        """See `Session.snapshot`."""
        with self._using() as game:
            return _snapshot(game, names)

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """See `Session.examine`."""
        with self._using() as game:
            return game.attributes.examine(names)

    def write(self, values: Mapping[str, Value]) -> None:
        """See `Session.write`."""
        with self._using() as game:
            self._refuse_change(f"write {', '.join(values)}")
            game.attributes.write(values)

    def read_number(self, where: ChainNumber) -> Number:
        """See `Session.read_number`."""
        with self._using() as game:
            return game.attributes.read_number(where)

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """See `Session.write_number`."""
        with self._using() as game:
            self._refuse_change(f"write a number behind {where.base!r}")
            game.attributes.write_number(where, value)

    def capture(self, frame_format: FrameFormat = NATIVE) -> Frame:
        """See `Session.capture`."""
        with self._using() as game:
            return _frame(game, frame_format)

    def step(self, step: Step) -> StepResult:
        """See `Session.step`."""
        with self._using() as game:
            if step.changes_game:
                self._refuse_change("send keys or advance the time of the game")
            if step.held is not None:
                _with_window(game.input).set_held(step.held, step.again)
            if step.mouse_px != (0, 0):
                _with_window(game.input).move_mouse(*step.mouse_px)
            if step.pad is not None:
                _with_window(game.input).set_pad(step.pad)
            advance = NO_TIME
            if step.advance_s:
                advance = game.clock.advance(step.advance_s, deadline_s=step.deadline_s, speed=step.speed)
            snapshot = _snapshot(game, step.attributes)
            frame = _frame(game, step.frame) if step.frame is not None else None
            return StepResult(advance, snapshot, frame)

    # --- its life -------------------------------------------------------------------------------------------

    def restart(self, options: Mapping[str, str] | None = None, *, seed: int | None = None) -> None:
        """See `Session.restart`."""
        with self._lock:
            self._refuse_closed()
            self._refuse_change("restart the game")
            changed = self._options
            if options is not None:
                changed = msgspec.structs.replace(changed, options=dict(options))
            if seed is not None:
                changed = msgspec.structs.replace(changed, deterministic=True, seed=seed)
            # Checked before the game is closed: invalid options must not end it.
            self._opener.check(self.profile, changed)
            game, self._game = self._game, None
            if game is not None:
                game.close()
            self._game = self._opener.open(self.profile, changed)
            # Options with which the game does not start are not kept for the next start.
            self._options = changed
            self._n_starts += 1

    def close(self) -> None:
        """See `Session.close`."""
        with self._lock:
            self._is_closed = True
            game, self._game = self._game, None
            try:
                if game is not None:
                    game.close()
            finally:
                self._opener.close()

    @contextmanager
    def _using(self) -> Iterator[Game]:
        with self._lock:
            self._refuse_closed()
            if self._game is None:
                raise SessionStateError("the game did not come back at the last restart; restart() it again")
            try:
                yield self._game
            except ProcessExitedError as error:
                raise self._game.explain_exit(error) from error
            except WindowGoneError:
                _await_exit(self._game)
                raise

    def _refuse_change(self, what: str) -> None:
        if self._options.is_read_only:
            refuse_change(what)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise SessionStateError("the session is closed; open another one")


def open_session(profile: Profile, options: SessionOptions | None = None) -> LocalSession:
    """Attach to a game or start it, by default on a private display.

    Raises:
        ProcessNotFoundError, AmbiguousProcessError, AttachDeniedError: Attaching failed.
        LaunchError, DisplayError: Starting failed.
        GameVersionError, AntiCheatError: Attaching to this game is refused.
        PatternError, WindowNotFoundError, ClockUnavailableError: The profile does not fit the game.
        WaitTimeoutError: The game was not ready before the deadline.
        ProcessError: The operating system is neither Linux nor Windows.
        MissingDependencyError: A package of the extra ``siphon`` is not installed.
    """
    with optional_imports():
        opener = _opener()
    return LocalSession(profile, options or SessionOptions(), opener)


def _opener() -> GameOpener:
    """Return the opener of this platform, whose packages are imported only when they are needed."""
    from soulslab.siphon.process.discovery import require_supported_platform  # noqa: PLC0415

    require_supported_platform()
    platform: str = sys.platform
    if platform == "win32":
        from soulslab.siphon.windows_game import WindowsGameOpener  # noqa: PLC0415

        return WindowsGameOpener()
    from soulslab.siphon.linux_game import LinuxGameOpener  # noqa: PLC0415

    return LinuxGameOpener()


def _await_exit(game: Game) -> None:
    """Raise `ProcessExitedError` if the game ends shortly: its window closes a moment before its process ends."""
    deadline = time.monotonic() + EXIT_AFTER_WINDOW_S
    while time.monotonic() < deadline:
        game.check_alive()
        time.sleep(POLL_S)


def _with_window(part: Input | None) -> Input:
    if part is None:
        raise WindowNotFoundError("the session was opened with with_window=False, so it has no keys; open it with")
    return part


def _snapshot(game: Game, names: Sequence[str] | None) -> Snapshot:
    return Snapshot(game.attributes.read_many(names), game.clock.game_time_s, time.time())


def _frame(game: Game, frame_format: FrameFormat) -> Frame:
    if game.capture is None:
        raise WindowNotFoundError("the session was opened with with_window=False, so it has no frames; open it with")
    return Frame(game.capture.grab(frame_format), game.clock.game_time_s, time.time())
