"""A connection to an X server: its lock, atoms, extensions and events, with errors converted to ours."""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from struct import Struct
from typing import Any, TypeAlias

import xcffib

# A connection knows the events and errors only of extensions imported before it was opened.
import xcffib.composite
import xcffib.damage
import xcffib.res
import xcffib.shm
import xcffib.sync
import xcffib.xfixes
import xcffib.xproto
import xcffib.xtest

from soulslab.errors import DisplayError, WindowGoneError
from soulslab.siphon.watchdog import Watchdog

EventListener: TypeAlias = Callable[[Any], None]

COOKIE_NAME = b"MIT-MAGIC-COOKIE-1"
#: A server that does not answer for this long hangs; xcb itself would wait without limit.
ANSWER_DEADLINE_S = 20.0
#: Longest wait for a busy server before a round trip is made instead.
IDLE_DEADLINE_S = 0.002
#: System call numbers of poll, select, epoll_wait, pselect6, ppoll and epoll_pwait on x86-64.
WAITING_CALLS = frozenset((b"7", b"23", b"232", b"270", b"271", b"281"))
_CREDENTIALS = Struct("iII")  # struct ucred of unix(7): pid, uid, gid
#: Errors of the server for a window, or its contents, that no longer exist.
GONE_ERRORS = (xcffib.xproto.WindowError, xcffib.xproto.DrawableError)


class _Server:
    """The files in which the kernel shows the state of a server's main thread (proc(5)). Raises `OSError`."""

    def __init__(self, pid: int) -> None:
        self._fds: list[int] = []
        try:
            for name in ("syscall", "stat"):
                self._fds.append(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC))
            self.is_waiting()  # reading the first file needs the permission to trace the process
        except OSError:
            self.close()
            raise

    def is_waiting(self) -> bool:
        """Return whether the server sleeps in its wait for requests.

        A thread that was just woken on an idle processor still counts as blocked in the first file, but not in the
        second.
        """
        call, stat = self._fds
        if os.pread(call, 8, 0).split(b" ", 1)[0] not in WAITING_CALLS:
            return False
        return os.pread(stat, 512, 0).rpartition(b") ")[2][:1] == b"S"

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        while self._fds:
            os.close(self._fds.pop())


def _open_server(pid: int) -> _Server | None:
    """Open the files of a server on this machine; None if they cannot be read."""
    if not pid or platform.machine() != "x86_64":
        return None
    try:
        return _Server(pid)
    except OSError:
        return None


