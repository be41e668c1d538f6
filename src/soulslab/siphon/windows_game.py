"""Games on Windows, on the desktop of the user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from soulslab.errors import ClockUnavailableError, ConfigError, WindowGoneError
from soulslab.siphon.capture.windows import WindowCapture
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.clock.windows_start import check_page, load_clock_library
from soulslab.siphon.input.windows import BACKENDS, open_keyboard
from soulslab.siphon.process.windows_claim import WindowsControlClaim
from soulslab.siphon.process.windows_launch import start_command
from soulslab.siphon.process.windows_window import Window, wait_for_window, with_window
from soulslab.siphon.profile import Profile
from soulslab.siphon.real_game import PAD, RealGame, RealGameOpener, open_input, wants_lockstep, wants_pad, window_title
from soulslab.siphon.session import SessionOptions

_log = logging.getLogger(__name__)


class WindowsGameOpener(RealGameOpener):
    """Finds or starts games on Windows. There are no private displays, so `SessionOptions.display` has no effect."""

    input_backends = BACKENDS

    def check(self, profile: Profile, options: SessionOptions) -> None:
        """See `RealGameOpener.check`."""
        super().check(profile, options)
        if options.deterministic:
            raise ConfigError(
                "deterministic starts need Linux (docs/deterministic_starts.md)",
                path="deterministic",
                source="session options",
            )

    def start(self, profile: Profile, options: SessionOptions, deadline: float) -> RealGame:
        """See `RealGameOpener.start`."""
        has_pad = wants_pad(profile, options)
        if has_pad or wants_lockstep(profile, options):
            try:
                return self._start(profile, options, LockstepPage.create(options.on_orphan), deadline)
            except ClockUnavailableError as error:
                if has_pad or options.clock == "lockstep":
                    raise
                _log.warning("%s is started without the clock library: %s", profile.name, error)
        return self._start(profile, options, None, deadline)

    @staticmethod
    def _start(profile: Profile, options: SessionOptions, page: LockstepPage | None, deadline: float) -> RealGame:
        def load(pid: int) -> None:
            if page is not None:
                load_clock_library(pid)
                check_page(pid, page)

        with ExitStack() as undo:
            if page is not None:
                undo.callback(page.close)
                if wants_pad(profile, options):
                    page.connect_pad()
            process = start_command(
                profile.process,
                options=options.options,
                environment=page.environment() if page is not None else None,
                ends_with_us=options.on_orphan == "end",
                before_it_runs=load,
            )
            undo.callback(process.kill)
            process.find_game(profile.process.executable, max(deadline - time.monotonic(), 0.0))
            undo.pop_all()
        return RealGame(process.pid, process, page=page)

    def claim(self, pid: int, holder: str) -> Callable[[], None]:
        """See `RealGameOpener.claim`."""
        return WindowsControlClaim(pid, holder).release

    def with_window(self, pids: Iterable[int], title: str, _: SessionOptions) -> list[int]:
        """See `RealGameOpener.with_window`."""
        return with_window(pids, title)

    def open_window(self, game: RealGame, profile: Profile, options: SessionOptions, deadline: float) -> str:
        """See `RealGameOpener.open_window`."""
        title = window_title(profile, options)
        while True:
            left_s = max(deadline - time.monotonic(), 0.0)
            window = wait_for_window(game.pid, title, deadline_s=left_s)
            try:
                self._open_parts(game, window, profile, options.input_backend or profile.input.backend)
            except WindowGoneError:
                # Many games soon close their first window and open another one for their renderer.
                if time.monotonic() >= deadline:
                    raise
            else:
                return ""

    def find_servers(self, _: int) -> tuple[int, ...] | None:
        """See `RealGameOpener.find_servers`: a game on Windows waits for no other process."""
        return ()

    def close(self) -> None:
        """See `RealGameOpener.close`: nothing is kept."""

    @staticmethod
    def _open_parts(game: RealGame, window: Window, profile: Profile, backend: str) -> None:
        """Open the input and capture of a window; if one fails, the other is closed."""
        with ExitStack() as undo:
            undo.callback(window.close)
            game.capture = WindowCapture(window)
            undo.callback(game.capture.close)
            game.input = open_input(open_keyboard(window, "auto" if backend == PAD else backend), game, profile)
            undo.callback(game.input.close)
            game.parts.push(undo.pop_all())
