"""A session with a game on a server: the methods of `soulslab.siphon.session.Session`, one round trip each.

The call that notices a lost connection raises `ServerUnavailableError` once; the server has then released all keys. The
next call connects again, and so does `restart` at once.
"""

from __future__ import annotations

import getpass
import logging
import os
import platform
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from soulslab.closing import Closing
from soulslab.config import Secret
from soulslab.errors import (
    InvalidValueError,
    ServerUnavailableError,
    SessionStateError,
    SoulslabError,
    WindowNotFoundError,
)
from soulslab.siphon.attributes.alternatives import Finding
from soulslab.siphon.attributes.pointer_chains import NUMBER_NAME, ChainNumber, Number
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.clock import Advance, Clock
from soulslab.siphon.input import Input
from soulslab.siphon.pad import Pad
from soulslab.siphon.profile import ClockGrade, Value
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.connection import Connection, Endpoint, make_endpoint
from soulslab.siphon.rpc.frame_transfer import FrameReceiver
from soulslab.siphon.rpc.wire_encoding import UNSENDABLE, encode
from soulslab.siphon.session import Frame, SessionInfo, Snapshot, Step, StepResult
from soulslab.siphon.watchdog import Watchdog

#: Share of the deadline that the server may spend waiting for other clients, so that it can report that itself.
WAIT_SHARE = 0.8
LEAVE_S = 5.0
#: Longest time that the server permits for any operation of a game.
MAX_NEEDED_S = 3600.0

R = TypeVar("R")

