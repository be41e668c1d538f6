"""The window of a game: its identity, its position, and whether other windows cover it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import xcffib.res
import xcffib.xproto
from xcffib.xproto import EventMask, MapState

from soulslab.errors import DisplayError, ProcessExitedError, WaitTimeoutError, WindowGoneError, WindowNotFoundError
from soulslab.siphon.process.process_watch import LinuxProcessWatch, wait_readable
from soulslab.siphon.process.x11 import GONE_ERRORS, XConnection

Rectangle: TypeAlias = tuple[int, int, int, int]
"""Left, top, width and height in pixels; width and height 0 if it is empty."""


def overlap(one: Rectangle, other: Rectangle) -> Rectangle:
    """Return the intersection of two rectangles; its width or height is 0 if it is empty."""
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return (left, top, max(right - left, 0), max(bottom - top, 0))


def bounds(parts: Collection[Rectangle]) -> Rectangle:
    """Return the smallest rectangle around all; an empty one around none."""
    if not parts:
        return (0, 0, 0, 0)
    left, top = min(part[0] for part in parts), min(part[1] for part in parts)
    right, bottom = max(part[0] + part[2] for part in parts), max(part[1] + part[3] for part in parts)
    return (left, top, right - left, bottom - top)


def around(width_px: int, height_px: int) -> tuple[Rectangle, ...]:
    """Return four rectangles that cover the plane except a screen of this size."""
    far = 1 << 16  # beyond X's coordinates
    return (
        (-far, -far, far, 3 * far),
        (width_px, -far, far, 3 * far),
        (-far, -far, 3 * far, far),
        (-far, height_px, 3 * far, far),
    )


#: A window manager nests a window in two or three others; the game's window is at most this deep.
MAX_DEPTH = 6
#: Interval between checks for changes without an event, such as a new title.
LOOK_INTERVAL_S = 0.25
LOCAL_CLIENT_PID = 2  # X-Resource extension 1.2, XRES_CLIENT_ID_PID_MASK
INPUT_OUTPUT = xcffib.xproto.WindowClass.InputOutput

#: Events that change the position of a window or the windows above it.
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
    """Position of the inner area of a window on the screen, and its visibility.

    `depth` is the number of bits per pixel. `hidden_px` is the smallest rectangle within the window around all parts
    that may be covered or lie off the screen; (0, 0, 0, 0) if nothing is hidden. `is_on_screen` states whether the
    whole window lies on the screen.
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
        """Whether a part of it may be covered or lies off the screen."""
        return self.hidden_px[2] > 0


class Window:
    """A window of another program, tracked by its events.

    `n_changes` counts changes that may concern its position, its size or the windows above it.
    """

    def __init__(self, x: XConnection, window_id: int, pid: int = 0) -> None:
        self.x = x
        self.id = window_id
        self.pid = pid
        self.n_changes = 0
        self._n_pings = 0
        self._state: WindowState | None = None
        x.select(x.root, EventMask.SubstructureNotify)
        x.select(window_id, EventMask.StructureNotify)
        x.listen(self._on_event)

    def state(self) -> WindowState:
        """Return its state as of the last received events; call `XConnection.sync` first to receive all.

        Raises `WindowGoneError` if it was closed or is not mapped now (iconified, hidden), and `DisplayError`.
        """
        self.x.dispatch()
        if self._state is None:
            self._state = self._ask()
        return self._state

    def tell_focus(self, answer_deadline_s: float = 0.0) -> None:
        """Send its program the message of a window manager that the window has the keyboard focus.

        This is the message ``WM_TAKE_FOCUS`` (ICCCM 4.1.7), by which Wine makes the window the active one of Windows.
        Without a window manager, a window that was covered by another one would not get ``WM_KEYDOWN`` otherwise.

        A program may handle a later key before this message: ``GetAsyncKeyState`` of Wine handles only the received
        keys. ``_NET_WM_PING`` (EWMH) proves that the message was handled, because a program answers messages in order.
        The answer is waited for up to `answer_deadline_s`: a program that is held does not answer, and a program
        without ``_NET_WM_PING`` is not waited for.
        """
        protocols = memoryview(_property(self.x, self.id, "WM_PROTOCOLS")).cast("I").tolist()
        take_focus, ping = self.x.atom("WM_TAKE_FOCUS"), self.x.atom("_NET_WM_PING")
        if take_focus not in protocols:
            return
        self._send(self.id, "WM_PROTOCOLS", [take_focus, xcffib.xproto.Time.CurrentTime, 0, 0, 0], 0)
        if answer_deadline_s and ping in protocols:
            self._ping(ping, answer_deadline_s)

    def _ping(self, ping: int, deadline_s: float) -> None:
        """Send ``_NET_WM_PING``, and wait until the program has sent it back to the root window."""
        has_answered = False

        def note(event: Any) -> None:
            nonlocal has_answered
            if isinstance(event, xcffib.xproto.ClientMessageEvent) and event.window == self.x.root:
                has_answered = has_answered or list(event.data.data32[:3]) == [ping, self._n_pings, self.id]

        self._n_pings += 1
        self.x.listen(note)
        try:
            self._send(self.id, "WM_PROTOCOLS", [ping, self._n_pings, self.id, 0, 0], 0)
            deadline = time.monotonic() + deadline_s
            self.x.dispatch()
            while not has_answered and (left_s := deadline - time.monotonic()) > 0:
                wait_readable(left_s, self.x.fileno())
                self.x.dispatch()
        finally:
            self.x.unlisten(note)

    def ask_to_close(self) -> None:
        """Ask its program to close it, as a click on its close button does. Raises as `state`."""
        self._send(self.id, "WM_PROTOCOLS", [self.x.atom("WM_DELETE_WINDOW"), 0, 0, 0, 0], 0)

    def close(self) -> None:
        """Stop tracking it; a second call does nothing."""
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
        """Query the complete state from the server, in about six round trips."""
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
        """Yield the positions on the screen of all visible windows above this one and its ancestors."""
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
                except GONE_ERRORS:  # closed in the meantime
                    continue
                if attributes.map_state == MapState.Viewable and attributes._class == INPUT_OUTPUT:
                    border = 2 * geometry.border_width
                    place = (origin.dst_x + geometry.x, origin.dst_y + geometry.y)
                    yield (*place, geometry.width + border, geometry.height + border)
            window = parent


