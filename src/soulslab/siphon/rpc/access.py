"""Who may call a server: the token, compared in constant time, and TLS."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from soulslab.errors import AccessRefusedError, ConfigError
from soulslab.siphon.rpc.address import Address
from soulslab.siphon.rpc.failures import abort
from soulslab.siphon.rpc.messages import SERVICE, TOKEN_KEY

#: A token for others than this machine has at least so many characters.
MIN_TOKEN = 16


def bearer(token: str) -> str:
    """Return the metadata value that carries a token."""
    return f"Bearer {token}"


def make_token(address: Address, token: str, *, is_needed: bool) -> str:
    """Return the token of a server, a random one where none is given; "" if it has none.

    Raises:
        ConfigError: The address needs a token, or a better one.
    """
    if not is_needed:
        if not address.is_local:
            raise ConfigError(
                f"{address} can be reached from other machines, so a token is needed: allow it, or listen at 127.0.0.1",
                path="needs_token",
            )
        return ""
    if not token:
        return secrets.token_urlsafe(32)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("has to be of printable ASCII characters without spaces", path="token")
    if not address.is_local and len(token) < MIN_TOKEN:
        raise ConfigError(
            f"has {len(token)} characters; {address} can be reached from other machines, so it needs {MIN_TOKEN}",
            path="token",
        )
    return token


def server_credentials(address: Address, certificate: Path | None, key: Path | None) -> grpc.ServerCredentials | None:
    """Return what a server proves itself with; None without TLS.

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
        ConfigError: It cannot be read, or is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", path=setting) from error
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{path} is no PEM file", path=setting)
    return data


class TokenCheck(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Refuses calls without the token.

    Args:
        token: It.
        covers_all: Whether other services than ours need it, too.
    """

    def __init__(self, token: str, *, covers_all: bool) -> None:
        self._expected = bearer(token).encode()
        self._covers_all = covers_all

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """See `grpc.ServerInterceptor`."""
        handler = continuation(handler_call_details)
        is_ours = handler_call_details.method.startswith(f"/{SERVICE}/")
        if handler is None or not (is_ours or self._covers_all):
            return handler
        sent = dict(handler_call_details.invocation_metadata).get(TOKEN_KEY, "")
        sent = sent if isinstance(sent, bytes) else sent.encode()
        if hmac.compare_digest(sent, self._expected):
            return handler
        return _refusal_like(handler, "wrong" if sent else "missing")


def _refusal_like(handler: Any, what: str) -> grpc.RpcMethodHandler:
    """Return a handler of the same kind that refuses."""
    error = AccessRefusedError(f"the token is {what}; the server shows the right one where it was started")

    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        abort(context, error)

    def refuse_stream(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield abort(context, error)  # a generator, as gRPC wants for a stream

    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse_stream)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler(refuse)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse_stream)
    return grpc.unary_unary_rpc_method_handler(refuse)
