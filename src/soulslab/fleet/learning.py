"""Training with a fleet: the Redis server, the join file, and the orders of operators to the run."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from soulslab.config.shell_words import shell_word
from soulslab.errors import ConfigError
from soulslab.fleet.access import Access, Keys, connect, refuse_open_server, server_errors, write
from soulslab.fleet.fleet_actor import FleetActor
from soulslab.fleet.fleet_folder import JOIN_NAME, FleetFolder, FleetSettings
from soulslab.fleet.messages import Control, LearnerStatus, read_leases
from soulslab.fleet.redis_server import RedisServer, set_user
from soulslab.learn.algorithm import Algorithm
from soulslab.learn.policy_header import Header
from soulslab.learn.run_folder import RunFolder, StopReason, TrainResult
from soulslab.learn.telemetry import Sink
from soulslab.learn.train import train
from soulslab.learn.training import AnySettings
from soulslab.learn.training_loop import FinishedEvaluation

DRAIN_S: Final = 15.0
"""Time that games get to end after the run is complete (s)."""

_POLL_S: Final = 0.1
_WATCH_S: Final = 0.2

_DEFAULTS: Final = FleetSettings()

_log = logging.getLogger(__name__)


class FleetRun:
    """The part of a run that trains with a fleet: its actors and the orders of operators (`train.Fleet`)."""

    def __init__(self, access: Access, settings: FleetSettings) -> None:
        self._access = access
        self._settings = settings
        self._actor: FleetActor | None = None
        self._n_saves: int | None = None

    def open_actor(self, folder: RunFolder[AnySettings], header: Header) -> FleetActor:
        """Return the actors of a run; see `train.Fleet`."""
        self._actor = FleetActor(self._access, folder, header, self._settings.epsilon_alpha)
        return self._actor

    def is_stop_requested(self) -> bool:
        """Return whether an operator asked the run to end."""
        return self._actor is not None and self._actor.control.state == "stop"

    def takes_save_request(self) -> bool:
        """Return whether an operator asked for a checkpoint since the last call."""
        if self._actor is None:
            return False
        before, self._n_saves = self._n_saves, self._actor.control.n_saves
        return before is not None and self._n_saves > before

    def changed_settings(self) -> Mapping[str, float]:
        """Return the settings that operators have changed, by path."""
        return self._actor.control.changes if self._actor is not None else {}

    def take_evaluation(self, algorithm: Algorithm) -> FinishedEvaluation | None:
        """Return an evaluation that the games have completed since the last call; see `FleetActor.evaluate`."""
        return self._actor.evaluate(algorithm) if self._actor is not None else None

    def note_restarts(self, n_restarts: int) -> None:
        """Record the restarts of the Redis server, for the status of the learner."""
        if self._actor is not None:
            self._actor.n_restarts_of_redis = n_restarts


def learn(
    settings: AnySettings,
    run_dir: Path,
    *,
    redis: Access | None = None,
    fleet: FleetSettings = _DEFAULTS,
    resume: bool = False,
    sinks: Sequence[Sink] = (),
) -> TrainResult:
    """Train with a fleet: start the Redis server unless one is given, write the join file, and learn.

    After SIGINT or SIGTERM the run is saved and the games wait for its return; when it is complete, they end.

    Args:
        settings: Settings of the run; their type selects the algorithm.
        run_dir: Folder of the run; its join file is ``join.toml``.
        redis: Administrator's access to a server that already runs; a resumed run has that of its first start.
        fleet: Settings of the fleet.
        resume: Whether to continue from the newest checkpoint, of a fleet or of one process.
        sinks: Telemetry sinks; closed when training ends.

    Raises:
        ConfigError: The given server accepts clients without a password, or removes data if its memory is full.
        FleetError: The server does not start or cannot be reached.
        SoulslabError: See `soulslab.learn.train.train`.
    """
    if not resume:  # a refused folder gets no credentials
        RunFolder(run_dir, settings, is_fleet=True).close()
    folder = FleetFolder(run_dir)
    access = folder.make(redis, fleet.listen)
    is_given = folder.given() is not None
    if is_given:
        _check_server(access)  # before a join file names it
    if not folder.users():
        folder.invite(run_dir / JOIN_NAME)
    run = FleetRun(access, fleet)
    with ExitStack() as parts:
        if not is_given:
            server = RedisServer(
                folder.redis_path,
                access,
                max_memory_mb=fleet.max_memory_mb,
                certificates=folder.certificates(access),
            )
            server.start(folder.users())
            parts.callback(server.close)
            parts.enter_context(closing(_Watcher(lambda: _watch_server(server, folder, run))))
            refuse_open_server(access)
        client = parts.enter_context(closing(connect(access)))
        parts.callback(_remove_status, client, access.run)
        with server_errors(access):
            if is_given:
                _set_users(client, folder, access.run)
                watched = parts.enter_context(closing(connect(access)))
                parts.enter_context(closing(_Watcher(lambda: _restore_users(watched, folder, access.run))))
            write(client, "SET", Keys(access.run).control, msgspec.json.encode(Control()))
        _log.info("games join with: soulslab fleet play %s", shell_word(run_dir / JOIN_NAME))
        result = train(settings, run_dir, resume=resume, sinks=sinks, fleet=run)
        if result.reason is not StopReason.INTERRUPTED:
            _end_games(client, access.run)
    return result


class _Watcher:
    """A thread that looks after the Redis server."""

    def __init__(self, look_after: Callable[[], None]) -> None:
        self._look_after = look_after
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="soulslab-fleet-redis", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._is_closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_closing.wait(_WATCH_S):
            self._look_after()


def _watch_server(server: RedisServer, folder: FleetFolder, run: FleetRun) -> None:
    """Restart the server of the learner if it has ended."""
    server.watch(folder.users())
    run.note_restarts(server.n_restarts)


def _restore_users(client: Redis, folder: FleetFolder, run: str) -> None:
    """Make the users that a given server has lost, for example because it was restarted without a file of users."""
    with suppress(RedisError):  # the transport reports a server that does not answer
        known: Any = client.acl_users()  # before the files, so that a user who is revoked meanwhile is not made again
        for user in folder.users():
            if user.name not in known:
                set_user(client, run, user)
                _log.warning("the server had lost the user %s, and has it again", user.name)


def _check_server(access: Access) -> None:
    """Check a server that was given; raises ConfigError if it needs no password, or may remove data."""
    refuse_open_server(access)
    with closing(connect(access)) as client, server_errors(access):
        _check_settings(client, access.address)


def _check_settings(client: Redis, address: str) -> None:
    """Raise ConfigError if a given server removes data if its memory is full; warn if a crash can lose data."""
    try:
        found = client.config_get("maxmemory-policy", "appendonly", "appendfsync")
    except ResponseError as error:
        _log.warning("the settings of %s cannot be checked: %s", address, error)
        return
    policy = found.get("maxmemory-policy")
    if policy != "noeviction":
        raise ConfigError(
            f"{address} has maxmemory-policy {policy}, so it may remove steps; set maxmemory-policy noeviction",
            path="address",
        )
    if (found.get("appendonly"), found.get("appendfsync")) != ("yes", "always"):
        _log.warning(
            "%s can lose acknowledged steps in a crash: it has appendonly %s and appendfsync %s; set appendonly yes "
            "and appendfsync always",
            address,
            found.get("appendonly"),
            found.get("appendfsync"),
        )


def _set_users(client: Redis, folder: FleetFolder, run: str) -> None:
    """Make the users of the join files on a server that was given."""
    for user in folder.users():
        set_user(client, run, user)


def _remove_status(client: Redis, run: str) -> None:
    """Remove the status of this learner, which has ended, but not that of another one, which prevented its start."""
    with suppress(RedisError, msgspec.MsgspecError):  # then it expires
        found = client.get(Keys(run).learner)
        status = msgspec.json.decode(found, type=LearnerStatus) if found is not None else None
        if status is not None and (status.pid, status.host) == (os.getpid(), socket.gethostname()):
            client.delete(Keys(run).learner)


def _end_games(client: Redis, run: str) -> None:
    """Ask all games to end, and wait until they have."""
    keys = Keys(run)
    deadline = time.monotonic() + DRAIN_S
    try:
        write(client, "SET", keys.control, msgspec.json.encode(Control(state="stop")))
        while read_leases(client, run)[0]:
            if time.monotonic() > deadline:
                _log.warning("some games have not ended within %.0f s", DRAIN_S)
                return
            time.sleep(_POLL_S)
    except RedisError as error:
        _log.warning("the games could not be asked to end: %s", error)
