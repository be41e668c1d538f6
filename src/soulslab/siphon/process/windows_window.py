"""The window of a game on Windows: its identity, its position, whether others cover it, and whether it is in front.

Sources: Microsoft, "Window Features", "High DPI Desktop Application Development on Windows", and the pages of the
functions with the names used here.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from ctypes import wintypes
from typing import Any

import msgspec

from soulslab.errors import (
    AttachDeniedError,
    ProcessExitedError,
    WaitTimeoutError,
    WindowError,
    WindowGoneError,
    WindowNotFoundError,
)
from soulslab.siphon.win32 import ERROR_INVALID_PARAMETER, error_code, explain, function

#: Interval between two searches for a window; Windows reports no new windows of other processes without a hook.
LOOK_INTERVAL_S = 0.05
#: Longest attempt to bring a window to the front.
FRONT_DEADLINE_S = 1.0
_POLL_S = 0.005

# Values of winuser.h, winnt.h and dwmapi.h.
_PER_MONITOR_AWARE_V2 = -4
_VIRTUAL_SCREEN = (76, 77, 78, 79)  # SM_XVIRTUALSCREEN: left, top, width, height
_DWMWA_EXTENDED_FRAME_BOUNDS, _DWMWA_CLOAKED = 9, 14
_GWL_EXSTYLE = -20
_CLICK_THROUGH = 0x00080000 | 0x00000020  # WS_EX_LAYERED and WS_EX_TRANSPARENT
_WM_NULL, _WM_CLOSE = 0x0000, 0x0010
_SMTO_ABORTIFHUNG = 0x0002
_RAISE = 0x0001 | 0x0002 | 0x0010 | 0x4000  # SWP_NOSIZE, NOMOVE, NOACTIVATE, ASYNCWINDOWPOS; HWND_TOP is 0
_SYNCHRONIZE = 0x00100000
_WAIT_OBJECT_0 = 0

_BOOL, _INT, _DWORD, _HWND = wintypes.BOOL, ctypes.c_int, wintypes.DWORD, wintypes.HWND
_RECT_POINTER, _POINT_POINTER = ctypes.POINTER(wintypes.RECT), ctypes.POINTER(wintypes.POINT)

_log = logging.getLogger(__name__)


class WindowState(msgspec.Struct, frozen=True):
    """Position of the inner area of a window on the screen in physical pixels, and its visibility.

    The origin is the upper left corner of the primary monitor; monitors left of it or above it have negative
    coordinates. `is_on_screen` states whether the whole inner area lies within the bounds of all monitors. `cover` has
    the title of a window that covers a part of it; "" if none does. Windows that are both layered and transparent to
    the mouse do not count, because the overlays of graphics drivers and chat programs are such windows.
    """

    x_px: int
    y_px: int
    width_px: int
    height_px: int
    is_on_screen: bool
    cover: str = ""


class Window:
    """A top-level window of another program; `id` is its handle (HWND), `pid` its process.

    Raises `WindowGoneError` if it was closed.
    """

    def __init__(self, window_id: int, pid: int = 0) -> None:
        self.id = window_id
        self.thread_id, owner = _owner(window_id)
        if not owner or pid not in (0, owner):
            raise WindowGoneError(f"window {window_id:#x} was closed; open the session again")
        self.pid = owner

    def state(self) -> WindowState:
        """Return its state now.

        Raises `WindowGoneError` if it was closed, minimised or hidden, or is on another virtual desktop: then it has no
        picture and gets no keys.
        """
        with physical_pixels():
            self._check_visible()
            inside, corner = wintypes.RECT(), wintypes.POINT()
            is_known = _user("GetClientRect", _BOOL, _HWND, _RECT_POINTER)(self.id, inside)
            if not is_known or not _user("ClientToScreen", _BOOL, _HWND, _POINT_POINTER)(self.id, corner):
                raise self._gone()
            place = (corner.x, corner.y, inside.right, inside.bottom)
            if not inside.right or not inside.bottom:
                raise WindowGoneError(f"window {self.id:#x} has no inner area; make it larger")
            left, top, width, height = (_user("GetSystemMetrics", _INT, _INT)(which) for which in _VIRTUAL_SCREEN)
            is_on_screen = (
                left <= place[0]
                and top <= place[1]
                and place[0] + place[2] <= left + width
                and place[1] + place[3] <= top + height
            )
            return WindowState(*place, is_on_screen=is_on_screen, cover=self._cover(place))

    def frame_origin_px(self) -> tuple[int, int]:
        """Return the left and top of its visible frame on the screen, which is the origin of its captured pictures."""
        with physical_pixels():
            frame = wintypes.RECT()
            if not _read_dwm(self.id, _DWMWA_EXTENDED_FRAME_BOUNDS, frame):
                _user("GetWindowRect", _BOOL, _HWND, _RECT_POINTER)(self.id, frame)
            return frame.left, frame.top

    def is_in_front(self) -> bool:
        """Return whether it is the foreground window, which gets the keys."""
        return _foreground() == self.id

    def bring_to_front(self, deadline_s: float = FRONT_DEADLINE_S) -> None:
        """Make it the foreground window, and wait until its program has handled the change.

        Windows lets only some programs do so ("Remarks" of ``SetForegroundWindow``); the input of the program in front
        is attached to this thread for a moment, which is one of the allowed cases. A program that does not handle
        messages now, such as a game with held time, is not waited for longer than the deadline.

        Raises `WindowGoneError` as `state`, and `WindowError` if another window is still in front at the deadline.
        """
        deadline = time.monotonic() + deadline_s
        while not self.is_in_front():
            self._check_visible()
            if not _user("SetForegroundWindow", _BOOL, _HWND)(self.id) or not self.is_in_front():
                self._take_front()
            if time.monotonic() >= deadline:
                raise WindowError(
                    f"window {self.id:#x} of process {self.pid} did not come to the front within {deadline_s:.1f} s; "
                    f"{_describe_front()} is in front. Click on the window of the game, close dialogs and menus of "
                    f"other programs, and leave the keyboard and the mouse alone while the game is played"
                )
            time.sleep(_POLL_S)
        self._raise()
        self.await_messages(max(deadline - time.monotonic(), 0.0))

    def await_messages(self, deadline_s: float) -> bool:
        """Return whether its program handled a message within the deadline, and so all that were sent to it before."""
        answer = ctypes.c_size_t()
        send = _user(
            "SendMessageTimeoutW", ctypes.c_ssize_t, _HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM,
            wintypes.UINT, wintypes.UINT, ctypes.POINTER(ctypes.c_size_t),
        )  # fmt: skip
        return bool(send(self.id, _WM_NULL, 0, 0, _SMTO_ABORTIFHUNG, max(round(deadline_s * 1000), 1), answer))

    def ask_to_close(self) -> None:
        """Ask its program to close it, as a click on its close button does. Raises `WindowGoneError`, `WindowError`."""
        post = _user("PostMessageW", _BOOL, _HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM)
        if not post(self.id, _WM_CLOSE, 0, 0):
            reason = explain(error_code())
            if not self._exists():
                raise self._gone()
            raise WindowError(f"window {self.id:#x} cannot be asked to close: {reason}; close it by hand")

    def close(self) -> None:
        """Do nothing: Windows holds no resource for it. It exists so that windows of all systems are used alike."""

    def _exists(self) -> bool:
        # Handles are used again for other windows.
        return _owner(self.id) == (self.thread_id, self.pid)

    def _gone(self) -> WindowGoneError:
        return WindowGoneError(f"window {self.id:#x} of process {self.pid} was closed; open the session again")

    def _check_visible(self) -> None:
        if not self._exists():
            raise self._gone()
        hidden = _why_hidden(self.id)
        if hidden:
            raise WindowGoneError(
                f"window {self.id:#x} of process {self.pid} is {hidden}, so it has no picture and gets no keys; show "
                f"it again"
            )

    def _take_front(self) -> None:
        """Make it the foreground window with the rights of the program that is in front now."""
        front = _foreground()
        thread = function("kernel32", "GetCurrentThreadId", _DWORD)()
        front_thread = _owner(front)[0] if front else 0
        attach = _user("AttachThreadInput", _BOOL, _DWORD, _DWORD, _BOOL)
        # An attached thread waits for the other one, so it must not be one that does not answer.
        is_usable = front_thread not in (0, thread) and not _user("IsHungAppWindow", _BOOL, _HWND)(front)
        is_attached = is_usable and bool(attach(thread, front_thread, True))
        try:
            self._raise()
            _user("SetForegroundWindow", _BOOL, _HWND)(self.id)
        finally:
            if is_attached:
                attach(thread, front_thread, False)

    def _raise(self) -> None:
        """Put it above all other windows that do not stay on top; its program does that when it handles messages."""
        _user("SetWindowPos", _BOOL, _HWND, _HWND, *[_INT] * 4, wintypes.UINT)(self.id, None, 0, 0, 0, 0, _RAISE)

    def _cover(self, place: tuple[int, int, int, int]) -> str:
        """Return the description of a window above it that overlaps it; "" if there is none."""
        left, top, width, height = place
        for other in _windows():  # from the highest to the lowest
            if other == self.id:
                break
            style = _user("GetWindowLongW", ctypes.c_long, _HWND, _INT)(other, _GWL_EXSTYLE)
            if _why_hidden(other) or style & _CLICK_THROUGH == _CLICK_THROUGH:
                continue
            rect = wintypes.RECT()
            if not _read_dwm(other, _DWMWA_EXTENDED_FRAME_BOUNDS, rect):
                _user("GetWindowRect", _BOOL, _HWND, _RECT_POINTER)(other, rect)
            right, bottom = min(rect.right, left + width), min(rect.bottom, top + height)
            if max(rect.left, left) < right and max(rect.top, top) < bottom:
                return _describe(other)
        return ""


def find_window(pid: int, title: str = "") -> Window:
    """Return the largest visible window of a process with a text in its title. Raises `WindowNotFoundError`."""
    sizes: dict[int, int] = {}
    seen = []
    with physical_pixels():
        for window in _windows():
            is_shown = bool(_user("IsWindowVisible", _BOOL, _HWND)(window))
            is_ours = _owner(window)[1] == pid
            name = _title(window)
            if is_shown and (is_ours or name):
                seen.append(_describe(window))
            if is_ours and title in name and not _why_hidden(window):
                rect = wintypes.RECT()
                _user("GetWindowRect", _BOOL, _HWND, _RECT_POINTER)(window, rect)
                sizes[window] = (rect.right - rect.left) * (rect.bottom - rect.top)
    if not sizes:
        called = f" with {title!r} in its title" if title else ""
        there = "".join(f"\n  {line}" for line in seen) or " none"
        raise WindowNotFoundError(f"process {pid} has no visible window{called}; there are:{there}")
    best = max(sizes, key=lambda window: sizes[window])
    if len(sizes) > 1:
        _log.info("process %d has %d windows, taking the largest: %s", pid, len(sizes), _describe(best))
    return Window(best, pid)


def wait_for_window(pid: int, title: str = "", *, deadline_s: float) -> Window:
    """Wait until `find_window` finds a window.

    Raises `ProcessExitedError`, `WaitTimeoutError`, and `AttachDeniedError` if the process may not be observed.
    """
    started = time.monotonic()
    with closing(_ProcessHandle(pid)) as process:
        while True:
            try:
                return find_window(pid, title)
            except (WindowNotFoundError, WindowGoneError) as error:  # gone: closed during the search
                left_s = deadline_s - (time.monotonic() - started)
                if left_s <= 0:
                    what = f"a window of process {pid}"
                    raise WaitTimeoutError(what, time.monotonic() - started, str(error)) from error
            if process.has_ended(min(left_s, LOOK_INTERVAL_S)):
                raise ProcessExitedError(f"process {pid} has ended, before it showed a window", pid=pid)


def with_window(pids: Iterable[int], title: str) -> list[int]:
    """Return the processes that have such a window."""
    found = []
    for pid in pids:
        with suppress(WindowNotFoundError, WindowGoneError):
            find_window(pid, title)
            found.append(pid)
    return found


@contextmanager
def physical_pixels() -> Iterator[None]:
    """Use physical pixels in calls of this thread, whatever the scale of a monitor is.

    Without it Windows converts all positions for programs that do not declare that they know of scales, such as Python.
    """
    set_context = _user("SetThreadDpiAwarenessContext", ctypes.c_void_p, ctypes.c_void_p)
    before = set_context(_PER_MONITOR_AWARE_V2)
    try:
        yield
    finally:
        set_context(before)


class _ProcessHandle:
    """Observes the end of a process."""

    def __init__(self, pid: int) -> None:
        opened = function("kernel32", "OpenProcess", wintypes.HANDLE, _DWORD, _BOOL, _DWORD)
        self._handle = opened(_SYNCHRONIZE, False, pid)
        if not self._handle:
            code = error_code()
            if code == ERROR_INVALID_PARAMETER:
                raise ProcessExitedError(f"process {pid} has ended", pid=pid)
            raise AttachDeniedError(
                f"process {pid} may not be observed: {explain(code)}; run soulslab as the user of the game, and as "
                f"administrator if the game runs so",
                pid=pid,
            )

    def has_ended(self, wait_s: float) -> bool:
        """Return whether it has ended, after waiting for its end."""
        wait = function("kernel32", "WaitForSingleObject", _DWORD, wintypes.HANDLE, _DWORD)
        return bool(wait(self._handle, round(wait_s * 1000)) == _WAIT_OBJECT_0)

    def close(self) -> None:
        """Close the handle."""
        function("kernel32", "CloseHandle", _BOOL, wintypes.HANDLE)(self._handle)


def _user(name: str, result: Any, *arguments: Any) -> Any:
    return function("user32", name, result, *arguments)


def _windows() -> list[int]:
    """Return the top-level windows, from the highest to the lowest."""
    found: list[int] = []
    declare: Any = getattr(ctypes, "WINFUNCTYPE", None)  # exists on Windows only
    callback_type = declare(_BOOL, _HWND, wintypes.LPARAM)

    def note(window: int, _: int) -> bool:
        found.append(window)
        return True

    _user("EnumWindows", _BOOL, callback_type, wintypes.LPARAM)(callback_type(note), 0)
    return found


def _owner(window: int) -> tuple[int, int]:
    """Return the thread and the process of a window; zeros if it does not exist."""
    pid = _DWORD()
    thread = _user("GetWindowThreadProcessId", _DWORD, _HWND, ctypes.POINTER(_DWORD))(window, pid)
    return int(thread), int(pid.value)


def _foreground() -> int:
    return _user("GetForegroundWindow", _HWND)() or 0


def _why_hidden(window: int) -> str:
    """Return why a window has no picture; "" if it has one."""
    if not _user("IsWindowVisible", _BOOL, _HWND)(window):
        return "hidden"
    if _user("IsIconic", _BOOL, _HWND)(window):
        return "minimised"
    cloaked = _DWORD()
    if _read_dwm(window, _DWMWA_CLOAKED, cloaked) and cloaked.value:
        return "on another virtual desktop, or suspended"
    return ""


def _read_dwm(window: int, attribute: int, value: Any) -> bool:
    """Read an attribute from the compositor into a value; return False if the compositor does not have it."""
    read = function("dwmapi", "DwmGetWindowAttribute", ctypes.c_long, _HWND, _DWORD, ctypes.c_void_p, _DWORD)
    return bool(read(window, attribute, ctypes.byref(value), ctypes.sizeof(value)) == 0)


def _title(window: int) -> str:
    text = ctypes.create_unicode_buffer(256)
    _user("GetWindowTextW", _INT, _HWND, wintypes.LPWSTR, _INT)(window, text, len(text))
    return text.value


def _describe(window: int) -> str:
    rect = wintypes.RECT()
    _user("GetWindowRect", _BOOL, _HWND, _RECT_POINTER)(window, rect)
    size = f"{rect.right - rect.left}x{rect.bottom - rect.top}"
    hidden = _why_hidden(window)
    return f"{window:#x} of process {_owner(window)[1]}, {size}, {_title(window)!r}{hidden and f' ({hidden})'}"


def _describe_front() -> str:
    front = _foreground()
    return f"window {_describe(front)}" if front else "no window"
