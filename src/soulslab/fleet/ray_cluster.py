"""A fleet on a Ray cluster: the learner and the games of several machines, started and restarted by Ray.

Ray only places and restarts processes. Steps and weights travel over Redis, as in a fleet that is started by hand.
"""

from __future__ import annotations

import logging
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from soulslab.config.input_files import read_text
from soulslab.errors import ConfigError, FleetError, SoulslabError, cut, optional_imports
from soulslab.fleet.access import write_private
from soulslab.fleet.fleet_folder import JOIN_NAME, FleetFolder, FleetSettings
from soulslab.fleet.operating import give_order, read_status
from soulslab.fleet.playing import STOP_DEADLINE_S, PlaySettings, play
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.configs import config_path
from soulslab.learn.run_folder import CHECKPOINTS_NAME, CONFIG_NAME, TrainResult
from soulslab.learn.sinks import run_sinks
from soulslab.learn.stop_request import StopRequest
from soulslab.learn.training import AnySettings, load_new_run_settings, load_run_settings
from soulslab.learn.untrusted import check_stored_settings

with optional_imports():
    import ray
    import yaml
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

GAME: Final = "souls_game"
"""Custom resource of the machines of a cluster that have a game: the number of games that they can play at a time."""

_NICENESS: Final = "RAY_worker_niceness"
"""Environment variable of Ray: what each actor adds to the nice value that it inherits from its node."""

_POLL_S: Final = 0.5
_END_S: Final = STOP_DEADLINE_S + 10.0
"""Time in which the actors that play end after the learner (s); before they end, they remove their temporary files."""
_MAX_BYTES: Final = 16 << 10
"""Size of a file that PyYAML reads within 2 s, whatever is in it."""
_DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that PyYAML raises for malformed values, beside its own."""
_SHOWN_ERROR_CHARACTERS: Final = 1000
_RESTARTED: Final = {"max_restarts": -1, "max_task_retries": -1}

_log = logging.getLogger(__name__)


class WorkerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Actors of Ray that play, all with the same settings.

    Attributes:
        count: Number of actors.
        games: Games of each actor; each has its own process.
        envs: Environments in each process; more than 1 only for simulators.
        evaluate: Whether the games evaluate.
        cpus: Processor cores that Ray reserves for each actor.
        souls_game: Units of the resource ``souls_game`` that each actor needs; 0 for simulators, which run on any
            machine.
        options: Options of the environment that only the machine may determine, such as its launch.
    """

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    games: Annotated[int, Meta(ge=1, le=1024)] = 1
    envs: Annotated[int, Meta(ge=1, le=1024)] = 1
    evaluate: bool = False
    cpus: Annotated[float, Meta(ge=0.0)] = 1.0
    souls_game: Annotated[float, Meta(ge=0.0)] = 0.0
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.evaluate and self.envs > 1:
            raise ValueError("envs must be 1 with evaluate; use games for more evaluation fights at a time")


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fleet on a cluster.

    Attributes:
        config: Config of the run: a TOML file, or the name of a shipped config.
        run_dir: Folder of the run on this machine, on which the learner runs.
        overrides: Changed settings of the run, as ``learner.lr=1e-4``.
        address: Address of the cluster, as ``auto`` or ``192.168.1.5:6379``; "" starts one on this machine.
        listen: Address at which the other machines reach the Redis server, as ``192.168.1.5:6390``; "" if there are
            none.
        games: Units of the resource ``souls_game`` of a cluster that is started on this machine.
        workers: The actors that play.
    """

    config: str = "rainbow.toml"
    run_dir: str
    overrides: tuple[str, ...] = ()
    address: str = ""
    listen: str = ""
    games: Annotated[float, Meta(ge=0.0)] = 0.0
    workers: Annotated[tuple[WorkerSettings, ...], Meta(min_length=1)]


def read_cluster(path: Path) -> ClusterSettings:
    """Read a YAML file; raises ConfigError for an unknown setting or a value out of range."""
    fail = partial(ConfigError, source=path)
    text = read_text(path, fail, _MAX_BYTES)
    try:
        return msgspec.convert(yaml.load(text, _Loader), ClusterSettings)  # noqa: S506  (a safe loader)
    except (yaml.YAMLError, msgspec.ValidationError, *_DAMAGE) as error:
        raise fail(cut(str(error), _SHOWN_ERROR_CHARACTERS)) from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no type hints
    """A loader without aliases, of which a small file can make gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("has an alias (*name), which is not supported; repeat the value")
        return super().compose_node(parent, index)


