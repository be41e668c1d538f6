"""All pixels of a window, including parts that are covered or off the screen (XComposite)."""

from __future__ import annotations

import select
import time
from contextlib import suppress
from typing import Any

import numpy as np
import xcffib.composite
import xcffib.damage
from numpy.typing import NDArray

from soulslab.errors import DisplayError, WindowError, WindowGoneError
from soulslab.siphon.capture.shm import SharedImage
from soulslab.siphon.process.rectangle import Rectangle, contains, overlap
from soulslab.siphon.process.window import Window, WindowState

#: Time for the game to redraw the parts of a window that were covered at the beginning.
REPAINT_DEADLINE_S = 1.0


class RedirectedWindow:
    """A window that the server draws into separate memory, and from there to the screen.

    The server does not have the pixels that were covered when the redirection began. The game is asked to draw them (an
    Expose event); until it has done so, frames are not available.

    Args:
        window: Window.

    Raises:
        DisplayError: The server lacks Composite.
        WindowGoneError: The window was closed or is not mapped.
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

        Raises:
            WindowError: A part has not been drawn since it was covered.
            WindowGoneError: The window was closed.
            xcffib.xproto.MatchError: Its size has changed or it was hidden a moment ago.
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
            if contains(self._drawn_px, missing):
                break
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WindowError(
                    f"a part of window {self._window.id:#x} on {self._x.display} was covered or off the screen, and "
                    f"the game has not drawn it since (it stands still); let its time go on, or uncover the window"
                )
            select.select([self._x.fileno()], [], [], left_s)
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
        """Start to track where the game draws."""
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
