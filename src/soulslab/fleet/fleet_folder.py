"""The folder of a fleet, ``fleet`` in the folder of its run: credentials, and the data of its Redis server."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from soulslab.config import dump_settings, load_settings
from soulslab.errors import ConfigError
from soulslab.fleet.access import Access, new_password, password_hash, read_access, write_access, write_private
from soulslab.fleet.redis_server import Player, free_port
from soulslab.learn.archive import writing

FLEET_NAME: Final = "fleet"
JOIN_NAME: Final = "join.toml"

_ADMIN: Final = "admin"
_ADMIN_NAME: Final = "admin.toml"
_PLAYERS_NAME: Final = "players.toml"
_LOOPBACK: Final = "127.0.0.1"


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a fleet.

    Attributes:
        max_memory_mb: Memory of the Redis server for steps that no checkpoint holds yet (MB); about 300 bytes per step
            of the built-in fight.
        epsilon_alpha: Spread of the shares of random actions over the games, as in Ape-X: game i acts with
            ``epsilon ** (1 + epsilon_alpha * x)``, with x in 0..1; 0 gives all games the same share.
    """

    max_memory_mb: Annotated[int, Meta(ge=16, le=1 << 20)] = 1024
    epsilon_alpha: Annotated[float, Meta(ge=0.0, le=100.0)] = 7.0


class _Players(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    players: tuple[Player, ...] = ()


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
        path = self.path / _ADMIN_NAME
        if not path.exists():
            raise ConfigError("has no fleet; start one with: soulslab fleet learn", source=self.run_dir)
        return read_access(path)

    def make(self, given: Access | None) -> Access:
        """Return the credential of the learner; the first call makes it, for a new server or a given one."""
        path = self.path / _ADMIN_NAME
        with writing(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if given is None and path.exists():
            return read_access(path)
        if given is None:
            address = f"redis://{_LOOPBACK}:{free_port(_LOOPBACK)}"
            given = Access(address=address, run=_new_run(), user=_ADMIN, password=new_password())
        write_access(path, given)
        return given

    def players(self) -> tuple[Player, ...]:
        """Return the users of the join files."""
        path = self.path / _PLAYERS_NAME
        return load_settings(_Players, path).players if path.exists() else ()

    def invite(self, join_path: Path) -> Player:
        """Write a join file with a new credential, and return its user."""
        admin = self.admin()
        players, password = self.players(), new_password()
        player = Player(f"play-{secrets.token_hex(4)}", password_hash(password))
        self._write_players((*players, player))
        write_access(join_path, msgspec.structs.replace(admin, user=player.user, password=password))
        return player

    def revoke(self, user: str) -> None:
        """Forget the credential of a join file; raises ConfigError if there is none of this user."""
        players = self.players()
        if user not in {player.user for player in players}:
            known = ", ".join(player.user for player in players) or "none"
            raise ConfigError(f"{user!r} is not a user of this fleet (users: {known})", source=self.run_dir)
        self._write_players(tuple(player for player in players if player.user != user))

    def _write_players(self, players: tuple[Player, ...]) -> None:
        write_private(self.path / _PLAYERS_NAME, dump_settings(_Players(players)).encode())


def _new_run() -> str:
    return f"run-{secrets.token_hex(6)}"
