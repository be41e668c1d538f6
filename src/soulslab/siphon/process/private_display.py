"""A private X display: an own Xvfb server, on which a game runs unseen, has the focus, and is captured cheaply."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import xcffib.xfixes
import xcffib.xproto

from soulslab.closing import Closing
from soulslab.errors import ConfigError, DisplayError
from soulslab.siphon.process.child_process import ParentDeathPipe, PrivateFolder
from soulslab.siphon.process.process_watch import wait_readable
from soulslab.siphon.process.x11 import COOKIE_NAME, XConnection

START_DEADLINE_S = 20.0
MAX_STARTS = 3
END_DEADLINE_S = 5.0
DISPLAY_DIGITS = 5
MAX_SIDE_PX = 16384  # half the range of X's 16-bit coordinates
#: Xauthority's FamilyWild (<X11/Xauth.h>): the cookie is valid for any display of any host.
FAMILY_WILD = 0xFFFF

_log = logging.getLogger(__name__)


class PrivateDisplay(Closing):
    """A running Xvfb with one screen of 24-bit colours.

    Only this user can connect, by the cookie in `environment` or by user id; no TCP port is open. The pointer is not
    drawn and the screen saver is off. The server ends with `close`. If this process dies without it, even by SIGKILL,
    the server ends when its last client disconnects: at once, or together with the game.

    Attributes:
        name: Name of the display, as ``:7``.
        pid: Process id of the server.
        framebuffer: File with its pixels (an XWD file, rows of BGRX), which the server maps and draws into.

    Raises `DisplayError` if Xvfb is not installed or does not start, and `ConfigError` for an unsupported size.
    """

    def __init__(self, size_px: tuple[int, int] = (1280, 720)) -> None:
        if not all(1 <= side <= MAX_SIDE_PX for side in size_px):
            raise ConfigError(f"is {size_px[0]}x{size_px[1]}; each side can be 1 to {MAX_SIDE_PX}", path="screen_px")
        program = which("Xvfb")
        if program is None:
            raise DisplayError(
                "a private display needs Xvfb, which is not installed: apt-get install xvfb "
                '(or use the display you see: display="")'
            )
        self.size_px = size_px
        for tries_left in range(MAX_STARTS - 1, -1, -1):
            with ExitStack() as undo:
                cookie = secrets.token_bytes(16)
                self._start(program, cookie, undo)
                try:
                    # The server ends when its last client disconnects (-terminate); this connection keeps it running.
                    self._connection = XConnection(self.name, cookie=cookie)
                except DisplayError as error:
                    # An X server that ends frees its number first and removes the socket of that number later. A server
                    # that starts in between can take the number and lose its socket.
                    if not tries_left:
                        raise
                    _log.info("starting the private display again: %s", error)
                    continue
                undo.callback(self._connection.close)
                _settle(self._connection)
                self._lifeline.release()
                self._parts = undo.pop_all()
                return

    def _start(self, program: str, cookie: bytes, undo: ExitStack) -> None:
        """Start the server in a new folder, with a parent-death pipe, and wait until it listens."""
        folder = PrivateFolder("display")
        undo.callback(folder.close)
        self.framebuffer: Path = folder.path / "Xvfb_screen0"
        self._authority = folder.path / "authority"
        _write_authority(self._authority, cookie)
        self._lifeline = ParentDeathPipe()
        undo.callback(self._lifeline.release)
        log = folder.path / "log"
        reader, writer = os.pipe()
        command = [
            *(program, "-displayfd", str(writer), "-screen", "0", f"{self.size_px[0]}x{self.size_px[1]}x24"),
            *("-fbdir", str(folder.path), "-auth", str(self._authority)),
            *("-nolisten", "tcp", "-s", "0", "-terminate"),
        ]
        try:
            with log.open("wb") as output:
                process = subprocess.Popen(  # noqa: S603 - the program that `which` found, our own arguments
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=folder.path,
                    pass_fds=(writer, folder.fd, self._lifeline.fd),
                    # Ctrl-C in the terminal must reach only this process, which ends the server.
                    start_new_session=True,
                )
        except OSError as error:
            os.close(reader)
            raise DisplayError(f"cannot start {program}: {error.strerror}") from error
        finally:
            os.close(writer)
        undo.callback(_end, process)
        self._lifeline.tie(process.pid, signal.SIGTERM)
        try:
            number = _read_line(reader, time.monotonic() + START_DEADLINE_S)
        finally:
            os.close(reader)
        if not number:
            said = log.read_text(errors="replace").strip()[-2000:]
            raise DisplayError(f"Xvfb did not start within {START_DEADLINE_S:.0f} s; it says:\n{said}")
        self._process, self.name, self.pid = process, f":{number}", process.pid

    def environment(self, *, has_fixed_length: bool = False) -> dict[str, str]:
        """Return the environment variables with which a program draws on this display.

        `has_fixed_length` pads the display number with zeros, because X libraries store its text on the heap.
        """
        name = f":{int(self.name[1:]):0{DISPLAY_DIGITS}d}" if has_fixed_length else self.name
        return {"DISPLAY": name, "XAUTHORITY": str(self._authority)}

    def close(self) -> None:
        """End the server and remove its files; a second call does nothing."""
        self._parts.close()


def _read_line(fd: int, deadline: float) -> str:
    """Return the text up to a newline; "" if the other side closes or the deadline passes first."""
    line = b""
    while not line.endswith(b"\n"):
        if not wait_readable(deadline - time.monotonic(), fd):
            return ""
        part = os.read(fd, 1)
        if not part:
            return ""
        line += part
    return line.decode().strip()


def _settle(connection: XConnection) -> None:
    """Give the processes of this user access, and hide the pointer, which would be visible in the pixels."""
    address = list(f"localuser\0#{os.getuid()}".encode())
    fixes = connection.extension(xcffib.xfixes.key)
    with connection.using("set up the private display"):
        connection.core.ChangeHosts(
            xcffib.xproto.HostMode.Insert,
            xcffib.xproto.Family.ServerInterpreted,
            len(address),
            address,
            is_checked=True,
        ).check()
        fixes.QueryVersion(4, 0).reply()
        fixes.HideCursor(connection.root, is_checked=True).check()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and reap it."""
    process.terminate()
    try:
        process.wait(END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _write_authority(path: Path, cookie: bytes) -> None:
    """Write an XAUTHORITY file (format: Xau(3)) with one cookie that is valid for every display number."""
    fields = (b"", b"", COOKIE_NAME, cookie)
    data = struct.pack(">H", FAMILY_WILD) + b"".join(struct.pack(">H", len(field)) + field for field in fields)
    path.touch(mode=0o600)
    path.write_bytes(data)