class XConnection:
    """A connection to an X server, for use by several threads, one at a time.

    Make requests inside `using`, which holds the lock and converts the errors of xcffib. Send requests without a reply
    with ``is_checked=True`` and ``.check()``; otherwise a later `dispatch` raises their error.

    Args:
        display: Name of the display, as ``:7``; "" for the one of ``DISPLAY``.
        cookie: MIT-MAGIC-COOKIE-1 of 16 bytes; None to read the file of ``XAUTHORITY``.

    Attributes:
        raw: Connection of xcffib; `core` has the requests of the core protocol.
        root: Root window of the first screen.
        root_depth: Bits per pixel of its colours, usually 24.
        size_px: Width and height of the screen at the time of connection.
        server_pid: Process id of the server; 0 if it is on another machine or in another namespace.
        lock: Held by `using`; acquire it to keep several uses together.

    Raises:
        DisplayError: The display does not exist or denies access.
    """

    def __init__(self, display: str = "", *, cookie: bytes | None = None) -> None:
        self.display = display
        self.lock = threading.RLock()
        self._atoms: dict[str, int] = {}
        self._extensions: dict[xcffib.ExtensionKey, Any] = {}
        self._listeners: list[EventListener] = []
        self._selected: dict[int, int] = {}
        self._is_closed = False
        self._n_uses = 0
        self._is_given_up = False
        try:
            self.raw = _connect_in_time(display, cookie)
        except xcffib.XcffibException as error:
            where = f"X display {display!r}" if display else "the X display of the variable DISPLAY"
            raise DisplayError(
                f"cannot connect to {where}: is it running, and may this user use it? "
                f'A private display (display="private") needs neither; xcb says: {error}'
            ) from error
        self._fd = int(self.raw.get_file_descriptor())
        self.server_pid = self._peer_pid()
        self._server = _open_server(self.server_pid)
        self._watchdog = Watchdog()
        self.core: Any = self.raw.core
        screen = self.raw.setup.roots[0]
        self.root: int = screen.root
        self.root_depth: int = screen.root_depth
        self.size_px: tuple[int, int] = (screen.width_in_pixels, screen.height_in_pixels)

    @contextmanager
    def using(self, what: str, window: int = 0) -> Iterator[None]:
        """Hold the lock, and convert the errors raised inside.

        `what` describes the action, for errors: ``take a picture``; `window` is its window, 0 for none. Raises
        `WindowGoneError`, and `DisplayError` if the connection is broken, or the server refuses or does not answer in
        `ANSWER_DEADLINE_S`.
        """
        with self.lock:
            if self._is_closed:
                raise DisplayError(f"cannot {what}: the connection to X display {self.display} is closed")
            self._n_uses += 1
            try:
                if self._n_uses == 1:
                    self._watchdog.arm(ANSWER_DEADLINE_S, self._give_up)
                yield
            except GONE_ERRORS as error:
                raise WindowGoneError(f"cannot {what}: window {window:#x} on {self.display} was closed") from error
            except xcffib.ConnectionException as error:
                why = "has ended or closed the connection"
                if self._is_given_up:
                    why = f"did not answer within {ANSWER_DEADLINE_S:g} s; it hangs"
                raise DisplayError(f"cannot {what}: X display {self.display} {why}") from error
            except xcffib.XcffibException as error:
                name = type(error).__name__
                raise DisplayError(f"cannot {what}: X display {self.display} answers {name}") from error
            finally:
                self._n_uses -= 1
                if not self._n_uses:
                    self._watchdog.disarm()

    def sync(self) -> None:
        """Wait until the server has handled all our requests; all events up to then are queued for `dispatch`."""
        with self.using("wait for the display"):
            self.core.GetInputFocus().reply()

    def wait_until_idle(self) -> bool:
        """Flush the output and wait until the server is idle; return whether it is proven to have handled all requests.

        A request makes the server runnable at once, and the server blocks again when it has handled all requests and
        written all events to the sockets of the clients. A server of this machine that is blocked in its wait for
        requests therefore has none left. This takes a few microseconds; a round trip takes 0.1 ms, and is needed for a
        server on another machine or of another user, and for a server that stays busy.
        """
        with self.using("send to the display"):
            self.raw.flush()
            deadline = time.monotonic() + IDLE_DEADLINE_S
            while self._server is not None:
                try:
                    if self._server.is_waiting():
                        return True
                except OSError:  # the server has ended, which the next request reports
                    return False
                if time.monotonic() > deadline:
                    return False
                os.sched_yield()
        return False

    def atom(self, name: str) -> int:
        """Return the atom of a name; one round trip per name."""
        number = self._atoms.get(name)
        if number is None:
            with self.using(f"ask for the atom {name}"):
                number = int(self.core.InternAtom(False, len(name), name).reply().atom)
            self._atoms[name] = number
        return number

    def extension(self, key: xcffib.ExtensionKey) -> Any:
        """Return the requests of an extension, as `xcffib.xtest.key`. Raises `DisplayError` if the server lacks it."""
        if not self.has_extension(key):
            raise DisplayError(f"X display {self.display} lacks the extension {key.name}")
        return self._extensions[key]

    def has_extension(self, key: xcffib.ExtensionKey) -> bool:
        """Return whether the server has an extension."""
        if key not in self._extensions:
            with self.using(f"ask for the X extension {key.name}"):
                is_present = self.core.QueryExtension(len(key.name), key.name).reply().present
                self._extensions[key] = self.raw(key) if is_present else None
        return self._extensions[key] is not None

    def select(self, window: int, mask: int) -> None:
        """Select more kinds of events (bits of `EventMask`) of a window, in addition to those selected here before."""
        with self.using("follow a window", window):
            wanted = self._selected.get(window, 0) | mask
            # Also if nothing is added: the id may belong to another window by now.
            event_mask = xcffib.xproto.CW.EventMask
            self.core.ChangeWindowAttributes(window, event_mask, [wanted], is_checked=True).check()
            self._selected[window] = wanted

    def listen(self, listener: EventListener) -> None:
        """Register a function that `dispatch` calls with every event."""
        with self.lock:
            self._listeners.append(listener)

    def unlisten(self, listener: EventListener) -> None:
        """Remove a listener, if it is registered."""
        with self.lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def dispatch(self) -> None:
        """Pass the received events to the listeners, without waiting for more."""
        with self.using("read events"):
            while (event := self.raw.poll_for_event()) is not None:
                for listener in tuple(self._listeners):
                    listener(event)

    def fileno(self) -> int:
        """Return the socket to poll for events: when it is readable, call `dispatch`."""
        with self.using("wait for events"):
            return int(self.raw.get_file_descriptor())

    def _peer_pid(self) -> int:
        with socket.socket(fileno=os.dup(self._fd)) as one:
            if one.family != socket.AF_UNIX:
                return 0
            credentials = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0])

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        with self.lock:
            if not self._is_closed:
                self._is_closed = True
                if self._server is not None:
                    self._server.close()
                self._listeners.clear()
                self._watchdog.close()
                self.raw.disconnect()

    def _give_up(self) -> None:
        """Break the connection, so that waiting threads get an error; called with the lock held."""
        self._is_given_up = True
        with socket.socket(fileno=os.dup(self._fd)) as ours:
            ours.shutdown(socket.SHUT_RDWR)


