"""Capture of a real window, with the cheapest backend that is correct at the moment.

A `Barrier` waits until the X server has drawn everything that the game has requested so far.
"""

from __future__ import annotations

import logging
import mmap
import select
import struct
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import xcffib.composite
import xcffib.damage
import xcffib.sync
import xcffib.xproto
from numpy.typing import NDArray

from soulslab.errors import DisplayError, WindowError, WindowGoneError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.capture.pixels import convert
from soulslab.siphon.capture.window_pixels import RedirectedWindow, SharedImage
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, WindowState
from soulslab.siphon.process.x11 import XConnection

LOW_PRIORITY = -1_000_000
#: Longest wait for a busy server; longer than any game takes to draw one frame, also on a busy machine.
BARRIER_TIMEOUT_S = 1.0
#: Longest wait after a first timeout: a client sends without pause, so a frame may be outdated.
SHORT_TIMEOUT_S = 0.02

_log = logging.getLogger(__name__)


class Barrier:
    """A separate connection whose requests the server handles only when no other client has any.

    A server serves its clients in turns, so a reply to our request does not mean that earlier requests of the game have
    been drawn; measured with a program that does not wait for its own drawing, 1 frame in 100 was outdated. The server
    prefers clients of higher priority (SYNC extension, SetPriority), so a reply to a client of lowest priority does
    mean that.

    The server checks for requests of other clients only when a client's turn ends. A request that arrives during our
    turn would be answered in that turn, so each request is preceded by one that ends the turn: a change of priority.
    """

    def __init__(self, x: XConnection) -> None:
        self._x = x
        self._timeout_s = BARRIER_TIMEOUT_S
        self._own = XConnection(x.display)
        try:
            self._has_priority = x.has_extension(xcffib.sync.key)
            if self._has_priority:
                self._prepare()
        except BaseException:
            self._own.close()
            raise

    def wait(self) -> None:
        """Wait for the server; afterwards all earlier events have arrived at the connection too."""
        if self._x.wait_until_idle():
            return
        with self._own.using("wait for the display"):
            if self._has_priority:
                self._end_turn()
            cookie = self._own.core.GetInputFocus()
            self._own.raw.flush()
            if self._has_priority:
                is_idle = bool(self._poll.poll(self._timeout_s * 1000))
                if not is_idle:
                    self._hurry()
                self._timeout_s = BARRIER_TIMEOUT_S if is_idle else SHORT_TIMEOUT_S
            cookie.reply()

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        self._own.close()

    def _prepare(self) -> None:
        """Set the lowest priority."""
        own = self._own
        self._poll = select.poll()
        self._poll.register(own.fileno(), select.POLLIN)
        with own.using("wait for the display"):
            # A resource of this connection, by which the other connection can refer to it.
            self._name = own.raw.generate_id()
            own.core.CreatePixmap(own.root_depth, self._name, own.root, 1, 1, is_checked=True).check()
        for connection in (own, self._x):
            sync = connection.extension(xcffib.sync.key)
            with connection.using("wait for the display"):
                sync.Initialize(3, 1).reply()
        self._set_priority(LOW_PRIORITY)
        self._is_lower = False

    def _end_turn(self) -> None:
        """Make the server check for requests of other clients before it continues with ours."""
        self._is_lower = not self._is_lower
        self._own.extension(xcffib.sync.key).SetPriority(0, LOW_PRIORITY - self._is_lower)

    def _hurry(self) -> None:
        """Get the reply although another client sends without pause."""
        if self._timeout_s != SHORT_TIMEOUT_S:
            _log.warning("X display %s does not become idle; captured images may be out of date", self._own.display)
        self._set_priority(0)
        # Ending our turn sets the low priority again.
        while not self._poll.poll(SHORT_TIMEOUT_S * 1000):
            self._set_priority(0)
        self._set_priority(LOW_PRIORITY)
        # Otherwise the next request might set the current priority, which does not end the turn.
        self._is_lower = False

    def _set_priority(self, priority: int) -> None:
        with self._x.using("wait for the display"):
            self._x.extension(xcffib.sync.key).SetPriority(self._name, priority, is_checked=True).check()


# <X11/XWDFile.h>: 25 big-endian 32-bit numbers; these are the indices of the used ones.
HEADER = struct.Struct(">25I")
HEADER_SIZE, VERSION, HEIGHT, WIDTH = 0, 1, 5, 4
BYTE_ORDER, BITS_PER_PIXEL, BYTES_PER_LINE, N_COLOURS = 7, 11, 12, 19
XWD_VERSION = 7
COLOUR_BYTES = 12


