"""Games on Linux: started on a private display if requested, with the clock library for lockstep."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing

import msgspec

from soulslab.errors import DisplayError, WaitTimeoutError, WindowGoneError, WindowNotFoundError
from soulslab.siphon.capture.window_capture import WindowCapture
from soulslab.siphon.clock.held_start import BOOT_S, EPOCH_S, HeldStart
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.input.x_input import BACKENDS, open_keyboard
from soulslab.siphon.process.command import SILENT
from soulslab.siphon.process.control_claim import ControlClaim
from soulslab.siphon.process.launch import start_command
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, display_of, find_window, wait_for_window, with_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import Profile
from soulslab.siphon.real_game import PAD, RealGame, RealGameOpener, open_input, wants_lockstep, wants_pad, window_title
from soulslab.siphon.session import SessionOptions

SECOND_NS = 1_000_000_000
#: Number of ticks without a change of window after which a game counts as started.
STABLE_TICKS = 3


class LinuxGameOpener(RealGameOpener):
    """Finds or starts games on Linux, each start on a new private display."""

    input_backends = BACKENDS

    def __init__(self) -> None:
        self._display: PrivateDisplay | None = None

    def start(self, profile: Profile, options: SessionOptions, deadline: float) -> RealGame:
        """See `RealGameOpener.start`."""
        with ExitStack() as undo:
            page = None
            is_held, has_pad = wants_lockstep(profile, options), wants_pad(profile, options)
            if is_held or has_pad:
                page = LockstepPage.create(options.on_orphan, is_held=is_held)
                undo.callback(page.close)
                if has_pad:
                    page.connect_pad()
                if options.deterministic:
                    page.fix_start((EPOCH_S + options.seed) * SECOND_NS, BOOT_S * SECOND_NS, options.seed)
            game = self._start(profile, options, page, deadline)
            undo.pop_all()
        return game

    def claim(self, pid: int, holder: str) -> Callable[[], None]:
        """See `RealGameOpener.claim`."""
        return ControlClaim(pid, holder).release

    def with_window(self, pids: Iterable[int], title: str, options: SessionOptions) -> list[int]:
        """See `RealGameOpener.with_window`."""
        return with_window(pids, title, _given_display(options))

    def find_servers(self, pid: int) -> tuple[int, ...] | None:
        """Return the X server of a game; empty without a display, None for a remote one."""
        try:
            connection = XConnection(display_of(pid))
        except DisplayError:
            return ()
        with closing(connection):
            server = connection.server_pid
        return (server,) if server else None

    def open_window(self, game: RealGame, profile: Profile, options: SessionOptions, deadline: float) -> str:
        """See `RealGameOpener.open_window`."""
        # The profile's environment may name another display than the options.
        own = _given_display(options) if game.process is None else self._display and self._display.name
        connection = XConnection(own or display_of(game.pid))
        game.parts.callback(connection.close)
        server = connection.server_pid
        game.servers = (server,) if server else None
        title = window_title(profile, options)
        if isinstance(game.start, HeldStart):
            game.start.keep_tick()  # its memory is ready
        while True:
            if isinstance(game.start, HeldStart):
                window = _step_to_window(game, game.start, connection, title, deadline)
            else:
                left_s = max(deadline - time.monotonic(), 0.0)
                window = wait_for_window(connection, game.pid, title, deadline_s=left_s)
            try:
                self._open_parts(game, window, profile, options)
            except WindowGoneError:
                # Many games soon close their first window and open another one for their renderer.
                if time.monotonic() >= deadline:
                    raise
            else:
                return connection.display

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
        if page is not None and wants_lockstep(profile, options):
            start = HeldStart(page, profile.clock, (self._display.pid,) if self._display else ())
        process = start_command(
            facts,
            options=options.options,
            display=display,
            extra_environment=environment,
            ends_with_us=options.on_orphan == "end",
            is_deterministic=options.deterministic,
        )
        game = RealGame(process.pid, process, start, page)
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

    def _open_parts(self, game: RealGame, window: Window, profile: Profile, options: SessionOptions) -> None:
        """Open the input and capture of a window; if one fails, the other is closed."""
        backend = options.input_backend or profile.input.backend
        with ExitStack() as undo:
            game.capture = WindowCapture(window, self._display if game.process else None)
            undo.callback(game.capture.close)
            # On a private display no guard is needed: game and display end with this process.
            is_private = game.process is not None and self._display is not None and options.on_orphan == "end"
            keyboard = open_keyboard(window, "auto" if backend == PAD else backend, is_private=is_private)
            game.input = open_input(keyboard, game, profile)
            undo.callback(game.input.close)
            game.parts.push(undo.pop_all())


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
