"""Finding or starting a real game, and waiting until memory, window, input, capture and clock are ready.

This module contains what is the same on all platforms; `soulslab.siphon.linux_game` and `soulslab.siphon.windows_game`
add the rest.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Protocol

from soulslab.errors import (
    AmbiguousProcessError,
    ClockUnavailableError,
    ConfigError,
    ImageError,
    InputError,
    MemoryAccessError,
    PatternError,
    ProcessExitedError,
    WaitTimeoutError,
)
from soulslab.siphon.attributes.address_resolution import CompleteCode, resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.capture import Capture
from soulslab.siphon.clock import Clock
from soulslab.siphon.clock.lockstep_page import IS_WINDOWS, LockstepPage, open_page_of
from soulslab.siphon.clock_selection import ClockSelection
from soulslab.siphon.input import Input
from soulslab.siphon.input.held_input import HeldInput, Sender
from soulslab.siphon.input.pad_sender import open_pad_input
from soulslab.siphon.memory import Memory
from soulslab.siphon.memory.opening import open_memory
from soulslab.siphon.process.command import check_options
from soulslab.siphon.process.discovery import check_version, executable_of, find_process, has_ended, refuse_anti_cheat
from soulslab.siphon.process.image import Image, read_image
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, SessionInfo, SessionOptions

#: Input backend that connects a gamepad.
PAD = "pad"
POLL_S = 0.02
CHOICES = {
    "launch": ("auto", "always", "never"),
    "clock": ("", "lockstep", "scaled", "realtime"),
    "on_orphan": ("end", "run", "paused"),
}

_log = logging.getLogger(__name__)


class StartedProcess(Protocol):
    """A game that was started as a child."""

    pid: int

    @property
    def has_ended(self) -> bool:
        """Whether the game has ended."""

    def status(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs, or if it is unknown."""

    def output_tail(self) -> str:
        """Return the end of its output."""

    def kill(self) -> None:
        """End it with all of its processes."""


class StartingClock(Protocol):
    """Advances the time of a starting game that is held (`soulslab.siphon.clock.held_start.HeldStart`)."""

    def wait(self) -> bool:
        """Wait until the game stands, for a moment of wall time; return whether it stands."""

    def close(self) -> None:
        """Run the game at 1x."""


class RealGame:
    """The parts of a running game (`soulslab.siphon.local.Game`).

    Attributes:
        servers: Processes without the clock library that it may wait for; None if they are unknown.
        process: Started process; None for a game that was found.
        start: Advances it while it starts; None if its time is not held.
        page: Page that it shares with the lockstep clock and the gamepad; None for neither.
        parts: Closes the parts, the last opened one first.
    """

    info: SessionInfo
    attributes: AttributeTable
    clock: Clock
    input: Input | None = None
    capture: Capture | None = None
    servers: tuple[int, ...] | None = None

    def __init__(
        self,
        pid: int,
        process: StartedProcess | None,
        start: StartingClock | None = None,
        page: LockstepPage | None = None,
    ) -> None:
        self.pid = pid
        self.process = process
        self.start = start
        self.page = page
        self.parts = ExitStack()
        if page is not None:
            self.parts.callback(page.close)
        if process is not None:
            self.parts.callback(process.kill)
        if start is not None:
            self.parts.callback(start.close)

    def wait(self) -> None:
        """Wait for a moment while the game starts."""
        if self.start is not None:
            self.start.wait()
        else:
            time.sleep(POLL_S)

    def check_alive(self) -> None:
        """Raise `ProcessExitedError` if the game has ended."""
        if self.process.has_ended if self.process is not None else has_ended(self.pid):
            raise self.explain_exit(ProcessExitedError(f"process {self.pid} has ended", pid=self.pid))

    def explain_exit(self, error: ProcessExitedError) -> ProcessExitedError:
        """Return the error, extended by the exit status and the last output if the game is a child."""
        if self.process is None or error.status is not None:
            return error
        status, tail = self.process.status(), self.process.output_tail()
        how = "" if status is None else f" (exit status {status})" if status >= 0 else f" (signal {-status})"
        printed = f"; it printed last:\n{tail}" if tail else ""
        return ProcessExitedError(f"{error}{how}{printed}", pid=self.pid, status=status)

    def close(self) -> None:
        """Release keys and time, and end the game if it is a child; a second call does nothing."""
        self.parts.close()


