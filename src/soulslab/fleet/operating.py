"""What operators do with a running fleet: read its status, and give orders to all of it."""

from __future__ import annotations

import getpass
import socket
import time
from contextlib import closing
from typing import Literal, TypeAlias

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from soulslab.errors import FleetError
from soulslab.fleet.access import Keys, connect
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import Control, LearnerStatus, Lease
from soulslab.fleet.redis_server import Player, remove_player, set_player

_MAX_LOG: int = 10_000


Order: TypeAlias = Literal["run", "pause", "stop", "save"]
"""Order of an operator to a fleet."""


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a fleet: its order, its learner (None if it does not run), and its games, by name."""

    state: str
    learner: LearnerStatus | None
    games: tuple[Lease, ...]


def read_status(folder: FleetFolder) -> FleetStatus:
    """Return the status of a fleet; raises FleetError if its server cannot be reached."""
    access = folder.admin()
    keys = Keys(access.run)
    with closing(connect(access)) as client:
        try:
            control, learner = client.mget(keys.control, keys.learner)
            names = list(client.scan_iter(match=f"{keys.leases_of_all}*", count=1000))
            leases = client.mget(names) if names else []
        except RedisError as error:
            raise _unreachable(access.address, error) from error
    games = []
    for data in leases:
        try:
            games.append(msgspec.json.decode(data or b"", type=Lease))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue  # expired meanwhile, or malformed
    return FleetStatus(
        state=msgspec.json.decode(control, type=Control).state if control else "run",
        learner=msgspec.json.decode(learner, type=LearnerStatus) if learner else None,
        games=tuple(sorted(games, key=lambda game: game.worker)),
    )


def give_order(folder: FleetFolder, order: Order) -> None:
    """Give an order to a fleet and log it with user and time; raises FleetError if its server cannot be reached."""
    access = folder.admin()
    keys = Keys(access.run)
    with closing(connect(access)) as client:
        try:
            data = client.get(keys.control)
            control = msgspec.json.decode(data, type=Control) if data else Control()
            if order == "save":
                control = msgspec.structs.replace(control, n_saves=control.n_saves + 1)
            else:
                control = msgspec.structs.replace(control, state=order)
            client.set(keys.control, msgspec.json.encode(control))
            _write_log(client, keys, order)
        except RedisError as error:
            raise _unreachable(access.address, error) from error


def invite(folder: FleetFolder, player: Player) -> None:
    """Make the user of a new join file on the running server."""
    access = folder.admin()
    with closing(connect(access)) as client:
        try:
            set_player(client, access.run, player)
            _write_log(client, Keys(access.run), f"invite {player.user}")
        except RedisError as error:
            raise _unreachable(access.address, error) from error


def revoke(folder: FleetFolder, user: str) -> None:
    """Remove the user of a join file, and end its connections; raises ConfigError if there is none."""
    folder.revoke(user)
    access = folder.admin()
    with closing(connect(access)) as client:
        try:
            remove_player(client, user)
            _write_log(client, Keys(access.run), f"revoke {user}")
        except RedisError as error:
            raise _unreachable(access.address, error) from error


def _write_log(client: Redis, keys: Keys, what: str) -> None:
    entry = {"what": what, "who": f"{getpass.getuser()}@{socket.gethostname()}", "at": f"{time.time():.3f}"}
    client.xadd(keys.log, entry, maxlen=_MAX_LOG)  # type: ignore[arg-type]  # its type is invariant


def _unreachable(address: str, error: RedisError) -> FleetError:
    return FleetError(
        address, f"the Redis server of the fleet does not answer ({error}); is soulslab fleet learn running?"
    )
