"""Capture through Windows.Graphics.Capture (``wgc``) and through desktop duplication (``dxgi``).

Neither runs under Wine, so this module follows the documentation of the packages windows-capture 2.0 and dxcam 0.3, and
Microsoft's pages "Screen capture" and "Desktop Duplication API"; the tests do not run it.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from ctypes import wintypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MissingDependencyError, WindowError, WindowGoneError
from soulslab.siphon.capture.windows_pixels import refuse_covered, wait_for_compositor
from soulslab.siphon.process.windows_window import Window, WindowState
from soulslab.siphon.win32 import function

#: Longest wait for the first picture.
FIRST_DEADLINE_S = 1.0
#: Longest wait for a picture that is newer than the call: three refreshes of a screen with 60 Hz.
FRESH_DEADLINE_S = 0.05
_UNITS_PER_S = 10_000_000  # time stamps of pictures count 100 ns


class GraphicsCapture:
    """Captures a window, covered or not, with the package windows-capture (``wgc``). By documentation only.

    Windows delivers a picture whenever the content of the window changes. Reading waits for the compositor and then for
    a picture with a time stamp after the call. If none arrives within `FRESH_DEADLINE_S`, the content has not changed,
    as in a game with held time, and the last delivered picture is the present content.

    Raises `MissingDependencyError`; the package raises `Exception` if Windows is too old.
    """

    def __init__(self, window: Window) -> None:
        try:
            import windows_capture  # noqa: PLC0415  (Windows only)
        except ModuleNotFoundError as error:
            raise MissingDependencyError("windows-capture", "siphon") from error
        self._window = window
        self._arrival = threading.Condition()
        self._pixels: NDArray[np.uint8] | None = None
        self._time = 0
        self._is_gone = False
        self._control: Any = None
        try:
            self._control = self._start(windows_capture, draw_border=False)
        except Exception:  # noqa: BLE001  # Windows 10 cannot leave out the yellow border around the window
            self._control = self._start(windows_capture, draw_border=None)

    def read(self, state: WindowState) -> NDArray[np.uint8]:
        """See `PixelSource.read`."""
        called = _now()
        wait_for_compositor()
        with self._arrival:
            if self._pixels is None:
                self._arrival.wait_for(lambda: self._pixels is not None or self._is_gone, FIRST_DEADLINE_S)
            self._arrival.wait_for(lambda: self._time >= called or self._is_gone, FRESH_DEADLINE_S)
            if self._is_gone:
                raise WindowGoneError(f"window {self._window.id:#x} was closed; open the session again")
            if self._pixels is None:
                raise WindowError(f"Windows delivered no picture of window {self._window.id:#x}; show it on the screen")
            pixels = self._pixels
        # The picture has the frame of the window; a picture of another size is from before a change of the size.
        left, top = (at - origin for at, origin in zip((state.x_px, state.y_px), self._origin(), strict=True))
        return pixels[top : top + state.height_px, left : left + state.width_px]

    def close(self) -> None:
        """See `PixelSource.close`."""
        control, self._control = self._control, None
        if control is not None and not control.is_finished():
            control.stop()

    def _start(self, package: Any, *, draw_border: bool | None) -> Any:
        """Start the thread of the package that receives pictures."""
        capture = package.WindowsCapture(
            cursor_capture=False, draw_border=draw_border, window_hwnd=self._window.id
        )  # the functions below are found by their names

        def on_frame_arrived(frame: Any, control: Any) -> None:
            del control  # it would end the capture
            with self._arrival:
                # The array owns its memory, and the package writes the next picture elsewhere.
                self._pixels, self._time = frame.frame_buffer, frame.timespan
                self._arrival.notify_all()

        def on_closed() -> None:
            with self._arrival:
                self._is_gone = True
                self._arrival.notify_all()

        capture.event(on_frame_arrived)
        capture.event(on_closed)
        return capture.start_free_threaded()

    def _origin(self) -> tuple[int, int]:
        return self._window.frame_origin_px()


class DesktopDuplication:
    """Captures the part of the primary monitor where the window is, with the package dxcam (``dxgi``).

    By documentation only. dxcam shares one camera per monitor within a process, so two captures at once exclude each
    other.

    Raises `MissingDependencyError`; the package raises errors of several classes if the driver does not support it.
    """

    def __init__(self, window: Window) -> None:
        try:
            import dxcam  # noqa: PLC0415  (Windows only)
        except ModuleNotFoundError as error:
            raise MissingDependencyError("dxcam", "siphon") from error
        self._window = window
        handler = signal.getsignal(signal.SIGTERM)
        self._camera: Any = dxcam.create(output_color="BGRA")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # dxcam replaces the handler of the program

    def read(self, state: WindowState) -> NDArray[np.uint8]:
        """See `PixelSource.read`."""
        refuse_covered(self._window, state)
        right, bottom = state.x_px + state.width_px, state.y_px + state.height_px
        if min(state.x_px, state.y_px) < 0 or right > self._camera.width or bottom > self._camera.height:
            raise WindowError(f"window {self._window.id:#x} is not on the primary monitor; move it there")
        # The first refresh shows what was drawn before; after the second one its picture has been delivered.
        wait_for_compositor()
        wait_for_compositor()
        deadline = time.monotonic() + FIRST_DEADLINE_S
        while time.monotonic() < deadline:
            # Without a change of the screen since the last call, this is the picture of the last call.
            pixels = self._camera.grab(region=(state.x_px, state.y_px, right, bottom), new_frame_only=False)
            if pixels is not None:
                return np.asarray(pixels, np.uint8)
            wait_for_compositor()
        raise WindowError("Windows delivered no picture of the screen; unlock it, and leave exclusive full screen")

    def close(self) -> None:
        """See `PixelSource.close`."""
        camera, self._camera = self._camera, None
        if camera is not None:
            camera.release()


def _now() -> int:
    """Return the time by the clock of the pictures (``QueryPerformanceCounter``) in units of 100 ns."""
    count, per_s = wintypes.LARGE_INTEGER(), wintypes.LARGE_INTEGER()
    pointer = ctypes.POINTER(wintypes.LARGE_INTEGER)
    function("kernel32", "QueryPerformanceCounter", wintypes.BOOL, pointer)(count)
    function("kernel32", "QueryPerformanceFrequency", wintypes.BOOL, pointer)(per_s)
    return count.value * _UNITS_PER_S // per_s.value
