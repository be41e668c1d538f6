"""Access control of a server: token, user of a local client, and TLS."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import grpc

from soulslab.config import Secret, reveal
from soulslab.errors import AccessRefusedError, ConfigError, WireError
from soulslab.siphon.rpc.address import Address
from soulslab.siphon.rpc.error_mapping import abort
from soulslab.siphon.rpc.messages import SERVICE, TOKEN_KEY
from soulslab.siphon.rpc.peer_user import user_of_peer

#: Minimum number of characters of a token.
MIN_TOKEN = 16
#: Maximum number of calls that wait for their first message.
MAX_SILENT = 16


def bearer(token: str) -> str:
    """Return the metadata value that carries a token."""
    return f"Bearer {token}"


def make_token(address: Address, given: str | Secret, *, is_needed: bool) -> str:
    """Return the token of a server, random if none is given; "" if the server has none.

    Raises:
        ConfigError: The address needs a token, or a longer one.
    """
    if not is_needed:
        if not address.is_local:
            raise ConfigError(
                f"{address} can be reached from other machines, so a token is needed: allow it, or listen at 127.0.0.1",
                path="needs_token",
            )
        return ""
    token = reveal(given)
    if not token:
        return secrets.token_urlsafe(32)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("has to be of printable ASCII characters without spaces", path="token")
    if len(token) < MIN_TOKEN:
        raise ConfigError(
            f"has {len(token)} characters and needs {MIN_TOKEN} at least, or it can be guessed", path="token"
        )
    return token


def server_credentials(address: Address, certificate: Path | None, key: Path | None) -> grpc.ServerCredentials | None:
    """Return the TLS credentials of a server; None without TLS.

    Raises:
        ConfigError: A file is missing or cannot be read, or the address needs TLS.
    """
    if certificate is None and key is None:
        if not address.is_local:
            raise ConfigError(
                f"{address} can be reached from other machines, so TLS is needed: give a certificate and its key "
                f"(docs: Remote sessions), or listen at 127.0.0.1",
                path="tls_certificate",
            )
        return None
    if certificate is None or key is None:
        raise ConfigError("TLS needs both, a certificate and its key", path="tls_certificate" if key else "tls_key")
    pair = (read_pem(key, "tls_key"), read_pem(certificate, "tls_certificate"))
    return grpc.ssl_server_credentials([pair])


def read_pem(path: Path, setting: str) -> bytes:
    """Return the bytes of a PEM file.

    Raises:
        ConfigError: The file cannot be read, or is not a PEM file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", path=setting) from error
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{path} is not a PEM file", path=setting)
    return data


def shorten_metadata_errors() -> None:
    """Prevent gRPC from logging a traceback for each call whose metadata is not UTF-8; log one line instead."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if str(record.msg).startswith("Invalid encoding on"):
        record.msg, record.args = f"{record.getMessage():.200}", ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


class AccessCheck(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Refuses unauthorised calls before a thread waits for their first message.

    A call needs the token or, where no token is needed, must come from a process of the user who runs the server: every
    user of the machine can reach a loopback address. File permissions protect a Unix socket.

    Args:
        token: Required token; "" for none.

    Attributes:
        address: Address of the server with its port; set before the server starts.
    """

    address: Address

    def __init__(self, token: str) -> None:
        self._expected = bearer(token).encode() if token else b""
        self._silent = SilentCalls()

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """See `grpc.ServerInterceptor`."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        sent = dict(handler_call_details.invocation_metadata).get(TOKEN_KEY, "")
        sent = sent if isinstance(sent, bytes) else sent.encode()
        if self._expected and hmac.compare_digest(sent, self._expected):
            return self._guarded(handler, lambda _: None)
        # Clients of the public protocol have no tokens; on this machine their user is checked instead.
        needs_token = self._expected and handler_call_details.method.startswith(f"/{SERVICE}/")
        if needs_token or not self.address.is_local:
            return _refusal(
                f"the token is {'wrong' if sent else 'missing'}; the server shows the right one where it was started"
            )
        return self._guarded(handler, self._check_user)

    def _check_user(self, context: grpc.ServicerContext) -> None:
        """Refuse a call of another user."""
        if self.address.path:
            return
        try:
            user = user_of_peer(context.peer(), self.address)
        except OSError as error:
            problem = f"the system does not say which user calls ({error}); start the server at a Unix socket (unix:)"
        else:
            if user == os.geteuid():
                return
            who = f"of user {user}" if user is not None else "of another user"
            problem = f"the call is {who}, and the server serves user {os.geteuid()} only; send the server's token"
        abort(context, AccessRefusedError(problem))

    def _guarded(self, handler: Any, check: Callable[[grpc.ServicerContext], None]) -> grpc.RpcMethodHandler:
        """Return a handler that checks a call before its first message, and then delegates to another handler.

        It always takes a stream of messages: for a call with a single message, gRPC would assign a thread before the
        message arrives, and wait without a limit.
        """
        behaviour = next(
            one
            for one in (handler.unary_unary, handler.unary_stream, handler.stream_unary, handler.stream_stream)
            if one is not None
        )

        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            check(context)
            first = self._silent.first(requests, context)
            return behaviour(chain((first,), requests) if handler.request_streaming else first, context)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler)
        )
        return make(call, handler.request_deserializer, handler.response_serializer)


class SilentCalls:
    """Calls whose first message has not arrived yet.

    Each occupies a thread of the server, so their number is limited to `MAX_SILENT`; one more ends the call that has
    waited longest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[object, grpc.ServicerContext] = {}

    def first(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        """Return the first message of a call.

        Raises:
            Exception: Raised by `abort` if the call ends without a message.
        """
        key, oldest = object(), None
        with self._lock:
            if len(self._waiting) >= MAX_SILENT:
                oldest = self._waiting.pop(next(iter(self._waiting)))
            self._waiting[key] = context
        if oldest is not None:
            oldest.cancel()
        try:
            for message in requests:
                return message
        finally:
            with self._lock:
                self._waiting.pop(key, None)
        return abort(context, WireError("the call ended before its first message"))


def _refusal(problem: str) -> grpc.RpcMethodHandler:
    """Return a handler that refuses every call before any message arrives."""
    error = AccessRefusedError(problem)

    def refuse(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield abort(context, error)  # a generator, which gRPC requires for a stream

    return grpc.stream_stream_rpc_method_handler(refuse)
