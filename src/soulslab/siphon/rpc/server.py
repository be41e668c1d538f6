"""A server that offers one game to clients on this or other machines."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import msgspec

from soulslab.closing import Closing
from soulslab.config import Secret, reveal
from soulslab.errors import ConfigError
from soulslab.siphon.rpc.access import AccessCheck, make_token, server_credentials, shorten_metadata_errors
from soulslab.siphon.rpc.address import Address, parse_address
from soulslab.siphon.rpc.messages import MAX_ANSWER_BYTES, MAX_REQUEST_BYTES
from soulslab.siphon.rpc.served_game import Clients, ServedGame
from soulslab.siphon.rpc.session_service import SessionService
from soulslab.siphon.session import Session

#: Maximum number of simultaneous calls, including streams; further calls are refused instead of queued.
MAX_CALLS = 64
METADATA_BYTES = 1 << 20
#: Their sum limits the time until a dead client machine is noticed.
KEEPALIVE_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 10_000
#: Time limit for the handshake (TLS, HTTP/2) of a connection.
HANDSHAKE_TIMEOUT_MS = 5_000

_log = logging.getLogger(__name__)


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a server.

    Attributes:
        address: ``host:port`` or ``unix:/path``; port 0 for any free port. An address that other machines can reach
            needs a token and TLS.
        token: Token of the clients, at least 16 characters; "" for a random one.
        needs_token: Whether a token is required; if not, all programs of the same user on this machine may connect.
        tls_certificate: PEM file with the certificate.
        tls_key: PEM file with the key.
        max_clients: Maximum number of attached clients.
        lease_s: A client that controls the game and has sent no request for this long loses control to the next client
            that requests it.
        closes_with_clients: Close the game when the last client leaves, and open it again for the next client; only for
            a server that opens the session itself.
        allow_raw_writes: Let clients write numbers at any address of the game (`Session.write_number`), not only the
            writable attributes of the profile. This permits them to run code as the user who runs the game.
        extra_handlers: Creates further services on the same session. On local addresses they need no token; their
            clients must be programs of the same user.
    """

    address: str = "127.0.0.1:0"
    token: str | Secret = ""
    needs_token: bool = True
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    max_clients: int = 16
    lease_s: float = 300.0
    closes_with_clients: bool = False
    allow_raw_writes: bool = False
    extra_handlers: Callable[[Session], Sequence[grpc.GenericRpcHandler]] | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "token", Secret(reveal(self.token)))


class RunningServer(Closing):
    """A running server; `address` has the actual port, and `token` is empty for none."""

    def __init__(
        self, server: grpc.Server, pool: ThreadPoolExecutor, game: ServedGame, address: Address, token: str
    ) -> None:
        self.address = str(address)
        self.token = Secret(token)
        self._server = server
        self._pool = pool
        self._game = game
        self._path = address.path
        self._is_stopped = False

    @property
    def n_clients(self) -> int:
        """Number of attached clients."""
        return len(self._game.clients)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until another thread stops the server; return whether the time ran out first."""
        return bool(self._server.wait_for_termination(seconds))

    def stop(self, grace_s: float = 5.0) -> None:
        """End all calls within `grace_s`, release all keys, and close a session that the server opened."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._game.close(grace_s)
        self._server.stop(None).wait()
        self._pool.shutdown()
        self._game.close_session()
        if self._path:
            Path(self._path).unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the server, as `stop` with its default grace period."""
        self.stop()


def serve(source: Session | Callable[[], Session], options: ServerOptions | None = None) -> RunningServer:
    """Start a server.

    Args:
        source: Session to serve, which the owner closes after the server; or a function that opens one when the first
            client arrives, which the server closes.
        options: Options of the server.

    Raises:
        ConfigError: The address cannot be bound, or needs a token or TLS.
        SiphonError: The session is needed at once, for `extra_handlers`, and cannot be opened.
    """
    options = options or ServerOptions()
    address, token, credentials = check_access(options)
    if options.closes_with_clients and (not callable(source) or options.extra_handlers):
        raise ConfigError(
            "the server can only close a session that it opens itself, and that no other service uses",
            path="closes_with_clients",
        )
    game = ServedGame(
        source, Clients(options.lease_s, options.max_clients), closes_with_clients=options.closes_with_clients
    )
    pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="soulslab-rpc")
    check = AccessCheck(token)
    server = grpc.server(pool, interceptors=[check], options=_channel_options(), maximum_concurrent_rpcs=MAX_CALLS)
    server.add_generic_rpc_handlers((SessionService(game, allow_raw_writes=options.allow_raw_writes).handler(),))
    try:
        if options.extra_handlers is not None:
            with game.use(0.0) as session:
                server.add_generic_rpc_handlers(tuple(options.extra_handlers(session)))
        check.address = address = _listen(server, address, credentials)
    except BaseException:
        pool.shutdown()
        game.close_session()
        raise
    shorten_metadata_errors()
    server.start()
    _log.info("serving at %s%s", address, "" if token else ", without a token")
    return RunningServer(server, pool, game, address, token)


def check_access(options: ServerOptions) -> tuple[Address, str, grpc.ServerCredentials | None]:
    """Return address, token ("" for none) and TLS credentials, before a game starts. Raises `ConfigError`."""
    address = parse_address(options.address)
    token = make_token(address, options.token, is_needed=options.needs_token)
    return address, token, server_credentials(address, options.tls_certificate, options.tls_key)


def _channel_options() -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_metadata_size", METADATA_BYTES),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        # Interval at which clients may send keep-alive pings.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        # Otherwise a second server on the same port would silently receive every other client.
        ("grpc.so_reuseport", 0),
    ]


def _listen(server: grpc.Server, address: Address, credentials: grpc.ServerCredentials | None) -> Address:
    """Bind the address; return it with the actual port."""
    if address.path:
        _refuse_used_socket(address.path)
    try:
        with ExitStack() as undo:
            if address.path:  # only this user can open the socket from the start
                undo.callback(os.umask, os.umask(0o177))
            target = str(address)
            port = server.add_secure_port(target, credentials) if credentials else server.add_insecure_port(target)
    except RuntimeError:  # its text only names a variable that makes gRPC print more
        port = 0
    if not port:
        reasons = "another program uses it, or this machine does not have it"
        if credentials:
            reasons += ", or the TLS key does not belong to the certificate"
        raise ConfigError(
            f"cannot listen at {address}: {reasons}; choose another port, or 0 for a free one", path="address"
        )
    if address.path:
        return address
    return msgspec.structs.replace(address, port=port)


def _refuse_used_socket(path: str) -> None:
    """Raise `ConfigError` if the path of a Unix socket is used by a server or another file; gRPC would replace it."""
    place = Path(path)
    try:
        if not stat.S_ISSOCK(place.lstat().st_mode):
            raise ConfigError(f"{path} exists and is not a socket; choose another path", path="address")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:  # left over from a killed server
            return
    raise ConfigError(f"another server listens at {path}; stop it, or choose another path", path="address")
