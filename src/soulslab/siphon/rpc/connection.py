"""The client side of the transport: the channel to a server, and the stream of one attachment."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

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

R = TypeVar("R")

_welcomes = make_decoder(m.Welcome)
_answers = make_decoder(m.Answer)
_looks = make_decoder(m.Stepped)
_results = {kind: make_decoder(kind.result_type()) for kind in get_args(m.AnyRequest)}


class Endpoint(msgspec.Struct, frozen=True):
    """Address of a server, with the token and the certificates (or issuers') that it may have; empty for no TLS."""

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
    """Return an endpoint. Raises `ConfigError`, and `AccessRefusedError` without TLS to another machine."""
    place = parse_address(address)
    if tls is None and not place.is_local:  # the token, the keys and all read data would be readable on the network
        raise AccessRefusedError(
            f"{address} is not this machine, so TLS is needed: give the server's certificate as tls"
        )
    return Endpoint(place, Secret(reveal(token)), read_pem(tls, "tls") if tls else b"")


class Connection:
    """One attachment to a server; `is_over` once waiting for it has failed, and the error was raised.

    Args:
        endpoint: Server to connect to.
        hello: First message; the shared memory is filled in.
        watchdog: Monitors deadlines; it may serve several connections one after another.
        offers_memory: Whether to try shared memory for frames.
        answer_s: Longest wait for the server to accept the connection.
        open_s: Longest wait for the first answer, for which the server may start the game.

    Raises as `soulslab.siphon.rpc.client.connect`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        hello: m.Hello,
        watchdog: Watchdog,
        *,
        offers_memory: bool,
        answer_s: float,
        open_s: float,
    ) -> None:
        self._endpoint = endpoint
        self._watchdog = watchdog
        self._number = 0
        self.is_over = False
        self._late_s: float | None = None
        self.frames = FrameReceiver(offers_memory=offers_memory)
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = endpoint.open_channel()
        try:
            attach = self._channel.stream_stream(f"/{m.SERVICE}/Attach")
            self._call: Any = attach(iter(self._outbox.get, None), metadata=endpoint.metadata)
            self._outbox.put(encode(msgspec.structs.replace(hello, memory=self.frames.offer)))
            self._within(answer_s, self._call.initial_metadata)
            data = self._within(open_s, self._call.__next__)
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

    def ask(self, request: m.Request[R], *, wait_s: float, deadline_s: float) -> R:
        """Send a request, which the server may let wait for other clients for `wait_s`, and return its result.

        Raises:
            ServerUnavailableError: The connection is lost, or the answer was late; the stream is over.
            WireError: The request is too large or cannot be encoded, or the answer is malformed.
            SoulslabError: Error raised by the server.
        """
        self._number += 1
        try:
            data = encode(m.Call(self._number, wait_s, request))  # type: ignore[arg-type]  # one of `AnyRequest`
        except UNSENDABLE as error:
            raise WireError(f"this cannot be sent: {error}") from error
        if len(data) > m.MAX_REQUEST_BYTES:
            raise WireError(
                f"the request has {len(data)} bytes, and {m.MAX_REQUEST_BYTES} can be sent; send less at once"
            )
        self._outbox.put(data)
        answer = m.decode(_answers, self._within(deadline_s, self._call.__next__))
        if answer.failure is not None and answer.number in (self._number, m.UNREADABLE):
            raise from_failure(answer.failure)
        if answer.number != self._number:
            self._call.cancel()
            raise WireError("the server answers something else than we asked")
        result: R = m.decode(_results[type(request)], answer.result)
        return result

    def watch(self, watch: m.Watch) -> Iterator[m.Stepped]:
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

    def _within(self, seconds: float, wait: Callable[[], Any]) -> Any:
        """Wait for the server with a deadline."""
        self._watchdog.arm(seconds, lambda: self._give_up(seconds))
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

    def _give_up(self, limit_s: float) -> None:
        self._late_s = limit_s
        self._call.cancel()
