"""What operators do with a running fleet: read its status, and give orders to all of it."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Literal, TypeAlias

import msgspec
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from soulslab.errors import FleetError
from soulslab.fleet.access import Keys, connect
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import Control, LearnerStatus, Lease
from soulslab.fleet.redis_server import Player, remove_player, set_player
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME
from soulslab.learn.settings import REWARD_PATH, adjust_settings
from soulslab.learn.training import load_run_settings

_MAX_LOG: int = 10_000


Order: TypeAlias = Literal["run", "pause", "stop", "save"]
"""Order of an operator to a fleet."""


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a fleet: its order, its learner (None if it does not run), and its games, by name.

    ``redis_mb`` is the memory of the Redis server, with the steps that no checkpoint holds yet (MB); None if the server
    refuses to report it.
    """

    state: str
    learner: LearnerStatus | None
    games: tuple[Lease, ...]
    redis_mb: float | None


def read_status(folder: FleetFolder) -> FleetStatus:
    """Return the status of a fleet; raises FleetError if its server cannot be reached."""
    access = folder.admin()
    keys = Keys(access.run)
    with closing(connect(access)) as client:
        try:
            control, learner = client.mget(keys.control, keys.learner)
            names = list(client.scan_iter(match=f"{keys.leases_of_all}*", count=1000))
            leases = client.mget(names) if names else []
            redis_mb = _memory_mb(client)
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
        redis_mb=redis_mb,
    )


def _memory_mb(client: Redis) -> float | None:
    """Return the memory of the server (MB); None if its rules or its settings refuse the command INFO."""
    try:
        return float(client.info("memory")["used_memory"]) / 1e6
    except ResponseError:
        return None


def give_order(folder: FleetFolder, order: Order) -> None:
    """Give an order to a fleet and log it with user and time; raises FleetError if its server cannot be reached."""

    def change(control: Control) -> tuple[Control, str]:
        if order == "save":
            return msgspec.structs.replace(control, n_saves=control.n_saves + 1), order
        return msgspec.structs.replace(control, state=order), order

    _change_control(folder, change)


def change_settings(folder: FleetFolder, changes: Mapping[str, Any]) -> str:
    """Change settings of a learner that trains, by path, and log it with user, time, new and old values.

    Returns a sentence about the effect. Raises ConfigError for settings that cannot change or have a wrong value,
    CheckpointError if no checkpoint of the run is intact, FleetError if the server of the fleet cannot be reached.
    """
    folder.admin()  # reports a folder without a fleet
    settings = load_run_settings(folder.run_dir / CONFIG_NAME)
    adjust_settings(settings, changes)
    store = CheckpointStore(folder.run_dir / CHECKPOINTS_NAME, settings.run.keep_checkpoints)
    saved = store.latest().header.get("changes", {}) if store.paths() else {}

    def change(control: Control) -> tuple[Control, str]:
        old = msgspec.to_builtins(adjust_settings(settings, {**saved, **control.changes}))
        parts = [f"{path}={value} (was {_value_at(old, path)})" for path, value in changes.items()]
        changed = msgspec.structs.replace(control, changes={**control.changes, **changes})
        return changed, f"set {' '.join(parts)}"

    _change_control(folder, change)
    effect = "the learner changes the settings and saves them with the run"
    if any(path.startswith(REWARD_PATH) for path in changes):
        effect += "; each game uses the new weights from its next episode on"
        if isinstance(settings, RainbowSettings):
            effect += ", and earlier steps keep their rewards in the replay buffer"
    return effect


def _value_at(table: Any, path: str) -> Any:
    """Return the value of nested tables at a path such as ``learner.lr``."""
    for name in path.split("."):
        table = table[name]
    return table


def _change_control(folder: FleetFolder, change: Callable[[Control], tuple[Control, str]]) -> None:
    """Change the order to a fleet; the function returns the new one and its description for the log."""
    access = folder.admin()
    keys = Keys(access.run)
    with closing(connect(access)) as client:
        try:
            data = client.get(keys.control)
            control, what = change(msgspec.json.decode(data, type=Control) if data else Control())
            client.set(keys.control, msgspec.json.encode(control))
            _write_log(client, keys, what)
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
