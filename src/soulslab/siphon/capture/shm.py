"""Pixels of a window or a pixmap, written by the X server into shared memory (MIT-SHM)."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import numpy as np
import xcffib.shm
import xcffib.xproto
from numpy.typing import NDArray

from soulslab.errors import DisplayError
from soulslab.siphon.process.x11 import XConnection

# <sys/ipc.h>, <sys/shm.h>
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0
#: Colour depths that are stored as one byte each of blue, green, red and padding (or alpha).
DEPTHS = (24, 32)


class SharedImage:
    """Memory that one connection shares with its X server; it grows as needed.

    The segment is marked for removal as soon as both sides have attached it, so it never remains after both have ended.

    Args:
        x: Connection.

    Raises:
        DisplayError: The server cannot share memory: it lacks MIT-SHM, or runs on another machine.
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
        """Return a part of a window or pixmap.

        Returns:
            (H, W, 4) uint8, BGRX; the shared memory itself, which the next call overwrites.

        Raises:
            xcffib.xproto.MatchError: The part is not inside the window, or the window is not visible.
            WindowGoneError: The window does not exist.
            DisplayError: The connection is broken, or the colour depth is not supported.
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
            try:
                with self._x.using("stop sharing memory"):
                    self._shm.Detach(segment, is_checked=True).check()
            except DisplayError:
                # The display is gone, and its side of the memory with it.
                pass
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