class _Learner:
    """The learner; Ray starts it again after a failure, and it resumes the run."""

    def learn(self, data: bytes, working_dir: str) -> TrainResult:
        """Train until the run is complete; the settings of the cluster are JSON, with paths relative to a folder."""
        os.chdir(working_dir)  # an actor starts in the folder in which the cluster was started
        # Imported here, because the driver and the actors that start games do not need torch, which takes a second.
        from soulslab.fleet.learning import learn  # noqa: PLC0415

        cluster = msgspec.json.decode(data, type=ClusterSettings)
        run_dir = Path(cluster.run_dir)
        is_resumed, settings = _run_settings(cluster)
        return learn(
            settings,
            run_dir,
            fleet=FleetSettings(listen=cluster.listen),
            resume=is_resumed,
            sinks=run_sinks(run_dir, settings.sinks),
        )


class _Worker:
    """The games of an actor; Ray starts them again on the same or another machine after a failure."""

    def play(self, join: bytes, data: bytes) -> tuple[int, str]:
        """Play until the fleet ends, with a join file and, as JSON, the settings of the games.

        Return the number of games that gave up, and the reason if it was all of them. See `playing.play`.
        """
        settings = msgspec.json.decode(data, type=PlaySettings)
        with tempfile.TemporaryDirectory(prefix="soulslab-ray-") as folder:
            path = Path(folder) / JOIN_NAME
            write_private(path, join)
            try:
                return play(path, settings), ""
            except SoulslabError as error:  # Ray could not send it
                return settings.n_games, str(error)


def _run_settings(cluster: ClusterSettings) -> tuple[bool, AnySettings]:
    """Return whether the run of a cluster exists already, and its settings.

    Raises ConfigError for wrong settings, UntrustedFileError if the folder of a run names another environment than the
    config, with options that only a trusted file may contain.
    """
    given = load_new_run_settings(config_path(cluster.config), cluster.overrides)
    run_dir = Path(cluster.run_dir)
    if not CheckpointStore(run_dir / CHECKPOINTS_NAME, given.run.keep_checkpoints).paths():
        return False, given
    stored = load_run_settings(run_dir / CONFIG_NAME, cluster.overrides)
    if stored.env != given.env:
        check_stored_settings(stored, run_dir / CONFIG_NAME, cluster.overrides)
    return True, stored


def up(settings: ClusterSettings) -> TrainResult:
    """Start the learner on this machine and the games on the cluster, and wait until the run is complete.

    After SIGINT or SIGTERM, the run is saved and everything ends. A run that exists is resumed.

    Raises ConfigError for wrong settings of the run, FleetError if the cluster cannot be reached, the learner failed,
    or all games gave up.
    """
    settings = msgspec.structs.replace(
        settings,
        config=str(config_path(settings.config).resolve()),
        run_dir=str(Path(settings.run_dir).resolve()),
    )
    _run_settings(settings)  # reports errors before anything starts
    folder = FleetFolder(Path(settings.run_dir))
    folder.make(listen=settings.listen)
    if not folder.users():
        folder.invite(folder.run_dir / JOIN_NAME)
    _connect(settings)
    try:
        return _run(settings, folder)
    finally:
        ray.shutdown()


def _connect(settings: ClusterSettings) -> None:
    """Connect to the cluster, or start one on this machine; raises FleetError.

    The actors of a cluster that is started here have the priority of this process. Ray's default is a nice value of 15,
    with which a busy machine starves games in real time, and a learner needs minutes to start. A value in the
    environment is kept. The processes that `ray.init` starts inherit the variable.
    """
    if not settings.address:
        os.environ.setdefault(_NICENESS, "0")
    own = {
        "address": "local",
        "include_dashboard": False,
        "resources": {GAME: settings.games} if settings.games else None,
    }
    try:
        ray.init(**({"address": settings.address} if settings.address else own), logging_level=logging.WARNING)
    except Exception as error:  # Ray raises a plain Exception if a node does not start in time
        raise FleetError(settings.address or "ray", f"the cluster cannot be reached: {error}") from error