_log = logging.getLogger(__name__)


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a client.

    Attributes:
        frames: Transfer of frames: ``auto`` through shared memory on the same machine, otherwise uncompressed; ``raw``
            uncompressed; ``jpeg`` with losses, for slow connections.
        jpeg_quality: 1 to 100.
        restart_s: Longest wall time of a start of the game.
        name: Name of the client for other clients that ask who controls the game; "" for user, machine and process.
    """

    frames: Literal["auto", "raw", "jpeg"] = "auto"
    jpeg_quality: int = 90
    restart_s: float = 90.0
    name: str = ""

    @property
    def encoding(self) -> m.FrameEncoding:
        """Encoding of frames that do not go through shared memory."""
        return "jpeg" if self.frames == "jpeg" else "raw"


def connect(
    address: str,
    *,
    token: str | Secret = "",
    tls: Path | str | None = None,
    deadline_s: float = 10.0,
    options: ClientOptions | None = None,
) -> RemoteSession:
    """Attach to the game of a server.

    Args:
        address: ``host:port`` or ``unix:/path``.
        token: Token of the server.
        tls: File with the server's certificate or its issuer's; required for other machines.
        deadline_s: Longest wait for each answer; steps and advances have their own deadline in addition.
        options: Further options.

    Raises:
        ServerUnavailableError: No server answers at the address.
        AccessRefusedError: The token is wrong, TLS is missing, or there are too many clients.
        WireError: The server has another protocol version.
        ConfigError: The address is malformed.
        SiphonError: The server cannot open the game.
    """
    endpoint = make_endpoint(address, token, Path(tls) if tls is not None else None)
    return RemoteSession(endpoint, deadline_s, options or ClientOptions())


class RemoteSession(Closing):
    """A session with a game on a server (`soulslab.siphon.session.Session`); see `connect`."""

    def __init__(self, endpoint: Endpoint, deadline_s: float, options: ClientOptions) -> None:
        self._endpoint = endpoint
        self._deadline_s = deadline_s
        self._options = options
        self._lock = threading.RLock()
        self._is_closed = False
        self._input = RemoteInput(self)
        self._clock = RemoteClock(self)
        self._watchdog = Watchdog()
        try:
            self._connection: Connection | None = self._attach()
        except BaseException:
            self._watchdog.close()
            raise

    @property
    def info(self) -> SessionInfo:
        """See `Session.info`."""
        with self._lock:
            return self._noted(self.ask(m.Info()))

    @property
    def input(self) -> Input:
        """See `Session.input`."""
        self._know_info()
        if not self._input.backend:
            raise WindowNotFoundError("the server has this game without its window, so it has no keys")
        return self._input

    @property
    def clock(self) -> Clock:
        """See `Session.clock`."""
        self._know_info()
        return self._clock

    @property
    def shares_memory(self) -> bool:
        """Whether frames are transferred through shared memory."""
        return self._connection is not None and self._connection.frames.offer is not None

    def read(self, name: str) -> Value:
        """See `Session.read`."""
        return self.ask(m.Read(name))

    def snapshot(self, names: Sequence[str] | None = None) -> Snapshot:
        """See `Session.snapshot`."""
        return _snapshot(self.ask(m.Snap(_names(names))))

    def examine(self, names: Sequence[str] | None = None) -> dict[str, tuple[Finding, ...]]:
        """See `Session.examine`."""
        return self.ask(m.Examine(_names(names)))

    def write(self, values: Mapping[str, Value]) -> None:
        """See `Session.write`."""
        for name, value in values.items():
            _check_sendable(name, value)
        self.ask(m.Write(dict(values)))

    def read_number(self, where: ChainNumber) -> Number:
        """See `Session.read_number`."""
        return self.ask(m.ReadNumber(where))

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """See `Session.write_number`."""
        _check_sendable(NUMBER_NAME, value)
        self.ask(m.WriteNumber(where, value))

    def capture(self, frame_format: FrameFormat = NATIVE) -> Frame:
        """See `Session.capture`."""
        with self._lock:
            return self._frames().unpack(self.ask(m.Grab(frame_format)))

    def step(self, step: Step) -> StepResult:
        """See `Session.step`."""
        with self._lock:
            return _step_result(self.ask(m.DoStep(step), step.deadline_s), self._frames())

    def watch(
        self, rate_hz: float, attributes: Sequence[str] | None = None, frame: FrameFormat | None = None
    ) -> Iterator[StepResult]:
        """Yield observations of the game at a rate, without changing it, until the iterator is closed.

        Args:
            rate_hz: Observations per second of wall time; fewer arrive if the client is slower.
            attributes: Attributes to read; None for all.
            frame: Format of the image; None for none.

        Raises `SiphonError` for an error of `read` or `capture`, which ends the stream.
        """
        watch = m.Watch(rate_hz, _names(attributes), frame, self._options.encoding, self._options.jpeg_quality)
        with self._lock:
            connection = self._connected()
        for look in connection.watch(watch):
            yield _step_result(look, connection.frames)

    def restart(self, options: Mapping[str, str] | None = None, *, seed: int | None = None) -> None:
        """See `Session.restart`; it reconnects if the connection is lost."""
        with self._lock:
            if self._connection is not None and not self._connection.is_alive:
                self._drop()
            self.ask(m.Restart(dict(options) if options is not None else None, seed), self._options.restart_s)
            self._noted(self.ask(m.Info()))

    def close(self) -> None:
        """Release keys and leave the server; the game stays there unchanged. A second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            connection, self._connection = self._connection, None
            try:
                if connection is not None and connection.is_alive:
                    connection.ask(m.Leave(), wait_s=LEAVE_S, deadline_s=LEAVE_S)
            except SoulslabError as error:  # the session ends in any case: the server notices the end of the stream
                _log.info("left without a good-bye: %s", error)
            finally:
                if connection is not None:
                    connection.close()
                self._watchdog.close()

    def ask(self, request: m.Request[R], needed_s: float = 0.0) -> R:
        """Return the result of a request; the game may take `needed_s` longer than the deadline of this session."""
        with self._lock:
            connection = self._connected()
            try:
                deadline_s = self._deadline_s + max(0.0, min(needed_s, MAX_NEEDED_S))
                return connection.ask(request, wait_s=WAIT_SHARE * self._deadline_s, deadline_s=deadline_s)
            except SoulslabError:
                # The next call reports the loss of a stream that ended without an error for this call.
                if connection.is_over:
                    self._drop()
                raise

    def _connected(self) -> Connection:
        """Return the connection; a new one if the loss of the last one was reported."""
        self._refuse_closed()
        if self._connection is None:
            self._connection = self._attach()
        elif not self._connection.is_alive:
            self._drop()
            raise ServerUnavailableError(
                f"the connection to {self._endpoint.address} was lost, and the server has released our keys; "
                f"the next call connects again"
            )
        return self._connection

    def _attach(self) -> Connection:
        options = self._options
        name = options.name or f"{getpass.getuser()}@{platform.node()}, process {os.getpid()}"
        hello = m.Hello(m.VERSION, name[:200], options.encoding, options.jpeg_quality)
        connection = Connection(
            self._endpoint,
            hello,
            self._watchdog,
            offers_memory=options.frames == "auto",
            answer_s=self._deadline_s,
            open_s=self._deadline_s + options.restart_s,
        )
        self.profile = connection.welcome.profile
        self._has_info = False
        if connection.welcome.info is not None:
            self._noted(connection.welcome.info)
        return connection

    def _know_info(self) -> None:
        """Request the session info, if the server could not provide it at the connection."""
        with self._lock:
            self._refuse_closed()
            if not self._has_info:
                _ = self.info

    def _noted(self, info: SessionInfo) -> SessionInfo:
        self._input.backend, self._clock.grade = info.input_backend, info.clock_grade
        self._has_info = True
        return info

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _frames(self) -> FrameReceiver:
        if self._connection is None:
            raise SessionStateError("the connection was closed before its last picture was unpacked")
        return self._connection.frames

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise SessionStateError("the session is closed; connect again")