class RealGameOpener(ABC):
    """Finds or starts real games (`soulslab.siphon.local.GameOpener`)."""

    #: Input backends of the platform.
    input_backends: Sequence[str]

    def open(self, profile: Profile, options: SessionOptions) -> RealGame:
        """Find or start the game and wait until it is ready. Raises as `open_session`; nothing is left behind."""
        self.check(profile, options)
        deadline = time.monotonic() + options.deadline_s
        with ExitStack() as undo:
            is_to_start = _is_to_start(profile, options)
            game = self.start(profile, options, deadline) if is_to_start else self._find(profile, options)
            undo.callback(game.close)
            try:
                self._complete(game, profile, options, deadline)
                if game.page is not None and game.process is not None and not options.deterministic:
                    game.clock.run(1.0)
            except ProcessExitedError as error:
                raise game.explain_exit(error) from error
            undo.pop_all()
        _log.info("%s: process %d, clock %s", profile.name, game.pid, game.clock.grade)
        return game

    def check(self, profile: Profile, options: SessionOptions) -> None:
        """See `soulslab.siphon.local.GameOpener.check`."""
        _check(options, self.input_backends)
        if _is_to_start(profile, options):
            check_options(profile.process, options.options)
        if options.deterministic and not wants_lockstep(profile, options):
            raise ConfigError(
                "needs a game that the session starts (process.command in the profile, no pid) and the clock grade "
                "lockstep (clock.grade in the profile, or clock='lockstep')",
                path="deterministic",
                source="session options",
            )

    @abstractmethod
    def start(self, profile: Profile, options: SessionOptions, deadline: float) -> RealGame:
        """Start the game and find its process."""

    @abstractmethod
    def claim(self, pid: int, holder: str) -> Callable[[], None]:
        """Claim the control of a game for a named holder; return the function that releases it.

        Raises `ControlTakenError` if another environment controls the game.
        """

    @abstractmethod
    def open_window(self, game: RealGame, profile: Profile, options: SessionOptions, deadline: float) -> str:
        """Wait for the window, and open its input and capture; return the name of its display."""

    @abstractmethod
    def with_window(self, pids: Iterable[int], title: str, options: SessionOptions) -> list[int]:
        """Return the processes that have a window with a text in its title."""

    @abstractmethod
    def close(self) -> None:
        """Release what is kept between starts; a second call does nothing."""

    @abstractmethod
    def find_servers(self, pid: int) -> tuple[int, ...] | None:
        """Return the processes that a game without an opened window may wait for; None if they are unknown."""

    def _find(self, profile: Profile, options: SessionOptions) -> RealGame:
        """Find the running process of the game; of several, the one with a matching window."""
        if options.options:
            _log.warning(
                "%s was already running, so the launch options %s have no effect; start the game with launch='always'",
                profile.name,
                options.options,
            )
        try:
            return RealGame(find_process(profile.process, options.pid), None)
        except AmbiguousProcessError as several:
            title = window_title(profile, options)
            fitting = self.with_window(several.pids, title, options) if title else []
            if len(fitting) != 1:
                raise
            return RealGame(fitting[0], None)

    def _complete(self, game: RealGame, profile: Profile, options: SessionOptions, deadline: float) -> None:
        refuse_anti_cheat(game.pid, profile.process)
        if options.controller:
            # Before the clock and the keys are touched, so that another controller is not disturbed.
            game.parts.callback(self.claim(game.pid, options.controller))
        if game.page is None and wants_pad(profile, options):
            game.page = self._find_pad(game.pid, profile, options, deadline)
            game.parts.callback(game.page.close)
        memory = open_memory(game.pid)
        game.parts.callback(memory.close)
        image, game.attributes = _wait_for_memory(game, profile, options, memory, deadline)
        check_version(image, profile.process, options.allow_unknown_version)
        display = ""
        if options.with_window:
            display = self.open_window(game, profile, options, deadline)
        else:
            game.servers = self.find_servers(game.pid)
        choice = _open_clock(game, profile, options, deadline)
        game.parts.callback(game.clock.close)
        if game.start is not None:
            # Again, before the clock closes the page: a game whose time stands cannot handle SIGTERM in its loop.
            game.parts.callback(game.start.close)
        game.info = SessionInfo(
            pid=game.pid,
            executable=executable_of(game.pid),
            version=image.version,
            module_base=image.base,
            is_child=game.process is not None,
            is_read_only=options.is_read_only,
            clock_grade=game.clock.grade,
            clock_reason=choice.reason,
            input_backend=game.input.backend if game.input else "",
            capture_backend=game.capture.backend if game.capture else "",
            window_px=game.capture.size_px if game.capture else (0, 0),
            display=display,
        )

    def _find_pad(self, pid: int, profile: Profile, options: SessionOptions, deadline: float) -> LockstepPage:
        """Take over the gamepad of a running game.

        It has to be a game that was started with a gamepad; on Windows the clock library is sufficient.

        Raises `InputError` for another game, and `ClockError` if another process has control.
        """
        while True:
            # On Windows another program may have started the game just now. It loads the library before it opens a
            # window.
            is_loaded = not IS_WINDOWS or bool(self.with_window([pid], window_title(profile, options), options))
            try:
                page = LockstepPage(open_page_of(pid), "run" if options.on_orphan == "end" else options.on_orphan)
                break
            except ClockUnavailableError as error:
                if is_loaded or time.monotonic() >= deadline:
                    raise InputError(
                        f"the clock library supplies gamepads, and process {pid} has none: {error}"
                    ) from error
                time.sleep(POLL_S)
        if not page.connect_pad() and not IS_WINDOWS:
            page.close()
            raise InputError(
                f"process {pid} was started without a gamepad, and a game finds no other one later; let soulslab start "
                "it with input_backend='pad' (--input pad on the command line), or use another input backend"
            )
        return page


