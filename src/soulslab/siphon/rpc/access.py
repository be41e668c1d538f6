"""Access control of a server: token, user of a local client (Linux, ``sock_diag(7)``), and TLS."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import grpc

from soulslab.config import Secret, reveal
from soulslab.errors import AccessRefusedError, ConfigError, WireError
from soulslab.siphon.rpc import windows_peer
from soulslab.siphon.rpc.address import Address
from soulslab.siphon.rpc.error_mapping import abort
from soulslab.siphon.rpc.messages import SERVICE, TOKEN_KEY

#: From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and netinet/tcp.h.
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
TCP_ESTABLISHED = 1
ANY_STATE = ANY_COOKIE = 0xFFFFFFFF

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port id
_REQUEST = struct.Struct("=BBBBI")  # inet_diag_req_v2: family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")  # inet_diag_sockid: source and destination port; the addresses follow
_REST = struct.Struct("=III")  # inet_diag_sockid: interface, cookie
_ANSWER_SIZE = 72  # inet_diag_msg
_STATE_AT, _USER_AT = 1, 64
_RECEIVE_BYTES = 8192


def address_of_peer(peer: str) -> tuple[str, int]:
    """Return the IP address and port from gRPC's notation, ``ipv4:127.0.0.1:5000`` or ``ipv6:%5B::1%5D:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return plain_host(host.strip("[]")), int(port) if port.isdecimal() else 0


def plain_host(host: str) -> str:
    """Return an IP address without its zone; an IPv4-mapped IPv6 address becomes IPv4."""
    return host.partition("%")[0].removeprefix("::ffff:")


def own_user() -> int | str:
    """Return the user of this process: its number, or its security identifier on Windows. Raises `OSError`."""
    return windows_peer.own_user() if sys.platform == "win32" else os.geteuid()