class RemoteInput:
    """Keyboard, mouse and gamepad of a game on a server (`soulslab.siphon.input.Input`).

    `backend` is "" without a window.
    """

    def __init__(self, session: RemoteSession) -> None:
        self.backend = ""
        self._session = session

    @property
    def held(self) -> frozenset[str]:
        """See `Input.held`."""
        return self._session.ask(m.Held())

    def set_held(self, keys: Collection[str], again: Collection[str] = ()) -> None:
        """See `Input.set_held`."""
        self._session.ask(m.Hold(tuple(keys), tuple(again)))

    def type(self, keys: Collection[str]) -> None:
        """See `Input.type`."""
        self._session.ask(m.Type(tuple(keys)))

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """See `Input.move_mouse`."""
        self._session.ask(m.MoveMouse(dx_px, dy_px))

    def set_pad(self, pad: Pad) -> None:
        """See `Input.set_pad`."""
        self._session.ask(m.SetPad(pad))

    def close(self) -> None:
        """Release all held keys and the gamepad."""
        self.set_held(())
        self.set_pad(Pad())


class RemoteClock:
    """The clock of a game on a server (`soulslab.siphon.clock.Clock`)."""

    grade: ClockGrade = "realtime"

    def __init__(self, session: RemoteSession) -> None:
        self._session = session

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`."""
        return self._session.ask(m.Time()).game_time_s

    @property
    def speed(self) -> float:
        """See `Clock.speed`."""
        return self._session.ask(m.Time()).speed

    def run(self, speed: float = 1.0) -> None:
        """See `Clock.run`."""
        self._session.ask(m.Run(speed))

    def pause(self) -> None:
        """See `Clock.pause`."""
        self._session.ask(m.Pause())

    def advance(self, seconds: float, *, deadline_s: float = 10.0, speed: float | None = None) -> Advance:
        """See `Clock.advance`."""
        return self._session.ask(m.DoAdvance(seconds, deadline_s, speed), deadline_s)

    def close(self) -> None:
        """Run the game at 1x."""
        self.run()


def _check_sendable(name: str, value: Value) -> None:
    try:
        encode(value)
    except UNSENDABLE as error:
        raise InvalidValueError(name, value, str(error)) from error


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return tuple(names) if names is not None else None


def _step_result(done: m.Stepped, frames: FrameReceiver) -> StepResult:
    frame = frames.unpack(done.frame) if done.frame is not None else None
    return StepResult(done.advance, _snapshot(done.values), frame)


def _snapshot(values: m.Values) -> Snapshot:
    return Snapshot(values.values, values.game_time_s, values.wall_time_s)
