"""The folder of a fleet, ``fleet`` in the folder of its run: credentials, and the data of its Redis server."""

from __future__ import annotations

import ipaddress
import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from soulslab.config import dump_settings, load_settings
from soulslab.errors import ConfigError
from soulslab.fleet.access import (
    Access,
    new_password,
    password_hash,
    read_access,
    split_address,
    write_access,
    write_private,
)
from soulslab.fleet.certificates import server_certificates
from soulslab.fleet.defaults import EPSILON_ALPHA, MAX_MEMORY_MB
from soulslab.fleet.redis_server import Certificates, JoinUser, free_port
from soulslab.learn.archive import writing

FLEET_NAME: Final = "fleet"
JOIN_NAME: Final = "join.toml"

_ADMIN: Final = "admin"
_ADMIN_NAME: Final = "admin.toml"
_GIVEN_NAME: Final = "given.toml"
"""Credential for a server that was given, in place of `_ADMIN_NAME`, so that a resumed learner starts none."""
_USERS_NAME: Final = "players.toml"
_LOOPBACK: Final = "127.0.0.1"


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a fleet.

    Attributes:
        listen: ``host:port`` at which other machines reach the Redis server that the learner starts, with TLS; "" is an
            address of this machine alone.
        max_memory_mb: Memory of the Redis server for steps that no checkpoint holds yet (MB); about 320 bytes per step
            of the built-in fight.
        epsilon_alpha: Spread of the shares of random actions over the games, as in Ape-X: game i acts with
            ``epsilon ** (1 + epsilon_alpha * x)``, with x in 0..1; 0 gives all games the same share.
    """

    listen: str = ""
    max_memory_mb: Annotated[int, Meta(ge=16, le=1 << 20)] = MAX_MEMORY_MB
    epsilon_alpha: Annotated[float, Meta(ge=0.0, le=100.0)] = EPSILON_ALPHA


class _Users(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"users": "players"}):
    users: tuple[JoinUser, ...] = ()


class FleetFolder:
    """Files of a fleet, which only this user can read.

    Attributes:
        path: The folder.
        run_dir: The folder of the run.
    """

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.path = run_dir / FLEET_NAME

    @property
    def redis_path(self) -> Path:
        """Folder of the data of the Redis server."""
        return self.path / "redis"

    def admin(self) -> Access:
        """Return the credential of the learner; raises ConfigError if the run has no fleet."""
        found = self.given() or self._own()
        if found is None:
            raise ConfigError("has no fleet; start one with: soulslab fleet learn", source=self.run_dir)
        return found

    def given(self) -> Access | None:
        """Return the credential of the learner for a server that was given; None if the learner starts its own."""
        path = self.path / _GIVEN_NAME
        return read_access(path) if path.exists() else None

    def _own(self) -> Access | None:
        path = self.path / _ADMIN_NAME
        return read_access(path) if path.exists() else None

    def make(self, given: Access | None = None, listen: str = "") -> Access:
        """Return the credential of the learner; the first call makes it, for a new server or a given one.

        ``listen`` is ``host:port`` of a new server, with TLS; "" is an address of this machine alone. A later call
        without both arguments returns the same credential. Raises ConfigError for another server or address than that
        in the join files, and for an address that means all addresses of this machine, because no other machine could
        use it.
        """
        if listen:
            _refuse_unspecified(listen)
        with writing(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stored, own = self.given(), self._own()
        known = stored or own
        wanted = given.address if given is not None else f"rediss://{listen}" if listen else ""
        has_other_run = given is not None and known is not None and given.run != known.run
        if known is not None and self.users() and ((wanted and wanted != known.address) or has_other_run):
            raise ConfigError(
                f"is not the server in the join files of this run, {known.address} (run {known.run}); leave it out, or "
                f"remove {self.path} and start the games with the new join file",
                source=f"--redis {given.address} (run {given.run})" if given is not None else f"--listen {listen}",
            )
        if given is not None:
            write_access(self.path / _GIVEN_NAME, given)
            return given
        if known is None:
            known = self._new_access(listen)
            write_access(self.path / _ADMIN_NAME, known)
        return known

    def certificates(self, access: Access) -> Certificates | None:
        """Return the certificates of the server that a learner starts; None without TLS."""
        host, _, has_tls = split_address(access.address)
        return server_certificates(self.path.resolve() / "tls", host) if has_tls else None

    def users(self) -> tuple[JoinUser, ...]:
        """Return the users of the join files."""
        path = self.path / _USERS_NAME
        return load_settings(_Users, path).users if path.exists() else ()

    def invite(self, join_path: Path) -> JoinUser:
        """Write a join file with a new credential, and return its user."""
        admin = self.admin()
        users, password = self.users(), new_password()
        user = JoinUser(f"play-{secrets.token_hex(4)}", password_hash(password))
        self._write_users((*users, user))
        write_access(join_path, msgspec.structs.replace(admin, user=user.name, password=password))
        return user

    def revoke(self, user: str) -> None:
        """Forget the credential of a join file; raises ConfigError if this user has no join file."""
        users = self.users()
        if user not in {each.name for each in users}:
            known = ", ".join(each.name for each in users) or "none"
            raise ConfigError(f"{user!r} is not a user of this fleet (users: {known})", source=self.run_dir)
        self._write_users(tuple(each for each in users if each.name != user))

    def _new_access(self, listen: str) -> Access:
        address = f"rediss://{listen}" if listen else f"redis://{_LOOPBACK}:{free_port(_LOOPBACK)}"
        access = Access(address=address, run=_new_run(), user=_ADMIN, password=new_password())
        certificates = self.certificates(access)
        return msgspec.structs.replace(access, ca=certificates.ca.read_text()) if certificates is not None else access

    def _write_users(self, users: tuple[JoinUser, ...]) -> None:
        write_private(self.path / _USERS_NAME, dump_settings(_Users(users)).encode())


def _refuse_unspecified(listen: str) -> None:
    host, port, _ = split_address(f"rediss://{listen}")
    try:
        is_refused = ipaddress.ip_address(host).is_unspecified
    except ValueError:  # a name
        is_refused = host == "*"
    if is_refused:
        raise ConfigError(
            f"{host} means all addresses of this machine, but games need one that they can reach, and so does the "
            f"certificate; name it, as 192.168.1.5:{port}",
            source=f"--listen {listen}",
        )


def _new_run() -> str:
    return f"run-{secrets.token_hex(6)}"