def _run(settings: ClusterSettings, folder: FleetFolder) -> TrainResult:
    """Start all actors, and wait for the learner."""
    _report_missing(settings)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    learner = ray.remote(_Learner).options(**_RESTARTED, num_cpus=1, scheduling_strategy=here).remote()
    result = learner.learn.remote(msgspec.json.encode(settings), str(Path.cwd()))
    join = (folder.run_dir / JOIN_NAME).read_bytes()
    names = [(worker, f"worker-{i}-{j}") for i, worker in enumerate(settings.workers) for j in range(worker.count)]
    playing = {name: _start_worker(worker, name, join) for worker, name in names}
    _log.info("%d actors play for the learner in %s", len(playing), folder.run_dir)
    reasons: list[str] = []
    with StopRequest() as request:
        while not ray.wait([result], timeout=_POLL_S)[0]:
            reasons += _failures(playing)
            if request.signal_name or len(reasons) == len(names):
                _ask_to_stop(folder)
        try:
            found: TrainResult = ray.get(result)
        except ray.exceptions.RayError as error:
            raise FleetError(str(folder.run_dir), f"the learner failed: {error}") from error
        if len(reasons) == len(names):
            raise FleetError(str(folder.run_dir), f"all games gave up, and the run is saved: {reasons[0]}")
        _wait_for_end(playing)
    return found


def _wait_for_end(playing: dict[str, _Playing]) -> None:
    """Wait until the workers have ended, because Ray kills those that still run."""
    # A worker that was never placed on a machine does not end.
    placed = [actor.result for actor in playing.values() if ray.wait([actor.ready], timeout=0)[0]]
    if placed and (left := ray.wait(placed, num_returns=len(placed), timeout=_END_S)[1]):
        names = [name for name, actor in playing.items() if actor.result in left]
        _log.warning("%s did not end in %g s and may leave temporary files", ", ".join(names), _END_S)


def _report_missing(settings: ClusterSettings) -> None:
    """Log which resources the cluster does not have; Ray starts the actors that need them once it has."""
    workers, there = settings.workers, ray.cluster_resources()
    needed = {
        "CPU": 1.0 + sum(worker.count * worker.cpus for worker in workers),
        GAME: sum(worker.count * worker.souls_game for worker in workers),
    }
    for name, n in needed.items():
        if n > there.get(name, 0.0):
            _log.warning(
                "the actors need %g %s, but the cluster has %g; some wait until machines with more join",
                n,
                name,
                there.get(name, 0.0),
            )


def _failures(playing: dict[str, _Playing]) -> list[str]:
    """Remove the workers that have ended from a dictionary, and return why the games of some of them gave up."""
    reasons = []
    for name in list(playing):
        result = playing[name].result
        if not ray.wait([result], timeout=0)[0]:
            continue
        del playing[name]
        try:
            n_given_up, reason = ray.get(result)
        except ray.exceptions.RayError as error:
            n_given_up, reason = 0, str(error)
        if n_given_up and not reason:
            _log.error("%d games of %s gave up; the log of the actor has the reasons", n_given_up, name)
        if reason:
            _log.error("%s does not play: %s", name, reason)
            reasons.append(reason)
    return reasons


def _ask_to_stop(folder: FleetFolder) -> None:
    """Ask the learner to save and to end, unless it was asked; a learner that starts later forgets the request."""
    try:
        if read_status(folder).state != "stop":
            give_order(folder, "stop")
    except FleetError as error:
        _log.debug("the learner is not there yet, or has ended: %s", error)


class _Playing(NamedTuple):
    """An actor that plays; Ray ends an actor without references.

    ``ready`` is completed once it is placed on a machine, and ``result`` once it has ended.
    """

    actor: Any
    ready: Any
    result: Any


def _start_worker(worker: WorkerSettings, name: str, join: bytes) -> _Playing:
    """Start an actor that plays."""
    settings = PlaySettings(
        n_games=worker.games,
        n_envs=worker.envs,
        name=name,
        role="evaluating" if worker.evaluate else "exploring",
        options=worker.options,
    )
    resources = {GAME: worker.souls_game} if worker.souls_game else {}
    actor = ray.remote(_Worker).options(**_RESTARTED, num_cpus=worker.cpus, resources=resources).remote()
    return _Playing(actor, actor.__ray_ready__.remote(), actor.play.remote(join, msgspec.json.encode(settings)))
