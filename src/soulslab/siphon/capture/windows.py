"""Capture of a game's window on Windows, with the first backend that works for the window.

``wgc`` (Windows.Graphics.Capture) and ``dxgi`` (desktop duplication) are in `soulslab.siphon.capture.windows_gpu`;
``gdi`` (``BitBlt``) is in `soulslab.siphon.capture.windows_pixels`. ``dxgi`` and ``gdi`` see what is on the screen, so
the window must not be covered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import WindowError, WindowGoneError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.capture.pixels import convert
from soulslab.siphon.capture.windows_gpu import DesktopDuplication, GraphicsCapture
from soulslab.siphon.capture.windows_pixels import PixelSource, ScreenCopy
from soulslab.siphon.process.windows_window import Window, WindowState

#: Number of attempts if the window changes between reading its position and its pixels.
MAX_TRIES = 5

_log = logging.getLogger(__name__)


class WindowCapture:
    """Capture of a window (`soulslab.siphon.capture.Capture`); thread-safe.

    `backend` is ``wgc``, ``dxgi`` or ``gdi``; the log has the reasons against those before it.

    Args:
        window: Window of the game.
        backends: Backends to try, by name; the first that captures the window is used.

    Raises:
        WindowGoneError: The window was closed, minimised or hidden.
        WindowError: No backend can capture it; the message has the reason of each.
    """

    def __init__(self, window: Window, backends: tuple[str, ...] = ("wgc", "dxgi", "gdi")) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._is_closed = False
        self.backend, self._source = _open_source(window, backends)

    @property
    def size_px(self) -> tuple[int, int]:
        """See `Capture.size_px`."""
        with self._lock:
            self._refuse_closed()
            state = self._window.state()
            return state.width_px, state.height_px

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """See `Capture.grab`; `WindowError` if the window is covered and the backend reads the screen."""
        with self._lock:
            self._refuse_closed()
            for _ in range(MAX_TRIES):
                state = self._window.state()
                pixels = self._source.read(state)
                after = self._window.state()
                if _place(state) == _place(after) and pixels.shape[:2] == (state.height_px, state.width_px):
                    return convert(pixels, frame_format)
        raise WindowError(f"window {self._window.id:#x} changes too fast to take a picture of it; leave its size alone")

    def close(self) -> None:
        """See `Capture.close`."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._source.close()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise WindowGoneError("this capture was closed")


_SOURCES: dict[str, Callable[[Window], PixelSource]] = {
    "wgc": GraphicsCapture,
    "dxgi": DesktopDuplication,
    "gdi": ScreenCopy,
}


def _open_source(window: Window, backends: tuple[str, ...]) -> tuple[str, PixelSource]:
    """Return the first backend that captures a window, and its name."""
    reasons = []
    for name in backends:
        state = window.state()  # a window that is gone is not the fault of a backend
        if state.cover and name != "wgc":
            with suppress(WindowError):  # reading reports it
                window.bring_to_front()
        try:
            source = _SOURCES[name](window)
            try:
                source.read(window.state())
            except BaseException:
                source.close()
                raise
        except Exception as error:  # noqa: BLE001  # the packages raise errors of any class
            reasons.append(f"{name}: {error}")
            _log.info("capture backend %s does not work for window %#x: %s", name, window.id, error)
        else:
            return name, source
    window.state()
    listed = "".join(f"\n  {reason}" for reason in reasons)
    raise WindowError(f"window {window.id:#x} of process {window.pid} cannot be captured:{listed}")


def _place(state: WindowState) -> tuple[int, int, int, int]:
    return state.x_px, state.y_px, state.width_px, state.height_px