def user_of_peer(peer: str, server: Address) -> int | str | None:
    """Return the user of a client (`peer` of gRPC) at a loopback address; None if unknown. Raises `OSError`."""
    host, port = address_of_peer(peer)
    if sys.platform == "win32":
        return windows_peer.user_of_client(host, port, server.port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server_host = server.host
    if server_host == "localhost":
        server_host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    # Of the two sockets of the connection, the one of the client.
    sought = _PORTS.pack(port, server.port) + _packed(family, host) + _packed(family, server_host)
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + sought + _REST.pack(0, ANY_COOKIE, ANY_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + body)
        answer = kernel.recv(_RECEIVE_BYTES)
    found = answer[_HEADER.size :]
    if _HEADER.unpack_from(answer)[1] != SOCK_DIAG_BY_FAMILY or len(found) < _ANSWER_SIZE:
        return None
    # The kernel reports user 0 for a socket that its process has closed.
    if found[_STATE_AT] != TCP_ESTABLISHED:
        return None
    user: int = struct.unpack_from("=I", found, _USER_AT)[0]
    return user


def _packed(family: socket.AddressFamily, host: str) -> bytes:
    return socket.inet_pton(family, host).ljust(16, b"\0")


#: Minimum number of characters of a token.
MIN_TOKEN = 16
#: Maximum number of calls that wait for their first message.
MAX_SILENT = 16


def bearer(token: str) -> str:
    """Return the metadata value that carries a token."""
    return f"Bearer {token}"


def make_token(address: Address, given: str | Secret, *, is_needed: bool) -> str:
    """Return the given or a random token; "" if none is needed. Raises `ConfigError` if the address needs another."""
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
    """Return the TLS credentials; None without TLS. Raises `ConfigError` for a bad file or if TLS is needed."""
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
    """Return the bytes of a PEM file. Raises `ConfigError`."""
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

    A call needs the `token` or, where no token is needed ("" for none), must come from a process of the user who runs
    the server: every user of the machine can reach a loopback address. File permissions protect a Unix socket.
    `address` is that of the server with its port; set before the server starts.
    """

    address: Address

    def __init__(self, token: str) -> None:
        self._expected = bearer(token).encode() if token else b""
        self._silent = LimitedCalls(MAX_SILENT)

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
                f"the token is {'wrong' if sent else 'missing'}; the server prints the right one where it was started, "
                "or reads it from its --token-file"
            )
        return self._guarded(handler, self._check_user)

    def _check_user(self, context: grpc.ServicerContext) -> None:
        """Refuse a call of another user."""
        if self.address.path:
            return
        try:
            user, own = user_of_peer(context.peer(), self.address), own_user()
        except OSError as error:
            problem = f"the system does not say which user calls ({error}); start the server at a Unix socket (unix:)"
        else:
            if user == own:
                return
            who = f"of user {user}" if user is not None else "of another user"
            problem = f"the call is {who}, and the server serves user {own} only; send the server's token"
        abort(context, AccessRefusedError(problem))

    def _guarded(self, handler: Any, check: Callable[[grpc.ServicerContext], None]) -> grpc.RpcMethodHandler:
        """Return a handler that checks a call before its first message, and then delegates to another one.

        It takes a stream: for a single message, gRPC would assign a thread before it arrives, and wait without a limit.
        """
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            check(context)
            with self._silent.entered(context):
                first = next(requests, None)
            if first is None:
                abort(context, WireError("the call ended before its first message"))
            return behaviour(chain((first,), requests) if handler.request_streaming else first, context)

        answers = "stream" if handler.response_streaming else "unary"
        make = getattr(grpc, f"stream_{answers}_rpc_method_handler")
        return make(call, handler.request_deserializer, handler.response_serializer)


class LimitedCalls:
    """Calls that each occupy a thread of the server; one more than the limit ends the call that is idle longest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        #: The call that is idle longest comes first.
        self._open: dict[object, grpc.ServicerContext] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def entered(self, context: grpc.ServicerContext) -> Iterator[Callable[[], None]]:
        """Count a call while the block runs; the yielded function marks the call as active now."""
        key, oldest = object(), None

        def mark_active() -> None:
            with self._lock:
                self._open.pop(key, None)
                self._open[key] = context

        with self._lock:
            if len(self._open) >= self._limit:
                oldest = self._open.pop(next(iter(self._open)))
        mark_active()
        if oldest is not None:
            oldest.cancel()
        try:
            yield mark_active
        finally:
            with self._lock:
                self._open.pop(key, None)


def _refusal(problem: str) -> grpc.RpcMethodHandler:
    """Return a handler that refuses every call before any message arrives."""
    error = AccessRefusedError(problem)

    def refuse(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield abort(context, error)  # a generator, which gRPC requires for a stream

    return grpc.stream_stream_rpc_method_handler(refuse)


#: Environment variable with the token, for clients that are given neither a token nor a file.
TOKEN_VARIABLE: Final = "SOULSLAB_TOKEN"  # noqa: S105  (the name of the variable, not a token)
_MAX_BYTES: Final = 4096


def find_token(token: Secret | None = None, file: Path | str | None = None) -> Secret:
    """Return the token, that in the file, that in ``SOULSLAB_TOKEN``, or an empty secret. Raises as `read_token`."""
    if token:
        return token
    if file:
        return read_token(Path(file))
    return Secret(os.environ.get(TOKEN_VARIABLE, ""))


def read_token(file: Path) -> Secret:
    """Return the token in a file. Raises `ConfigError` if it is too short, or another user may know or change it."""
    try:
        with file.open("rb") as stream:
            _check_owner(file, os.fstat(stream.fileno()))
            token = stream.read(_MAX_BYTES).decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot be read: {reason}; give the token file of the server, or a copy of it", source=file
        ) from error
    if len(token) < MIN_TOKEN:
        raise ConfigError(
            f"holds a token of {len(token)} characters, and {MIN_TOKEN} are needed; remove it, and the server writes "
            f"a token into it",
            source=file,
        )
    return Secret(token)


def read_or_make_token(file: Path) -> Secret:
    """Return the token in a file; if there is none, write a new token into it, for this user only.

    Raises `ConfigError` if the file cannot be read or written, or another user may know or change it.
    """
    token = secrets.token_urlsafe(32)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as stream:
            stream.write(f"{token}\n")
    except FileExistsError:
        return read_token(file)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", source=file) from error
    return Secret(token)


def _check_owner(file: Path, about: os.stat_result) -> None:
    """Raise `ConfigError` if another user could have chosen the token in a file."""
    if not stat.S_ISREG(about.st_mode):
        raise ConfigError("is not a regular file", source=file)
    if sys.platform == "win32":
        return
    if about.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"belongs to user {about.st_uid}, who knows the token; use a file of your own", source=file)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"may be written by other users (mode {stat.S_IMODE(about.st_mode):o}), who may have chosen the token: "
            f"make a new one, in a file with the mode 600",
            source=file,
        )