def window_title(profile: Profile, options: SessionOptions) -> str:
    """Return the text in the title of the window."""
    return options.window_title or profile.process.window_title


def wants_lockstep(profile: Profile, options: SessionOptions) -> bool:
    """Return whether a started game gets the clock library for its clock."""
    return _is_to_start(profile, options) and (options.clock or profile.clock.grade) == "lockstep"


def wants_pad(profile: Profile, options: SessionOptions) -> bool:
    """Return whether the game gets a gamepad, for which it needs the clock library as well."""
    backend = options.input_backend or profile.input.backend
    return backend == PAD and options.with_window and not options.is_read_only


def open_input(keyboard: Sender, game: RealGame, profile: Profile) -> Input:
    """Return the input of a game: the keyboard, and the gamepad if there is one."""
    if game.page is not None and game.page.has_pad:
        return open_pad_input(keyboard, profile, game.page.set_pad)
    return HeldInput(keyboard)


def _check(options: SessionOptions, input_backends: Sequence[str]) -> None:
    for name, choices in (*CHOICES.items(), ("input_backend", ("", *input_backends, PAD))):
        if getattr(options, name) not in choices:
            known = ", ".join(repr(choice) for choice in choices)
            raise ConfigError(f"is {getattr(options, name)!r}, not one of {known}", path=name, source="session options")
    if not 0 <= options.seed < 2**32:
        raise ConfigError(f"is {options.seed}, not in 0 to 2**32 - 1", path="seed", source="session options")
    if options.pid and options.launch == "always":
        raise ConfigError("names a process, but launch says 'always'", path="pid", source="session options")


def _is_to_start(profile: Profile, options: SessionOptions) -> bool:
    if options.launch == "auto":
        return not options.pid and bool(profile.process.command)
    return options.launch == "always"


def _wait_for_memory(
    game: RealGame, profile: Profile, options: SessionOptions, memory: Memory, deadline: float
) -> tuple[Image, AttributeTable]:
    """Wait until the executable is mapped and all of its patterns match.

    Raises `PatternError` if the code is complete, and `WaitTimeoutError` if it is not complete at the deadline.
    """
    started = time.monotonic()
    code = CompleteCode(profile, memory)
    while True:
        game.check_alive()
        try:
            image = read_image(memory, profile.process.executable)
            places = resolve_addresses(profile, memory, image, allow_missing=options.allow_missing)
            return image, AttributeTable(profile, memory, places)
        except (ImageError, PatternError, MemoryAccessError) as error:
            # A game that has just been started unpacks itself, and Wine maps the program after its own loader. In a
            # game that was found the code is complete, so the profile does not fit.
            if game.process is None or (isinstance(error, PatternError) and code.is_complete(image)):
                raise
            if time.monotonic() >= deadline:
                raise WaitTimeoutError(
                    f"the code of {profile.process.executable}", time.monotonic() - started, str(error)
                ) from error
        game.wait()


def _open_clock(game: RealGame, profile: Profile, options: SessionOptions, deadline: float) -> ClockSelection:
    """Open the clock once the values that it needs can be read; return the selection with its reason."""
    choice = ClockSelection(profile, options, game.pid, game.servers)
    started = time.monotonic()
    while True:
        try:
            is_started = game.process is not None
            game.clock = choice.open(game.attributes, game.capture, game.page, is_started=is_started)
            return choice  # noqa: TRY300
        except LOADING as error:
            if time.monotonic() >= deadline:
                what = f"the clock of {profile.name}"
                raise WaitTimeoutError(what, time.monotonic() - started, str(error)) from error
        game.check_alive()
        game.wait()
