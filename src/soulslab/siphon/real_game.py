"""Finding or starting a real game, and waiting until memory, window, input, capture and clock are ready."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing

import msgspec

from soulslab.errors import (
    AmbiguousProcessError,
    ConfigError,
    DisplayError,
    ImageError,
    MemoryAccessError,
    PatternError,
    ProcessExitedError,
    WaitTimeoutError,
    WindowGoneError,
    WindowNotFoundError,
)
from soulslab.siphon.attributes.address_resolution import CompleteCode, resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.capture import Capture
from soulslab.siphon.capture.window_capture import WindowCapture
from soulslab.siphon.clock import Clock
from soulslab.siphon.clock.held_start import BOOT_S, EPOCH_S, HeldStart
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock_selection import ClockSelection
from soulslab.siphon.input import Input
from soulslab.siphon.input.x_input import open_input
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.control_claim import ControlClaim
from soulslab.siphon.process.discovery import check_version, executable_of, find_process, has_ended, refuse_anti_cheat
from soulslab.siphon.process.image import Image, read_image
from soulslab.siphon.process.launch import SILENT, GameProcess, check_options, start_command
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, display_of, find_window, wait_for_window, with_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, SessionInfo, SessionOptions

POLL_S = 0.02
SECOND_NS = 1_000_000_000
#: Number of ticks without a change of window after which a game counts as started.
STABLE_TICKS = 3
CHOICES = {
    "launch": ("auto", "always", "never"),
    "input_backend": ("", "auto", "xtest", "xsendevent"),
    "clock": ("", "lockstep", "scaled", "realtime"),
    "on_orphan": ("end", "run", "paused"),
}

_log = logging.getLogger(__name__)


class RealGame:
    """The parts of a running game (`soulslab.siphon.local.Game`).

    Attributes:
        servers: Processes without the clock library that it may wait for; None if they are unknown.
        process: Started process; None for a game that was found.
        start: Advances it while it starts; None if its time is not held.
        parts: Closes the parts, the last opened one first.
    """

    info: SessionInfo
    attributes: AttributeTable
    clock: Clock
    input: Input | None = None
    capture: Capture | None = None
    servers: tuple[int, ...] | None = None

    def __init__(self, pid: int, process: GameProcess | None, start: HeldStart | None = None) -> None:
        self.pid = pid
        self.process = process
        self.start = start
        self.parts = ExitStack()
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


class RealGameOpener:
    """Finds or starts real games (`soulslab.siphon.local.GameOpener`), each start on a new private display."""

    def __init__(self) -> None:
        self._display: PrivateDisplay | None = None

    def open(self, profile: Profile, options: SessionOptions) -> RealGame:
        """Find or start the game and wait until it is ready. Raises as `open_session`; nothing is left behind."""
        self.check(profile, options)
        deadline = time.monotonic() + options.deadline_s
        with ExitStack() as undo:
            page = None
            if _wants_lockstep(profile, options):
                page = LockstepPage.create(options.on_orphan, is_held=True)
                undo.callback(page.close)
                if options.deterministic:
                    page.fix_start((EPOCH_S + options.seed) * SECOND_NS, BOOT_S * SECOND_NS, options.seed)
            is_to_start = _is_to_start(profile, options)
            game = self._start(profile, options, page, deadline) if is_to_start else _find(profile, options)
            undo.callback(game.close)
            try:
                self._complete(game, profile, options, page, deadline)
                if page is not None and not options.deterministic:
                    game.clock.run(1.0)
            except ProcessExitedError as error:
                raise game.explain_exit(error) from error
            undo.pop_all()
        _log.info("%s: process %d, clock %s", profile.name, game.pid, game.clock.grade)
        return game

    def check(self, profile: Profile, options: SessionOptions) -> None:
        """See `soulslab.siphon.local.GameOpener.check`."""
        _check(options)
        if _is_to_start(profile, options):
            check_options(profile.process, options.options)
        if options.deterministic and not _wants_lockstep(profile, options):
            raise ConfigError(
                "needs a game that the session starts (process.command in the profile, no pid) and the clock grade "
                "lockstep (clock.grade in the profile, or clock='lockstep')",
                path="deterministic",
                source="session options",
            )

    def close(self) -> None:
        """Close the private display; a second call does nothing."""
        display, self._display = self._display, None
        if display is not None:
            display.close()

    def _start(self, profile: Profile, options: SessionOptions, page: LockstepPage | None, deadline: float) -> RealGame:
        display, environment = options.display, dict(page.environment()) if page else {}
        if display == "private":
            # A new one for each start: an X server keeps the place of the pointer, by which games choose in menus.
            self.close()
            self._display = PrivateDisplay(options.screen_px)
            display = self._display.name
            environment |= self._display.environment(has_fixed_length=options.deterministic)
        facts, start = profile.process, None
        if page is not None or self._display is not None:
            facts = msgspec.structs.replace(facts, environment=SILENT | facts.environment)
        if page is not None:
            start = HeldStart(page, profile.clock, (self._display.pid,) if self._display else ())
        process = start_command(
            facts,
            options=options.options,
            display=display,
            extra_environment=environment,
            ends_with_us=options.on_orphan == "end",
            is_deterministic=options.deterministic,
        )
        game = RealGame(process.pid, process, start)
        try:
            if start is not None:
                start.pid, start.processes = process.pid, process.processes
            left_s = max(deadline - time.monotonic(), 0.0)
            process.find_game(facts.executable, left_s, start.wait if start else None)
            game.pid = process.pid
            if start is not None:
                start.pid = process.pid
        except BaseException:
            game.close()
            raise
        return game

    def _complete(
        self, game: RealGame, profile: Profile, options: SessionOptions, page: LockstepPage | None, deadline: float
    ) -> None:
        refuse_anti_cheat(game.pid, profile.process)
        if options.controller:
            # Before the clock and the keys are touched, so that another controller is not disturbed.
            game.parts.callback(ControlClaim(game.pid, options.controller).release)
        memory = LinuxMemory(game.pid)
        game.parts.callback(memory.close)
        image, game.attributes = _wait_for_memory(game, profile, options, memory, deadline)
        check_version(image, profile.process, options.allow_unknown_version)
        connection = self._connect(game, options) if options.with_window else None
        if connection is not None:
            self._open_window(game, connection, profile, options, deadline)
        else:
            game.servers = _x_servers(game.pid)
        choice = _open_clock(game, profile, options, page, deadline)
        game.parts.callback(game.clock.close)
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
            display=connection.display if connection is not None else "",
        )

    def _connect(self, game: RealGame, options: SessionOptions) -> XConnection:
        # The profile's environment may name another display than the options.
        own = _given_display(options) if game.process is None else self._display and self._display.name
        connection = XConnection(own or display_of(game.pid))
        game.parts.callback(connection.close)
        server = connection.server_pid
        game.servers = (server,) if server else None
        return connection

    def _open_window(
        self, game: RealGame, connection: XConnection, profile: Profile, options: SessionOptions, deadline: float
    ) -> None:
        """Wait for the window; open its input and capture."""
        title = _title(profile, options)
        while True:
            if game.start is not None:
                window = _step_to_window(game, game.start, connection, title, deadline)
            else:
                left_s = max(deadline - time.monotonic(), 0.0)
                window = wait_for_window(connection, game.pid, title, deadline_s=left_s)
            try:
                self._open_parts(game, window, options, options.input_backend or profile.input.backend)
            except WindowGoneError:
                # Many games soon close their first window and open another one for their renderer.
                if time.monotonic() >= deadline:
                    raise
            else:
                return

    def _open_parts(self, game: RealGame, window: Window, options: SessionOptions, backend: str) -> None:
        """Open the input and capture of a window; if one fails, the other is closed."""
        with ExitStack() as undo:
            game.capture = WindowCapture(window, self._display if game.process else None)
            undo.callback(game.capture.close)
            # On a private display no guard is needed: game and display end with this process.
            is_private = game.process is not None and self._display is not None and options.on_orphan == "end"
            game.input = open_input(window, backend, is_private=is_private)
            undo.callback(game.input.close)
            game.parts.push(undo.pop_all())


def _x_servers(pid: int) -> tuple[int, ...] | None:
    """Return the X server of a game whose window is not opened; empty without a display, None for a remote one."""
    try:
        connection = XConnection(display_of(pid))
    except DisplayError:
        return ()
    with closing(connection):
        server = connection.server_pid
    return (server,) if server else None


def _step_to_window(game: RealGame, start: HeldStart, connection: XConnection, title: str, deadline: float) -> Window:
    """Advance a game until it has had the same window for some ticks.

    Many games soon close their first window and open another one for their renderer.
    """
    started = time.monotonic()
    seen, n_ticks, reason = None, 0, ""
    while True:
        game.check_alive()
        if start.wait():
            try:
                window = find_window(connection, game.pid, title)
                place = window.state()
            except (WindowNotFoundError, WindowGoneError) as error:
                seen, reason = None, str(error)
            else:
                now = (window.id, place.width_px, place.height_px)
                n_ticks = n_ticks + 1 if now == seen else 0
                if n_ticks == STABLE_TICKS:
                    return window
                seen, reason = now, "its window opened just now"
                window.close()
        if time.monotonic() >= deadline:
            reason = f"{reason or 'it has not come to rest yet'}; {start.progress()}"
            raise WaitTimeoutError(f"a window of process {game.pid}", time.monotonic() - started, reason)


def _given_display(options: SessionOptions) -> str:
    return "" if options.display == "private" else options.display


def _title(profile: Profile, options: SessionOptions) -> str:
    return options.window_title or profile.process.window_title


def _check(options: SessionOptions) -> None:
    for name, choices in CHOICES.items():
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


def _find(profile: Profile, options: SessionOptions) -> RealGame:
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
        title = _title(profile, options)
        fitting = with_window(several.pids, title, _given_display(options)) if title else []
        if len(fitting) != 1:
            raise
        return RealGame(fitting[0], None)


def _wants_lockstep(profile: Profile, options: SessionOptions) -> bool:
    """Return whether a started game gets the clock library."""
    return _is_to_start(profile, options) and (options.clock or profile.clock.grade) == "lockstep"


def _wait_for_memory(
    game: RealGame, profile: Profile, options: SessionOptions, memory: LinuxMemory, deadline: float
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


def _open_clock(
    game: RealGame, profile: Profile, options: SessionOptions, page: LockstepPage | None, deadline: float
) -> ClockSelection:
    """Open the clock once the values that it needs can be read; return the selection with its reason."""
    choice = ClockSelection(profile, options, game.pid, game.servers)
    started = time.monotonic()
    while True:
        try:
            game.clock = choice.open(game.attributes, game.capture, page)
            return choice  # noqa: TRY300
        except LOADING as error:
            if time.monotonic() >= deadline:
                what = f"the clock of {profile.name}"
                raise WaitTimeoutError(what, time.monotonic() - started, str(error)) from error
        game.check_alive()
        game.wait()
