"""The window of a game: which it is, where it is, whether something covers it.

::

    window = wait_for_window(x, game.pid, "DOOM", deadline_s=10)
    window.state().width_px
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import xcffib.res
import xcffib.xproto
from xcffib.xproto import EventMask, MapState

from soulslab.errors import DisplayError, ProcessExitedError, WaitTimeoutError, WindowGoneError, WindowNotFoundError
from soulslab.siphon.process.rectangle import Rectangle, around, bounds, overlap
from soulslab.siphon.process.x11 import GONE_ERRORS, XConnection

#: A window manager puts a window into two or three others; a game has its window no deeper.
MAX_DEPTH = 6
#: How often to look for what gives no event, as a new title.
LOOK_INTERVAL_S = 0.25
LOCAL_CLIENT_PID = 2  # X-Resource extension 1.2, XRES_CLIENT_ID_PID_MASK
INPUT_OUTPUT = xcffib.xproto.WindowClass.InputOutput

#: What changes where a window is, or what lies over it.
LAYOUT_EVENTS = (
    xcffib.xproto.ConfigureNotifyEvent,
    xcffib.xproto.MapNotifyEvent,
    xcffib.xproto.UnmapNotifyEvent,
    xcffib.xproto.DestroyNotifyEvent,
    xcffib.xproto.ReparentNotifyEvent,
    xcffib.xproto.CirculateNotifyEvent,
    xcffib.xproto.GravityNotifyEvent,
)

_log = logging.getLogger(__name__)


class WindowState(msgspec.Struct, frozen=True):
    """Where a window is.

    Attributes:
        x_px: Left edge of its inside, from the left of the screen; negative if it reaches beyond.
        y_px: Top edge, from the top.
        width_px: Of its inside.
        height_px: Of its inside.
        border_px: Width of the border around it.
        depth: Bits per pixel of its colours.
        hidden_px: Left, top, width and height, within the window, of what other windows may cover or what lies off the
            screen; the smallest such rectangle around all of it, (0, 0, 0, 0) if nothing is hidden.
        is_on_screen: All of it lies on the screen.
    """

    x_px: int
    y_px: int
    width_px: int
    height_px: int
    border_px: int
    depth: int
    hidden_px: Rectangle
    is_on_screen: bool

    @property
    def is_covered(self) -> bool:
        """Whether a part of it may be covered, or lies off the screen."""
        return self.hidden_px[2] > 0


class Window:
    """A window of another program, followed by its events.

    Attributes:
        x: The connection it is known by.
        id: Its number on that display.
        pid: Of its process.
        n_changes: How often something changed that may concern its place, its size or what lies over it.
    """

    def __init__(self, x: XConnection, window_id: int, pid: int = 0) -> None:
        self.x = x
        self.id = window_id
        self.pid = pid
        self.n_changes = 0
        self._state: WindowState | None = None
        x.select(x.root, EventMask.SubstructureNotify)
        x.select(window_id, EventMask.StructureNotify)
        x.listen(self._on_event)

    def state(self) -> WindowState:
        """Return where it is, as of the last events that arrived; `XConnection.sync` first to have all of them.

        Raises:
            WindowGoneError: It was closed, or is not mapped now (iconified, hidden).
            DisplayError: The display has ended.
        """
        self.x.dispatch()
        if self._state is None:
            self._state = self._ask()
        return self._state

    def title(self) -> str:
        """Return its title. Raises as `state`."""
        with self.x.using("read the title", self.id):
            return _title(self.x, self.id)

    def focus(self) -> None:
        """Give it the keyboard; a window manager is asked, and may refuse. Raises as `state`."""
        self.state()
        x = self.x
        if not _property(x, x.root, "_NET_SUPPORTING_WM_CHECK"):
            with x.using("focus a window", self.id):
                revert = xcffib.xproto.InputFocus.PointerRoot
                x.core.SetInputFocus(revert, self.id, xcffib.xproto.Time.CurrentTime, is_checked=True).check()
            self.tell_focus()
            return
        mask = EventMask.SubstructureRedirect | EventMask.SubstructureNotify
        self._send(x.root, "_NET_ACTIVE_WINDOW", [2, 0, 0, 0, 0], mask)

    def tell_focus(self) -> None:
        """Tell a program that wants to hear of it that its window has the keyboard, as a window manager does.

        That is the message ``WM_TAKE_FOCUS`` (ICCCM 4.1.7). By it Wine makes the window the active one of Windows:
        without a window manager one that another window had covered would get no ``WM_KEYDOWN``. Raises as `state`.
        """
        take_focus = self.x.atom("WM_TAKE_FOCUS")
        if take_focus in memoryview(_property(self.x, self.id, "WM_PROTOCOLS")).cast("I").tolist():
            self._send(self.id, "WM_PROTOCOLS", [take_focus, xcffib.xproto.Time.CurrentTime, 0, 0, 0], 0)

    def ask_to_close(self) -> None:
        """Do what a click on its close button does. Raises as `state`."""
        self._send(self.id, "WM_PROTOCOLS", [self.x.atom("WM_DELETE_WINDOW"), 0, 0, 0, 0], 0)

    def close(self) -> None:
        """Follow it no longer; a second call does nothing."""
        self.x.unlisten(self._on_event)

    def _send(self, to: int, kind: str, data: list[int], mask: int) -> None:
        """Send a client message about this window."""
        protocol: Any = xcffib.xproto
        union = protocol.ClientMessageData.synthetic(data, "IIIII")
        event = protocol.ClientMessageEvent.synthetic(32, self.id, self.x.atom(kind), union)
        with self.x.using(f"send {kind}", self.id):
            self.x.core.SendEvent(False, to, mask, event.pack(), is_checked=True).check()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, LAYOUT_EVENTS):
            self._state = None
            self.n_changes += 1

    def _ask(self) -> WindowState:
        """Ask the server for everything; about six round trips."""
        x = self.x
        with x.using("find a window's place", self.id):
            asked = x.core.GetWindowAttributes(self.id), x.core.GetGeometry(self.id)
            place = x.core.TranslateCoordinates(self.id, x.root, 0, 0)
            attributes, geometry, place = asked[0].reply(), asked[1].reply(), place.reply()
            if attributes.map_state != MapState.Viewable:
                raise WindowGoneError(
                    f"window {self.id:#x} on {x.display} is not mapped (hidden or iconified), so it has no picture; "
                    f"show it again"
                )
            inside = (place.dst_x, place.dst_y, geometry.width, geometry.height)
            screen = x.core.GetGeometry(x.root).reply()
            hidden = [overlap(inside, other) for other in (*self._above(), *around(screen.width, screen.height))]
        left, top, width, height = inside
        return WindowState(
            *inside,
            border_px=geometry.border_width,
            depth=geometry.depth,
            hidden_px=bounds([(part[0] - left, part[1] - top, *part[2:]) for part in hidden if part[2] and part[3]]),
            is_on_screen=left >= 0 and top >= 0 and left + width <= screen.width and top + height <= screen.height,
        )

    def _above(self) -> Iterator[Rectangle]:
        """Yield the places, on the screen, of all visible windows above this one and its ancestors."""
        x, window = self.x, self.id
        while window != x.root:
            parent = x.core.QueryTree(window).reply().parent
            if parent != x.root:
                x.select(parent, EventMask.StructureNotify | EventMask.SubstructureNotify)
            siblings = list(x.core.QueryTree(parent).reply().children)  # from the lowest to the highest
            origin = x.core.TranslateCoordinates(parent, x.root, 0, 0).reply()
            above = siblings[siblings.index(window) + 1 :] if window in siblings else []
            asked = [(x.core.GetWindowAttributes(other), x.core.GetGeometry(other)) for other in above]
            for attributes_cookie, geometry_cookie in asked:
                try:
                    attributes, geometry = attributes_cookie.reply(), geometry_cookie.reply()
                except GONE_ERRORS:  # closed meanwhile
                    continue
                if attributes.map_state == MapState.Viewable and attributes._class == INPUT_OUTPUT:
                    border = 2 * geometry.border_width
                    place = (origin.dst_x + geometry.x, origin.dst_y + geometry.y)
                    yield (*place, geometry.width + border, geometry.height + border)
            window = parent


class _Found(msgspec.Struct, frozen=True):
    """A visible window of some program."""

    id: int
    pid: int
    title: str
    width_px: int
    height_px: int

    def __str__(self) -> str:
        return f"{self.id:#x} of process {self.pid or '?'}, {self.width_px}x{self.height_px}, {self.title!r}"


def find_window(x: XConnection, pid: int, title: str = "") -> Window:
    """Return the visible window of a process; the largest if it has several.

    Args:
        x: The display to look on.
        pid: The process.
        title: Text that its title must contain; "" for any.

    Raises:
        WindowNotFoundError: There is none; the message lists those that there are.
        DisplayError: The display has ended.
    """
    found = list(_visible(x, pid))
    fitting = [window for window in found if window.pid == pid and title in window.title]
    if not fitting:
        there = "".join(f"\n  {window}" for window in found) or " none"
        called = f" with {title!r} in its title" if title else ""
        raise WindowNotFoundError(f"process {pid} has no visible window{called} on {x.display}; there are:{there}")
    best = max(fitting, key=lambda window: window.width_px * window.height_px)
    if len(fitting) > 1:
        _log.info("process %d has %d windows, taking the largest: %s", pid, len(fitting), best)
    return Window(x, best.id, pid)


def wait_for_window(x: XConnection, pid: int, title: str = "", *, deadline_s: float) -> Window:
    """Wait until a process has a visible window.

    Args:
        x: The display to look on.
        pid: The process.
        title: Text that its title must contain; "" for any.
        deadline_s: How long to wait.

    Raises:
        ProcessExitedError: The process ended before.
        WaitTimeoutError: It has none in time; the message lists the windows that there are.
        DisplayError: The display has ended.
    """
    started = time.monotonic()
    x.select(x.root, EventMask.SubstructureNotify)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise ProcessExitedError(f"process {pid} has ended, before it showed a window", pid=pid) from error
    poll = select.poll()
    try:
        poll.register(pidfd, select.POLLIN)
        poll.register(x.fileno(), select.POLLIN)
        while True:
            try:
                return find_window(x, pid, title)
            except (WindowNotFoundError, WindowGoneError) as error:  # gone: while we looked at it
                left_s = deadline_s - (time.monotonic() - started)
                if left_s <= 0:
                    what = f"a window of process {pid}"
                    raise WaitTimeoutError(what, time.monotonic() - started, str(error)) from error
            # Events that came along with the answers just read are no news for poll: look again soon anyway.
            ready = dict(poll.poll(min(left_s, LOOK_INTERVAL_S) * 1000))
            if pidfd in ready:
                raise ProcessExitedError(f"process {pid} has ended, before it showed a window", pid=pid)
            x.dispatch()
    finally:
        os.close(pidfd)


def with_window(pids: Iterable[int], title: str, display: str = "") -> list[int]:
    """Return those processes that have a visible window with this text in its title.

    Args:
        pids: The processes.
        title: The text; "" for any window.
        display: Where to look; "" for the display that each was started with.
    """
    found = []
    for pid in pids:
        with suppress(DisplayError, WindowNotFoundError, WindowGoneError):
            x = XConnection(display or display_of(pid))
            try:
                find_window(x, pid, title)
            finally:
                x.close()
            found.append(pid)
    return found


def display_of(pid: int) -> str:
    """Return the name of the X display that a process was started with; ours if it tells none.

    Raises:
        DisplayError: Neither has one.
    """
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # not ours to read, or it has ended: others find that out better
        variables = []
    names = [os.fsdecode(text.removeprefix(b"DISPLAY=")) for text in variables if text.startswith(b"DISPLAY=")]
    name = next(iter(names), "") or os.environ.get("DISPLAY", "")
    if not name:
        raise DisplayError(f"process {pid} was started without an X display (DISPLAY is not set), so it has no window")
    return name


def _visible(x: XConnection, pid: int) -> Iterator[_Found]:
    """Yield the visible windows of a process, and those of others that have a title."""
    level = [x.root]
    for _ in range(MAX_DEPTH):
        with x.using("list the windows"):
            children = [child for parent in level for child in _children(x, parent)]
        level = []
        for window in children:
            found = _look_at(x, window)
            if found is None:
                continue
            if found.pid == pid or found.title:
                yield found
            if found.pid != pid:
                # It may be the frame that a window manager puts around windows.
                level.append(window)


def _children(x: XConnection, window: int) -> list[int]:
    try:
        return list(x.core.QueryTree(window).reply().children)
    except GONE_ERRORS:
        return []


def _look_at(x: XConnection, window: int) -> _Found | None:
    """Return what a window is; None if it is not visible, or was closed while we looked."""
    try:
        with x.using("look at a window", window):
            asked = x.core.GetWindowAttributes(window), x.core.GetGeometry(window)
            attributes, geometry = asked[0].reply(), asked[1].reply()
            if attributes.map_state != MapState.Viewable or attributes._class != INPUT_OUTPUT:
                return None
            return _Found(window, _client_pid(x, window), _title(x, window), geometry.width, geometry.height)
    except WindowGoneError:
        return None


def _client_pid(x: XConnection, window: int) -> int:
    """Return the process that made a window, as the server knows it; what the window says of itself where it does not.

    0 if nobody knows.
    """
    if x.has_extension(xcffib.res.key):
        resources: Any = xcffib.res
        spec = resources.ClientIdSpec.synthetic(window, LOCAL_CLIENT_PID)
        for known in x.extension(xcffib.res.key).QueryClientIds(1, [spec]).reply().ids:
            return int(known.value[0])
    value = _property(x, window, "_NET_WM_PID")
    return int.from_bytes(value[:4], "little")


def _title(x: XConnection, window: int) -> str:
    name = _property(x, window, "_NET_WM_NAME")
    return name.decode(errors="replace") if name else _property(x, window, "WM_NAME").decode("latin-1")


def _property(x: XConnection, window: int, name: str) -> bytes:
    """Return the bytes of a property; none if the window does not have it."""
    with x.using("read a property", window):
        kind = xcffib.xproto.GetPropertyType.Any
        return bytes(x.core.GetProperty(False, window, x.atom(name), kind, 0, 256).reply().value.raw)