def _connect_in_time(display: str, cookie: bytes | None) -> Any:
    """Return a connection of xcffib; one that is established too late is closed."""
    connected: Future[Any] = Future()

    def connect() -> None:
        try:
            raw = _connect(display, cookie)
        except BaseException as error:  # noqa: BLE001  (raised in the waiting thread)
            connected.set_exception(error)
        else:
            connected.set_result(raw)

    threading.Thread(target=connect, name="soulslab-x11", daemon=True).start()
    try:
        return connected.result(ANSWER_DEADLINE_S)
    except TimeoutError as error:
        connected.add_done_callback(_disconnect)
        raise DisplayError(f"X display {display!r} did not answer within {ANSWER_DEADLINE_S:g} s; it hangs") from error


def _disconnect(connected: Future[Any]) -> None:
    if connected.exception() is None:
        connected.result().disconnect()


def _connect(display: str, cookie: bytes | None) -> Any:
    """Return a connection of xcffib."""
    untyped: Any = xcffib
    lib, ffi = untyped.lib, untyped.ffi
    name = display.encode() or ffi.NULL
    if cookie is None:
        raw = lib.xcb_connect(name, ffi.NULL)
    else:
        # Not by xcffib.Connection(auth=...): version 1.13 frees the cookie before xcb reads it.
        kind, data = ffi.new("char[]", COOKIE_NAME), ffi.new("char[]", cookie)
        auth = ffi.new("xcb_auth_info_t *", {"namelen": len(COOKIE_NAME), "datalen": len(cookie)})
        auth.name, auth.data = kind, data
        raw = lib.xcb_connect_to_display_with_auth_info(name, auth, ffi.NULL)
    try:
        return untyped.wrap(raw)
    except xcffib.XcffibException:
        lib.xcb_disconnect(raw)
        raise