class Framebuffer:
    """A mapped XWD file of Xvfb (``-fbdir``) with 32 bits per pixel. Raises `DisplayError` for another format."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = HEADER.unpack_from(mapped)
        known = (header[VERSION], header[BYTE_ORDER], header[BITS_PER_PIXEL]) == (XWD_VERSION, 0, 32)
        start, stride = header[HEADER_SIZE] + header[N_COLOURS] * COLOUR_BYTES, header[BYTES_PER_LINE]
        if not known or start + header[HEIGHT] * stride > len(mapped):
            mapped.close()
            raise DisplayError(f"{path} is not an XWD file of 32 little-endian bits per pixel; is this Xvfb's own?")
        rows = np.frombuffer(mapped, np.uint8, header[HEIGHT] * stride, start)
        pixels = rows.reshape(header[HEIGHT], stride // 4, 4)
        self._pixels: NDArray[np.uint8] | None = pixels[:, : header[WIDTH]]

    def read(self, left_px: int, top_px: int, width_px: int, height_px: int) -> NDArray[np.uint8]:
        """Return a part of the screen: (H, W, 4) uint8, BGRX; a view of the file, which changes with the screen."""
        if self._pixels is None:
            raise DisplayError("the framebuffer of the private display was closed")
        return self._pixels[top_px : top_px + height_px, left_px : left_px + width_px]

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        # The map is closed together with the last array over it.
        self._pixels = None


#: Number of attempts if the window changes between reading its position and its pixels.
MAX_TRIES = 5


class WindowCapture:
    """Capture of a window (`soulslab.siphon.capture.Capture`), on a private display or on another one.

    On a private display, the framebuffer file is read while nothing covers the window and its colour depth is the
    screen's. Otherwise MIT-SHM is used; for parts that are covered or off the screen, the memory that XComposite
    redirects the window to. On a display that is not private the window is redirected from the start, because other
    windows may cover it. `backend` is that of the last frame: ``framebuffer``, ``shm`` or ``composite``.

    Every frame is captured after the server has drawn everything that the game had requested before (`Barrier`), and
    has the size that the window has then. A running game may draw the next frame during the copy; a game with held
    time cannot.

    Raises `WindowGoneError`, and `DisplayError` if the display cannot share memory with this process.
    """

    def __init__(self, window: Window, display: PrivateDisplay | None = None) -> None:
        self.backend = "framebuffer" if display is not None else "shm"
        self._window = window
        self._redirected: RedirectedWindow | None = None
        with ExitStack() as undo:
            self._barrier = Barrier(window.x)
            undo.callback(self._barrier.close)
            self._image = SharedImage(window.x)
            undo.callback(self._image.close)
            self._framebuffer = Framebuffer(display.framebuffer) if display is not None else None
            if self._framebuffer is not None:
                undo.callback(self._framebuffer.close)
            elif self._can_redirect():
                self._redirected = RedirectedWindow(window)
                undo.callback(self._redirected.close)
            self._parts = undo.pop_all()
        self._is_closed = False

    @property
    def size_px(self) -> tuple[int, int]:
        """See `Capture.size_px`."""
        with self._window.x.lock:
            self._refuse_closed()
            self._barrier.wait()
            state = self._window.state()
            return state.width_px, state.height_px

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """See `Capture.grab`; `WindowError` if a part that was covered at the beginning has not been drawn since."""
        x = self._window.x
        with x.using("take a picture", self._window.id):
            self._refuse_closed()
            for _ in range(MAX_TRIES):
                self._barrier.wait()
                state = self._window.state()
                try:
                    pixels = self._read(state)
                except xcffib.xproto.MatchError:
                    # Moved, resized or hidden since; its events contain the change.
                    continue
                return convert(pixels, frame_format)
        raise WindowError(f"window {self._window.id:#x} on {x.display} changes too fast to take a picture of it")

    def close(self) -> None:
        """See `Capture.close`."""
        self._is_closed = True
        self._parts.close()

    def _read(self, state: WindowState) -> NDArray[np.uint8]:
        """Return the pixels, (H, W, 4) BGRX, in memory that may change."""
        window = self._window
        size = (state.width_px, state.height_px)
        if state.is_covered:
            if self._redirected is None:
                if not self._can_redirect():
                    raise WindowError(
                        f"window {window.id:#x} is covered or reaches off the screen, and X display {window.x.display} "
                        f"lacks Composite, with which it could still be seen; uncover it"
                    )
                self._redirected = RedirectedWindow(window)
                self._parts.callback(self._redirected.close)
            self.backend = "composite"
            return self._redirected.read(state, self._image)
        if self._framebuffer is not None and self._redirected is None and state.depth == window.x.root_depth:
            self.backend = "framebuffer"
            return self._framebuffer.read(state.x_px, state.y_px, *size)
        self.backend = "shm"
        return self._image.read(window.id, 0, 0, *size)

    def _can_redirect(self) -> bool:
        x = self._window.x
        return x.has_extension(xcffib.composite.key) and x.has_extension(xcffib.damage.key)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise WindowGoneError("this capture was closed")
