"""Pixels of a window in shared memory (MIT-SHM), including parts that are covered or off the screen (XComposite)."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import xcffib.composite
import xcffib.damage
import xcffib.shm
import xcffib.xproto
from numpy.typing import NDArray

from soulslab.errors import DisplayError, WindowError, WindowGoneError
from soulslab.siphon.process.process_watch import wait_readable
from soulslab.siphon.process.window import Rectangle, Window, WindowState, overlap
from soulslab.siphon.process.x11 import XConnection

# <sys/ipc.h>, <sys/shm.h>
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0
#: Colour depths that are stored as one byte each of blue, green, red and padding (or alpha).
DEPTHS = (24, 32)


class SharedImage:
    """Memory that one connection shares with its X server; it grows as needed.

    The segment is marked for removal as soon as both sides have attached it, so it never remains after both have ended.
    Raises `DisplayError` if the server lacks MIT-SHM, or runs on another machine.
    """

    def __init__(self, x: XConnection) -> None:
        if x.raw.setup.image_byte_order != xcffib.xproto.ImageOrder.LSBFirst:
            raise DisplayError(f"X display {x.display} stores pixels with the high byte first, which is not supported")
        self._x = x
        self._shm = x.extension(xcffib.shm.key)
        self._segment = 0
        self._address = 0
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def read(self, drawable: int, left_px: int, top_px: int, width_px: int, height_px: int) -> NDArray[np.uint8]:
        """Return a part of a window or pixmap: (H, W, 4) uint8, BGRX, in the memory that the next call overwrites.

        Raises `xcffib.xproto.MatchError` if the part is not inside the window or the window is not visible,
        `WindowGoneError`, and `DisplayError` for a broken connection or an unsupported colour depth.
        """
        size = width_px * height_px * 4
        if size > self._bytes.size:
            self._resize(size)
        place = (left_px, top_px, width_px, height_px)
        image_format = xcffib.xproto.ImageFormat.ZPixmap
        reply = self._shm.GetImage(drawable, *place, 0xFFFFFFFF, image_format, self._segment, 0).reply()
        if reply.depth not in DEPTHS or reply.size != size:
            raise DisplayError(
                f"window {drawable:#x} on {self._x.display} has colours of {reply.depth} bits; only 24 and 32 are "
                f"supported: set the screen to 24-bit colours"
            )
        return self._bytes[:size].reshape(height_px, width_px, 4)

    def close(self) -> None:
        """Release the memory; a second call does nothing."""
        self._bytes = np.empty(0, np.uint8)
        if self._segment:
            segment, self._segment = self._segment, 0
            # If the display is gone, its side of the memory is gone too.
            with suppress(DisplayError), self._x.using("stop sharing memory"):
                self._shm.Detach(segment, is_checked=True).check()
        if self._address:
            _libc().shmdt(self._address)
            self._address = 0

    def _resize(self, size: int) -> None:
        """Replace the segment by a new one."""
        self.close()
        libc = _libc()
        number = libc.shmget(IPC_PRIVATE, size, IPC_CREAT | 0o600)
        if number < 0:
            raise DisplayError(
                f"the system gives no {size} bytes of shared memory: {os.strerror(ctypes.get_errno())}; see ipcs -l"
            )
        try:
            address = libc.shmat(number, None, 0)
            if address == ctypes.c_void_p(-1).value:
                raise DisplayError(f"cannot map shared memory: {os.strerror(ctypes.get_errno())}")
            self._address = address
            segment = self._x.raw.generate_id()
            try:
                self._shm.Attach(segment, number, 0, is_checked=True).check()
            except xcffib.xproto.AccessError as error:
                raise DisplayError(
                    f"X display {self._x.display} cannot share memory with us: does it run on this machine, in the "
                    f"same container, and for this user?"
                ) from error
            self._segment = segment
        finally:
            libc.shmctl(number, IPC_RMID, None)
        self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    libc.shmdt.argtypes = [ctypes.c_void_p]
    libc.shmctl.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    return libc


#: Time for the game to redraw the parts of a window that were covered at the beginning.
REPAINT_DEADLINE_S = 1.0


class RedirectedWindow:
    """A window that the server draws into separate memory, and from there to the screen.

    The server does not have the pixels that were covered when the redirection began. The game is asked to draw them (an
    Expose event); until it has done so, frames are not available.

    Raises `DisplayError` if the server lacks Composite, and `WindowGoneError`.
    """

    def __init__(self, window: Window) -> None:
        x = window.x
        self._window = window
        self._x = x
        self._composite = x.extension(xcffib.composite.key)
        self._damage = x.extension(xcffib.damage.key)
        self._damage_id = 0
        self._pixmap = 0
        self._named_at = -1
        self._drawn_px: Rectangle = (0, 0, 0, 0)
        x.listen(self._on_event)
        with x.using("have a window drawn apart", window.id):
            self._composite.QueryVersion(0, 4).reply()
            self._damage.QueryVersion(1, 1).reply()
            # With the server grabbed, because drawing before the damage object exists would go unnoticed.
            x.core.GrabServer(is_checked=True).check()
            try:
                self._missing_px = window.state().hidden_px
                self._composite.RedirectWindow(window.id, xcffib.composite.Redirect.Automatic, is_checked=True).check()
                if self._missing_px[2]:
                    self._watch_drawing()
            finally:
                x.core.UngrabServer()
                x.raw.flush()

    def read(self, state: WindowState, image: SharedImage) -> NDArray[np.uint8]:
        """Return the whole window: (H, W, 4) uint8, BGRX, in the memory of `image`.

        Raises `WindowError` if a part has not been drawn since it was covered, `WindowGoneError`, and
        `xcffib.xproto.MatchError` if its size has changed or it was hidden a moment ago.
        """
        self.wait_for_repaint()
        if self._named_at != self._window.n_changes:
            # A change of size or mapping replaces the pixmap; the old one keeps its last contents.
            self._free_pixmap()
            number = self._x.raw.generate_id()
            self._composite.NameWindowPixmap(self._window.id, number, is_checked=True).check()
            self._pixmap = number
            self._named_at = self._window.n_changes
        border = state.border_px
        return image.read(self._pixmap, border, border, state.width_px, state.height_px)

    def wait_for_repaint(self) -> None:
        """Wait until the parts that were covered at the beginning are drawn. Raises as `read`."""
        if not self._damage_id:
            return
        deadline = time.monotonic() + REPAINT_DEADLINE_S
        while True:
            self._x.sync()
            self._x.dispatch()
            state = self._window.state()
            missing = overlap(self._missing_px, (0, 0, state.width_px, state.height_px))
            if overlap(self._drawn_px, missing) == missing:
                break
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WindowError(
                    f"a part of window {self._window.id:#x} on {self._x.display} was covered or off the screen, and "
                    f"the game has not drawn it since (it stands still); let its time go on, or uncover the window"
                )
            wait_readable(left_s, self._x.fileno())
        self._damage.Destroy(self._damage_id, is_checked=True).check()
        self._damage_id = 0

    def close(self) -> None:
        """End the redirection; a second call does nothing."""
        self._x.unlisten(self._on_event)
        if self._composite is None:
            return
        # If the window or the display is gone, nothing needs to be undone.
        with suppress(WindowGoneError, DisplayError), self._x.using("have a window drawn as before", self._window.id):
            self._free_pixmap()
            if self._damage_id:
                self._damage.Destroy(self._damage_id, is_checked=True).check()
            update = xcffib.composite.Redirect.Automatic
            self._composite.UnredirectWindow(self._window.id, update, is_checked=True).check()
        self._composite = None

    def _watch_drawing(self) -> None:
        number = self._x.raw.generate_id()
        level = xcffib.damage.ReportLevel.BoundingBox
        self._damage.Create(number, self._window.id, level, is_checked=True).check()
        self._damage_id = number
        # The first report covers the whole window and is ignored.
        self._damage.Subtract(number, 0, 0, is_checked=True).check()
        self._x.dispatch()
        self._drawn_px = (0, 0, 0, 0)

    def _free_pixmap(self) -> None:
        if self._pixmap:
            number, self._pixmap = self._pixmap, 0
            self._x.core.FreePixmap(number, is_checked=True).check()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, xcffib.damage.NotifyEvent) and event.damage == self._damage_id:
            area = event.area
            self._drawn_px = (area.x, area.y, area.width, area.height)