class _Found(msgspec.Struct, frozen=True):
    """A visible window of any program."""

    id: int
    pid: int
    title: str
    width_px: int
    height_px: int

    def __str__(self) -> str:
        return f"{self.id:#x} of process {self.pid or '?'}, {self.width_px}x{self.height_px}, {self.title!r}"


def find_window(x: XConnection, pid: int, title: str = "") -> Window:
    """Return the largest visible window of a process with a text in its title. Raises `WindowNotFoundError`."""
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
    """Wait until `find_window` finds a window. Raises `ProcessExitedError` and `WaitTimeoutError`."""
    started = time.monotonic()
    x.select(x.root, EventMask.SubstructureNotify)
    with closing(LinuxProcessWatch(pid)) as watch:
        while True:
            try:
                return find_window(x, pid, title)
            except (WindowNotFoundError, WindowGoneError) as error:  # gone: closed during the query
                left_s = deadline_s - (time.monotonic() - started)
                if left_s <= 0:
                    what = f"a window of process {pid}"
                    raise WaitTimeoutError(what, time.monotonic() - started, str(error)) from error
            # Events that arrived together with these replies do not end the wait, so the next check is soon.
            wait_readable(min(left_s, LOOK_INTERVAL_S), watch.fileno(), x.fileno())
            if not watch.is_alive():
                raise ProcessExitedError(f"process {pid} has ended, before it showed a window", pid=pid)
            x.dispatch()


def with_window(pids: Iterable[int], title: str, display: str = "") -> list[int]:
    """Return the processes that have such a window, on a display or on the display that each was started with."""
    found = []
    for pid in pids:
        gone = suppress(DisplayError, WindowNotFoundError, WindowGoneError)
        with gone, closing(XConnection(display or display_of(pid))) as x:
            find_window(x, pid, title)
            found.append(pid)
    return found


def display_of(pid: int) -> str:
    """Return the X display of a process, by default that of this one. Raises `DisplayError` without one."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # another user's process, or it has ended: other checks report that better
        variables = []
    names = [os.fsdecode(text.removeprefix(b"DISPLAY=")) for text in variables if text.startswith(b"DISPLAY=")]
    name = next(iter(names), "") or os.environ.get("DISPLAY", "")
    if not name:
        raise DisplayError(f"process {pid} was started without an X display (DISPLAY is not set), so it has no window")
    return name


def _visible(x: XConnection, pid: int) -> Iterator[_Found]:
    """Yield the visible windows of a process, and the windows of other processes that have a title."""
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
    """Return the details of a window; None if it is not visible or was closed."""
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
    """Return the process that created a window, according to the server, or else the window; 0 if it is unknown."""
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
    """Return the bytes of a property; empty if the window does not have it."""
    with x.using("read a property", window):
        kind = xcffib.xproto.GetPropertyType.Any
        return bytes(x.core.GetProperty(False, window, x.atom(name), kind, 0, 256).reply().value.raw)
