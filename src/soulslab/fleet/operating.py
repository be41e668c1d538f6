"""What operators do with a running fleet: read its status, and give orders to all of it."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final, Literal, TypeAlias

import msgspec
from redis import Redis
from redis.exceptions import ResponseError

from soulslab.errors import FleetError
from soulslab.fleet.access import Keys, connect, replace_value, server_errors, write
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import Control, LearnerStatus, Lease, read_leases
from soulslab.fleet.redis_server import JoinUser, remove_user, set_user
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME
from soulslab.learn.settings import REWARD_PATH, adjust_settings
from soulslab.learn.training import load_run_settings

_MAX_LOG: Final = 10_000
_N_SHOWN: Final = 100
"""Entries of the log in the status."""


Order: TypeAlias = Literal["run", "pause", "stop", "save"]
"""Order of an operator to a fleet."""


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An order, or a change of settings or credentials: what, by which user, and when (Unix time, s)."""

    what: str
    who: str
    at: float


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a fleet: its order, its learner (None if it does not run), and its games, by name.

    ``redis_mb`` is the memory of the Redis server, with the steps that no checkpoint holds yet (MB); None if the server
    refuses to report it. ``log`` has the newest orders, oldest first.
    """

    state: str
    learner: LearnerStatus | None
    games: tuple[Lease, ...]
    redis_mb: float | None
    log: tuple[LogEntry, ...] = ()


def read_status(folder: FleetFolder) -> FleetStatus:
    """Return the status of a fleet; raises FleetError if its server cannot be reached."""
    access = folder.admin()
    keys = Keys(access.run)
    with server_errors(access), closing(connect(access)) as client:
        control, learner = client.mget(keys.control, keys.learner)
        leases, _ = read_leases(client, access.run)
        log: Any = client.xrevrange(keys.log, count=_N_SHOWN)
        redis_mb = _memory_mb(client)
    return FleetStatus(
        state=msgspec.json.decode(control, type=Control).state if control else "run",
        learner=msgspec.json.decode(learner, type=LearnerStatus) if learner else None,
        games=tuple(sorted(leases.values(), key=lambda game: game.worker)),
        redis_mb=redis_mb,
        log=tuple(
            LogEntry(what=entry[b"what"].decode(), who=entry[b"who"].decode(), at=float(entry[b"at"]))
            for _, entry in reversed(log)
        ),
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
    """Change the order to a fleet; the function returns the new one and its description for the log.

    Raises FleetError if no learner runs: a learner that starts begins without orders.
    """
    access = folder.admin()
    keys = Keys(access.run)
    with server_errors(access), closing(connect(access)) as client:
        is_changed = False
        while not is_changed:  # another operator may change it at the same time
            found: Any = client.mget(keys.control, keys.learner)
            data, learner = found
            if learner is None:
                raise FleetError(access.address, "no learner runs that could follow an order; see soulslab fleet learn")
            control, what = change(msgspec.json.decode(data, type=Control) if data else Control())
            is_changed = replace_value(client, keys.control, data, msgspec.json.encode(control))
        _write_log(client, keys, what)


def invite(folder: FleetFolder, user: JoinUser) -> None:
    """Make the user of a new join file on the running server."""
    access = folder.admin()
    with server_errors(access), closing(connect(access)) as client:
        set_user(client, access.run, user)
        _write_log(client, Keys(access.run), f"invite {user.name}")


def revoke(folder: FleetFolder, user: str) -> None:
    """Remove the user of a join file, and end its connections; raises ConfigError if there is none."""
    folder.revoke(user)
    access = folder.admin()
    with server_errors(access), closing(connect(access)) as client:
        remove_user(client, user)
        _write_log(client, Keys(access.run), f"revoke {user}")


def _write_log(client: Redis, keys: Keys, what: str) -> None:
    entry = ("what", what, "who", f"{getpass.getuser()}@{socket.gethostname()}", "at", f"{time.time():.3f}")
    write(client, "XADD", keys.log, "MAXLEN", "~", _MAX_LOG, "*", *entry)
