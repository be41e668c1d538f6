"""How to reach the Redis server of a fleet: addresses, join files, connections, and the rights of each role."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.retry import Retry

from soulslab.config import dump_settings, load_settings
from soulslab.config.atomic_file import replace_file
from soulslab.errors import ConfigError, FleetError
from soulslab.learn.archive import writing

TIMEOUT_S: Final = 2.0
"""Longest wait for one answer of the server (s)."""

_SECURE_PORT: Final = 6379
_TAG: Final = Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")

_WRITE: Final = """#!lua flags=allow-oom
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"""

_REPLACE: Final = """#!lua flags=allow-oom
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1"""

_log = logging.getLogger(__name__)


class Access(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Contents of a join file: the address of a fleet and one credential, which can be revoked.

    Attributes:
        address: ``redis://host:port`` on this machine, or ``rediss://host:port`` with TLS.
        run: Name of the run in the keys of the server.
        user: User of the server; each join file has its own.
        password: Password of the user.
        ca: Certificate of the authority that signed the certificate of the server, as PEM; "" without TLS, or for an
            authority that this machine trusts already.
    """

    address: str
    run: Annotated[str, _TAG]
    user: Annotated[str, _TAG]
    password: Annotated[str, Meta(min_length=16, max_length=512)]
    ca: Annotated[str, Meta(max_length=65536)] = ""

    def __repr__(self) -> str:
        return f"Access({self.address}, {self.run}, {self.user})"

    def __post_init__(self) -> None:
        split_address(self.address)


class Keys:
    """Names of the keys of a run."""

    def __init__(self, run: str) -> None:
        self.root = f"soulslab:{run}:"
        self.steps_of_all = f"{self.root}steps:"
        self.leases_of_all = f"{self.root}lease:"
        self.public = f"{self.root}public:"
        self.description = f"{self.public}run"
        self.learner = f"{self.public}learner"
        self.control = f"{self.public}control"
        self.orders = f"{self.public}orders"
        self.weights_version = f"{self.public}weights_version"
        self.weights = f"{self.public}weights"
        self.candidate_version = f"{self.public}candidate_version"
        self.candidate = f"{self.public}candidate"
        self.log = f"{self.root}log"

    def steps(self, user: str, incarnation: str) -> str:
        """Return the key of the stream of one start of a game."""
        return f"{self.steps_of_all}{user}:{incarnation}"

    def lease(self, user: str, incarnation: str) -> str:
        """Return the key that a game renews while it runs."""
        return f"{self.leases_of_all}{user}:{incarnation}"


