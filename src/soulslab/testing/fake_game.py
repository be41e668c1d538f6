"""Parts of fake games, which run inside this process: input, capture, and a game for a local session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ClockStalledError, ProcessExitedError, WindowGoneError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.capture.pixels import convert
from soulslab.siphon.input.held_input import Change, HeldInput
from soulslab.siphon.keys import Key
from soulslab.siphon.local import Attributes
from soulslab.siphon.pad import Pad
from soulslab.siphon.process.command import check_options
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import SessionInfo, SessionOptions
from soulslab.testing.fake_clock import FakeClock


class _FakeSender:
    """Records everything that is sent."""

    backend = "fake"

    def __init__(self) -> None:
        self.events: list[tuple[str, bool]] = []
        self.mouse_px = (0, 0)
        self.pad = Pad()

    def check(self, keys: Collection[Key]) -> None:
        del keys  # every key is valid

    def send(self, changes: Sequence[Change]) -> None:
        self.events += [(change.key.name, change.is_press) for change in changes]

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        self.mouse_px = (self.mouse_px[0] + dx_px, self.mouse_px[1] + dy_px)

    def set_pad(self, pad: Pad) -> None:
        self.pad = pad

    def close(self) -> None:
        self.pad = Pad()


class FakeInput(HeldInput):
    """An `Input` without a game.

    Attributes:
        events: All sent changes: name of the key, and whether it was pressed.
    """

    def __init__(self) -> None:
        self._fake = _FakeSender()
        self.events = self._fake.events
        super().__init__(self._fake, self._fake.set_pad)

    @property
    def mouse_px(self) -> tuple[int, int]:
        """Sum of all mouse movements."""
        return self._fake.mouse_px

    @property
    def pad(self) -> Pad:
        """State of the gamepad."""
        return self._fake.pad


class FakeCapture:
    """Capture of pictures that a function draws (`soulslab.siphon.capture.Capture`).

    Args:
        paint: Returns the current picture: (H, W, 3) RGB, uint8; raises WindowGoneError if there is none.
        size_px: Returns its current width and height without drawing.
    """

    backend = "fake"

    def __init__(self, paint: Callable[[], NDArray[np.uint8]], size_px: Callable[[], tuple[int, int]]) -> None:
        self._paint = paint
        self._size_px = size_px
        self._is_closed = False

    @property
    def size_px(self) -> tuple[int, int]:
        """See `Capture.size_px`."""
        self._refuse_closed()
        return self._size_px()

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """See `Capture.grab`."""
        self._refuse_closed()
        bgrx = np.asarray(cv2.cvtColor(self._paint(), cv2.COLOR_RGB2BGRA), np.uint8)
        return convert(bgrx, frame_format)

    def close(self) -> None:
        """See `Capture.close`."""
        self._is_closed = True

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise WindowGoneError("this capture was closed")


class InProcessGame(ABC):
    """A game that runs in this process, with switches that simulate failures of real games.

    Attributes:
        input: Its keyboard and mouse.
        is_alive: False means that the process has ended.
        is_stalled: True means that game time no longer advances.
        has_window: False means that the window was closed.
    """

    name: str
    pid: int
    window_px: tuple[int, int]

    def __init__(self) -> None:
        self.input = FakeInput()
        self.is_alive = True
        self.is_stalled = False
        self.has_window = True

    def check_alive(self) -> None:
        """Raise `ProcessExitedError` if the process has ended."""
        if not self.is_alive:
            raise ProcessExitedError(f"process {self.pid} ({self.name}) has ended", pid=self.pid)

    def pass_time(self, seconds: float) -> None:
        """Advance game time; raises `ClockStalledError` if `is_stalled` is set."""
        if self.is_stalled:
            raise ClockStalledError(f"the game time of the {self.name} does not advance; restart the session", 0.0)
        self.play(seconds)

    @abstractmethod
    def play(self, seconds: float) -> None:
        """Advance game time."""

    def read_size_px(self) -> tuple[int, int]:
        """Return width and height of the window; raises an error if the process or the window is gone."""
        self.check_alive()
        if not self.has_window:
            raise WindowGoneError(f"the window of the {self.name} was closed; restart the session")
        return self.window_px

    @abstractmethod
    def draw(self) -> NDArray[np.uint8]:
        """Return the picture of the window, (H, W, 3) RGB, uint8; raises the errors of `read_size_px`."""


class FakeGame:
    """The parts of one start of a fake game (`soulslab.siphon.local.Game`)."""

    def __init__(self, game: InProcessGame, attributes: Attributes, options: SessionOptions, info: SessionInfo) -> None:
        self.attributes = attributes
        self.info = info
        self.check_alive = game.check_alive
        # Looked up at each call, because tests replace the methods of the game.
        self.clock = FakeClock(lambda seconds: game.pass_time(seconds), check_alive=game.check_alive)  # noqa: PLW0108
        self.input = game.input if options.with_window else None
        self.capture = FakeCapture(game.draw, game.read_size_px) if options.with_window else None

    def explain_exit(self, error: ProcessExitedError) -> ProcessExitedError:
        """See `soulslab.siphon.local.Game.explain_exit`: adds nothing."""
        return error

    def close(self) -> None:
        """See `soulslab.siphon.local.Game.close`."""
        if self.input:
            self.input.close()
        self.clock.close()


class FakeOpener:
    """Starts fake games (`soulslab.siphon.local.GameOpener`)."""

    def __init__(self, start: Callable[[Profile, SessionOptions], FakeGame]) -> None:
        self._start = start

    def check(self, profile: Profile, options: SessionOptions) -> None:
        """See `soulslab.siphon.local.GameOpener.check`."""
        check_options(profile.process, options.options)

    def open(self, profile: Profile, options: SessionOptions) -> FakeGame:
        """See `soulslab.siphon.local.GameOpener.open`."""
        return self._start(profile, options)

    def close(self) -> None:
        """See `soulslab.siphon.local.GameOpener.close`: nothing to close."""


def fake_info(pid: int, executable: str, window_px: tuple[int, int], options: SessionOptions) -> SessionInfo:
    """Return the session info of a fake game."""
    backend = "fake" if options.with_window else ""
    return SessionInfo(
        pid=pid,
        executable=executable,
        version="",
        module_base=0,
        is_child=True,
        is_read_only=options.is_read_only,
        clock_grade="lockstep",
        input_backend=backend,
        capture_backend=backend,
        window_px=window_px,
        display="",
    )
