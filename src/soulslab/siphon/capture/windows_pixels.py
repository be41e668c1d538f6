"""Pixels of a window on the Windows screen by ``BitBlt``, which every version of Windows has (``gdi``).

Sources: Microsoft, "BitBlt function", "CreateDIBSection function", "DwmFlush function".
"""

from __future__ import annotations

import ctypes
from ctypes import wintypes
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import WindowError
from soulslab.siphon.process.windows_window import Window, WindowState, physical_pixels
from soulslab.siphon.win32 import error_code, explain, function

_SRCCOPY, _CAPTUREBLT = 0x00CC0020, 0x40000000
_DIB_RGB_COLORS = 0


class PixelSource(Protocol):
    """A backend: it reads the pixels of a window as they are now."""

    def read(self, state: WindowState) -> NDArray[np.uint8]:
        """Return the inner area of the window: (H, W, 4) uint8, BGRX; memory that the next call may overwrite.

        Everything that the game has shown before the call is in it. Raises `WindowError` if it cannot be read now.
        """

    def close(self) -> None:
        """Release the window; a second call does nothing."""


class ScreenCopy:
    """Copies a part of the screen with ``BitBlt`` (``gdi``).

    The compositor shows the drawing of programs with a delay, so ``DwmFlush`` waits until everything that was drawn
    before is on the screen.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        # Unlike the context of GetDC, this one may be used and released in any thread.
        with physical_pixels():
            create = _gdi("CreateDCW", wintypes.HDC, *[wintypes.LPCWSTR] * 3, ctypes.c_void_p)
            self._screen = create("DISPLAY", None, None, None)
        self._memory = _gdi("CreateCompatibleDC", wintypes.HDC, wintypes.HDC)(self._screen)
        self._bitmap: int | None = None
        self._before: int | None = None
        self._pixels: NDArray[np.uint8] = np.empty((0, 0, 4), np.uint8)

    def read(self, state: WindowState) -> NDArray[np.uint8]:
        """See `PixelSource.read`."""
        refuse_covered(self._window, state)
        if self._pixels.shape[:2] != (state.height_px, state.width_px):
            self._resize(state.width_px, state.height_px)
        wait_for_compositor()
        copy = _gdi(
            "BitBlt", wintypes.BOOL, wintypes.HDC, *[ctypes.c_int] * 4, wintypes.HDC, *[ctypes.c_int] * 2,
            wintypes.DWORD,
        )  # fmt: skip
        size, place = (state.width_px, state.height_px), (state.x_px, state.y_px)
        with physical_pixels():
            is_copied = copy(self._memory, 0, 0, *size, self._screen, *place, _SRCCOPY | _CAPTUREBLT)
        if not is_copied:
            raise WindowError(
                f"the screen cannot be copied: {explain(error_code())}; unlock it, and close prompts for the "
                f"administrator's password"
            )
        _gdi("GdiFlush", wintypes.BOOL)()
        return self._pixels

    def close(self) -> None:
        """See `PixelSource.close`."""
        self._free_bitmap()
        if self._memory:
            for context in (self._memory, self._screen):
                _gdi("DeleteDC", wintypes.BOOL, wintypes.HDC)(context)
            self._memory = None

    def _resize(self, width_px: int, height_px: int) -> None:
        """Replace the memory that Windows copies into."""
        self._free_bitmap()
        # A negative height means that the first row is the upper one.
        header = _BitmapHeader(ctypes.sizeof(_BitmapHeader), width_px, -height_px, 1, 32)
        address = ctypes.c_void_p()
        create = _gdi(
            "CreateDIBSection", wintypes.HBITMAP, wintypes.HDC, ctypes.POINTER(_BitmapHeader), wintypes.UINT,
            ctypes.POINTER(ctypes.c_void_p), wintypes.HANDLE, wintypes.DWORD,
        )  # fmt: skip
        self._bitmap = create(self._memory, header, _DIB_RGB_COLORS, address, None, 0)
        if not self._bitmap or not address.value:
            raise WindowError(f"no memory for a picture of {width_px}x{height_px} pixels: {explain(error_code())}")
        self._before = _select(self._memory, self._bitmap)
        content = (ctypes.c_uint8 * (width_px * height_px * 4)).from_address(address.value)
        self._pixels = np.ctypeslib.as_array(content).reshape(height_px, width_px, 4)

    def _free_bitmap(self) -> None:
        self._pixels = np.empty((0, 0, 4), np.uint8)
        if self._bitmap:
            _select(self._memory, self._before)
            _gdi("DeleteObject", wintypes.BOOL, wintypes.HGDIOBJ)(self._bitmap)
            self._bitmap = None


class _BitmapHeader(ctypes.Structure):
    """``BITMAPINFOHEADER``."""

    _fields_ = (
        ("size", wintypes.DWORD),
        ("width", wintypes.LONG),
        ("height", wintypes.LONG),
        ("planes", wintypes.WORD),
        ("bits", wintypes.WORD),
        ("compression", wintypes.DWORD),
        ("n_bytes", wintypes.DWORD),
        ("x_resolution", wintypes.LONG),
        ("y_resolution", wintypes.LONG),
        ("n_used", wintypes.DWORD),
        ("n_important", wintypes.DWORD),
    )


def refuse_covered(window: Window, state: WindowState) -> None:
    """Raise `WindowError` if a part of the window is not visible on the screen."""
    if state.cover:
        raise WindowError(
            f"window {window.id:#x} is covered by window {state.cover}, and this backend sees the screen only; move "
            f"that window away, or install windows-capture, which captures covered windows"
        )
    if not state.is_on_screen:
        raise WindowError(
            f"window {window.id:#x} reaches off the screen at ({state.x_px}, {state.y_px}), and this backend sees the "
            f"screen only; move the whole window onto the screen"
        )


def wait_for_compositor() -> None:
    """Wait until everything that programs have drawn so far is on the screen, which takes up to one refresh of it."""
    # It fails only without a compositor, and then nothing is delayed.
    function("dwmapi", "DwmFlush", ctypes.c_long)()


def _select(context: int | None, handle: int | None) -> int | None:
    before: int | None = _gdi("SelectObject", wintypes.HGDIOBJ, wintypes.HDC, wintypes.HGDIOBJ)(context, handle)
    return before


def _gdi(name: str, result: Any, *arguments: Any) -> Any:
    return function("gdi32", name, result, *arguments)