def split_address(address: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is used; raises ConfigError for an address that is refused.

    An address of another machine needs TLS, because the password and the steps would be readable on the network.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or _SECURE_PORT
    except ValueError as error:
        raise ConfigError(f"{address!r} is not an address: {error}", path="address") from error
    if parts.scheme not in ("redis", "rediss") or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(f"{address!r} is not redis://host:port or rediss://host:port", path="address")
    if parts.username or parts.password:
        raise ConfigError("holds a credential; write user and password to their own keys", path="address")
    if parts.scheme == "redis" and not is_loopback(host):
        raise ConfigError(
            f"{address} can be reached from other machines, so TLS is needed: use rediss://, or an address of this "
            "machine such as redis://127.0.0.1:6379",
            path="address",
        )
    return host, port, parts.scheme == "rediss"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def connect(access: Access, *, timeout_s: float = TIMEOUT_S) -> Redis:
    """Return a client, which connects with its first command and is used by one thread; it repeats nothing itself."""
    host, port, has_tls = split_address(access.address)
    return Redis(
        host=host,
        port=port,
        username=access.user,
        password=access.password,
        ssl=has_tls,
        ssl_ca_data=access.ca or None,
        ssl_check_hostname=has_tls,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


def write(client: Redis, command: str, key: str, *arguments: Any) -> None:
    """Run a command of the learner or an operator that writes a key, also if the memory of the server is full.

    A full server refuses the steps of games until the learner has removed older ones. Orders, weights and the status of
    the learner must reach it meanwhile. They are small, and replace earlier ones.
    """
    client.eval(_WRITE, 1, key, command, *arguments)


def replace_value(client: Redis, key: str, old: bytes | None, new: bytes) -> bool:
    """Set a key if it still has a value (None if it does not exist); return False if it has another one."""
    return bool(client.eval(_REPLACE, 1, key, old or b"", new))


@contextmanager
def server_errors(access: Access) -> Iterator[None]:
    """Raise FleetError for an error of the server, with the reason."""
    try:
        yield
    except (AuthenticationError, ResponseError) as error:
        problem = f"the Redis server of the fleet refuses a command of the user {access.user}: {error}"
        raise FleetError(access.address, problem) from error
    except RedisError as error:
        problem = f"the Redis server of the fleet does not answer ({error}); is soulslab fleet learn running?"
        raise FleetError(access.address, problem) from error


class ServerFailures:
    """Logs the first of several failures of the server, and the end of them.

    Args:
        address: Address of the server.
        effect: Effect of a failure, for the log.
    """

    def __init__(self, address: str, effect: str) -> None:
        self._address = address
        self._effect = effect
        self._shown = ""

    def begin(self, error: RedisError) -> None:
        """Log a failure, unless the last one was of the same kind."""
        if self._shown != type(error).__name__:
            _log.warning("the Redis server at %s: %s; %s", self._address, error, self._effect)
        self._shown = type(error).__name__

    def end(self) -> None:
        """Log that the server works again, if it has failed."""
        if self._shown:
            _log.info("the Redis server at %s works again", self._address)
        self._shown = ""


def refuse_open_server(access: Access) -> None:
    """Raise ConfigError if the server answers to clients without a password, FleetError if it cannot be reached."""
    host, port, has_tls = split_address(access.address)
    client = Redis(
        host=host,
        port=port,
        ssl=has_tls,
        ssl_ca_data=access.ca or None,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        client.ping()
    except AuthenticationError:
        return
    except RedisError as error:
        raise FleetError(access.address, f"cannot be reached: {error}; start the Redis server") from error
    finally:
        client.close()
    raise ConfigError(
        f"{access.address} answers without a password; set one in its configuration (requirepass, or an ACL)",
        path="address",
    )


def new_password() -> str:
    """Return a random password of 256 bits."""
    return secrets.token_urlsafe(32)


def password_hash(password: str) -> str:
    """Return the form in which a Redis server stores a password: SHA-256, which is safe for random passwords."""
    return hashlib.sha256(password.encode()).hexdigest()


def user_rules(run: str, user: str) -> list[str]:
    """Return the ACL rules of the games of one join file.

    They read what the learner publishes and write only their own streams and leases, so that no game can change the
    steps of another, the weights, or the orders.
    """
    keys = Keys(run)
    selectors = [
        f"(+xadd %W~{keys.steps(user, '*')})",
        f"(+set +pexpire +del %RW~{keys.lease(user, '*')})",
        f"(+get +mget +hget %R~{keys.public}*)",
    ]
    return ["resetkeys", "resetchannels", "-@all", "+ping", "+auth", "+hello", "+time", *selectors]


def read_access(path: Path) -> Access:
    """Read a join file; raises ConfigError if it is malformed, or if other users could read or change it."""
    if sys.platform != "win32":
        try:
            about = path.stat()
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", source=path) from error
        if about.st_uid not in (os.geteuid(), 0) or about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(
                f"holds a password, but other users may read it (mode {stat.S_IMODE(about.st_mode):o}); "
                f"run: chmod 600 {path}",
                source=path,
            )
    return load_settings(Access, path)


def write_access(path: Path, access: Access) -> None:
    """Write a join file that only this user can read, atomically."""
    write_private(path, dump_settings(access).encode())


def write_private(path: Path, data: bytes) -> None:
    """Write a file with the mode 600, atomically; raises CheckpointError if it cannot be written."""
    with writing(path):
        replace_file(path, data, mode=0o600)
