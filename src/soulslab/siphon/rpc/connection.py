"""The client side of the transport: the channel to a server, and the stream of one attachment."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import grpc
import msgspec

from soulslab.config import Secret, reveal
from soulslab.errors import AccessRefusedError, ServerUnavailableError, WireError
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.access import bearer, read_pem
from soulslab.siphon.rpc.address import Address, parse_address
from soulslab.siphon.rpc.error_mapping import from_call, from_failure
from soulslab.siphon.rpc.frame_transfer import FrameReceiver
from soulslab.siphon.rpc.wire_encoding import UNSENDABLE, encode, make_decoder
from soulslab.siphon.watchdog import Watchdog

METADATA_BYTES = 1 << 20
#: Their sum limits the time until a dead or hanging server is noticed, also by a stream of observations.
KEEPALIVE_MS = 20_000
KEEPALIVE_TIMEOUT_MS = 10_000

A = TypeVar("A", bound=m.Message)
B = TypeVar("B")

_welcomes = make_decoder(m.Welcome)
_answers = make_decoder(m.Answer)
_looks = make_decoder(m.Look)


class Endpoint(msgspec.Struct, frozen=True):
    """Address of a server, with the credentials.

    `tls_pem` holds certificates that the server's certificate must equal or be signed by; empty for no TLS.
    """

    address: Address
    token: Secret = Secret("")
    tls_pem: bytes = b""

    def open_channel(self) -> grpc.Channel:
        """Return a channel, which connects at its first use."""
        options = [
            ("grpc.max_receive_message_length", m.MAX_ANSWER_BYTES + 1024),
            ("grpc.max_metadata_size", METADATA_BYTES),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.http2.max_pings_without_data", 0),
            # A new channel connects at once, without the back-off of a failed older one.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            # HTTP proxies are not used.
            ("grpc.enable_http_proxy", 0),
        ]
        if self.tls_pem:
            return grpc.secure_channel(self.address.target, grpc.ssl_channel_credentials(self.tls_pem), options)
        return grpc.insecure_channel(self.address.target, options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of each call."""
        return ((m.TOKEN_KEY, bearer(self.token.reveal())),) if self.token else ()


def make_endpoint(address: str, token: str | Secret, tls: Path | None) -> Endpoint:
    """Return an endpoint. Raises `ConfigError` if the address or the file is malformed.

    Raises `AccessRefusedError` for an address on another machine without TLS: the token, the keys and all read data
    would be readable on the network.
    """
    place = parse_address(address)
    if tls is None and not place.is_local:
        raise AccessRefusedError(
            f"{address} is not this machine, so TLS is needed: give the server's certificate as tls"
        )
    return Endpoint(place, Secret(reveal(token)), read_pem(tls, "tls") if tls else b"")


class Limits(msgspec.Struct, frozen=True):
    """Longest waits for a server: for most answers, and for answers that include a start of the game."""

    answer_s: float
    open_s: float


class Connection:
    """One attachment to a server.

    Args:
        endpoint: Server to connect to.
        hello: First message; the shared memory is filled in.
        watchdog: Monitors deadlines; it may serve several connections one after another.
        offers_memory: Whether to try shared memory for frames.
        limits_s: Longest waits.

    Attributes:
        is_over: Whether waiting for the server has failed, and the error was raised.

    Raises:
        ServerUnavailableError: No server answers.
        AccessRefusedError: The token is wrong, or there are too many clients.
        WireError: The server has another protocol version.
        SiphonError: The server cannot open the game.
    """

    def __init__(
        self, endpoint: Endpoint, hello: m.Hello, watchdog: Watchdog, *, offers_memory: bool, limits_s: Limits
    ) -> None:
        self._endpoint = endpoint
        self._watchdog = watchdog
        self._number = 0
        self.is_over = False
        self._limit_s = 0.0
        self._late_s: float | None = None
        self.frames = FrameReceiver(offers_memory=offers_memory)
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = endpoint.open_channel()
        try:
            attach = self._channel.stream_stream(f"/{m.SERVICE}/Attach")
            self._call: Any = attach(iter(self._outbox.get, None), metadata=endpoint.metadata)
            self._outbox.put(encode(msgspec.structs.replace(hello, memory=self.frames.offer)))
            self._within(limits_s.answer_s, self._call.initial_metadata)
            data = self._within(limits_s.open_s, self._next)
            m.check_version(m.decode(m.ANY_VERSION, data).version, "server")
            self.welcome = m.decode(_welcomes, data)
            self.frames.settle(self.welcome.proof)
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the stream is open."""
        return bool(self._call.is_active())

    def ask(self, request: m.AnyRequest, kind: type[A], *, wait_s: float, deadline_s: float) -> A:
        """Send a request and return its answer, of an expected type.

        `wait_s` is the longest time that the server may let the request wait for other clients.

        Raises:
            ServerUnavailableError: The connection is lost, or the answer was late; the stream is over.
            WireError: The request is too large or cannot be encoded, or the answer is malformed.
            SoulslabError: Error raised by the server.
        """
        self._number += 1
        try:
            data = encode(m.Call(self._number, wait_s, request))
        except UNSENDABLE as error:
            raise WireError(f"this cannot be sent: {error}") from error
        if len(data) > m.MAX_REQUEST_BYTES:
            raise WireError(
                f"the request has {len(data)} bytes, and {m.MAX_REQUEST_BYTES} can be sent; send less at once"
            )
        found = m.decode(_answers, self._exchange(data, deadline_s))
        answer = found.answer
        if isinstance(answer, m.Failure) and found.number in (self._number, m.UNREADABLE):
            raise from_failure(answer)
        if found.number != self._number or not isinstance(answer, kind):
            self._call.cancel()
            raise WireError(f"the server answers {type(answer).__name__} to something else than we asked")
        return answer

    def watch(self, watch: m.Watch) -> Iterator[m.Look]:
        """Yield observations until the iterator is closed. Raises as `ask`."""
        call = self._channel.unary_stream(f"/{m.SERVICE}/Watch")(encode(watch), metadata=self._endpoint.metadata)
        try:
            for data in call:
                yield m.decode(_looks, data)
        except grpc.RpcError as error:
            raise from_call(error, str(self._endpoint.address)) from error
        finally:
            call.cancel()

    def close(self) -> None:
        """End the stream; the server then releases the held keys. A second call does nothing."""
        self._outbox.put(None)
        self._channel.close()
        self.frames.close()

    def _exchange(self, data: bytes, deadline_s: float) -> bytes:
        """Send a message on the stream and return the next received one."""
        self._outbox.put(data)
        return self._within(deadline_s, self._next)

    def _next(self) -> bytes:
        data: bytes = next(self._call)
        return data

    def _within(self, seconds: float, wait: Callable[[], B]) -> B:
        """Wait for the server with a deadline."""
        self._limit_s = seconds
        self._watchdog.arm(seconds, self._give_up)
        try:
            return wait()
        except StopIteration as end:
            self.is_over = True
            raise ServerUnavailableError(f"the server at {self._endpoint.address} has ended the connection") from end
        except grpc.RpcError as error:
            self.is_over = True
            if self._late_s is not None:
                raise ServerUnavailableError(
                    f"the server at {self._endpoint.address} did not answer within {self._late_s:g} s"
                ) from error
            raise from_call(error, str(self._endpoint.address)) from error
        except BaseException:
            # Ctrl-C: the pending answer must not be taken for the answer to the next request.
            self._call.cancel()
            raise
        finally:
            self._watchdog.disarm()

    def _give_up(self) -> None:
        self._late_s = self._limit_s
        self._call.cancel()
