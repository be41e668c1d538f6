"""Training a policy; the settings select the algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from gymnasium.vector import VectorEnv

from soulslab.learn.actors.transition_actor import ActorHandle
from soulslab.learn.algorithm import Algorithm
from soulslab.learn.players import start_from
from soulslab.learn.policy import Policy
from soulslab.learn.policy_header import Header
from soulslab.learn.ppo.ppo_algorithm import open_ppo
from soulslab.learn.ppo.remote_ppo import open_remote_ppo
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.run_folder import RunFolder, StopReason, TrainResult
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import Sink, close_all
from soulslab.learn.torch_device import one_core, select_device
from soulslab.learn.training_loop import RunControl, TrainingLoop


class Fleet(RunControl, Protocol):
    """Actors on other machines, and the requests of the people who operate them."""

    def open_actor(self, folder: RunFolder[Any], header: Header) -> ActorHandle:
        """Return the actors of a run, given the header of their policy."""


def train(
    settings: TrainSettings | RainbowSettings,
    run_dir: Path,
    *,
    resume: bool = False,
    env_options: Mapping[str, Any] | None = None,
    sinks: Sequence[Sink] = (),
    fleet: Fleet | None = None,
) -> TrainResult:
    """Train a policy, or resume a training run.

    SIGINT and SIGTERM end the run after the current iteration and save everything; a second SIGINT ends it at once.

    Args:
        settings: Settings of the run; their type selects the algorithm. A resumed run must have the settings with
            which it was started; of the table ``run`` only the seed must be the same.
        run_dir: Folder of the run; it is created if needed.
        resume: Whether to continue from the newest intact checkpoint. Each damaged checkpoint gives a warning.
        env_options: Options of the environment, merged over ``settings.env.options``. A Python function, such as a
            reward, must be passed here.
        sinks: Telemetry sinks; closed when training ends.
        fleet: Actors on other machines instead of environments in this process, or of those of ``run.actor``.

    Raises:
        CheckpointError: The folder holds a run and ``resume`` is False, or no run and it is True; or a file could not
            be written; or ``run.start_from`` does not name a matching policy.
        ConfigError: An option names a Python function that was not passed again, a setting names an unknown feature, or
            ``run.device`` is ``cuda`` without a GPU.
        EnvironmentUsageError: The environment does not support training.
        DemonstrationError: The recorded episodes belong to another environment, or are damaged.
        DivergedError, NonFinitePriorityError: The weights are not finite; policy and checkpoints are from before.
        ActorError: The remote actor failed too often.
        ChannelError: Another process trains in the folder.
        Exception: Any error of the environment, or NonFiniteError for NaN or infinity in its results; the state of the
            algorithm was saved before.
    """
    try:
        select_device(settings.run.device)  # reports a missing GPU before the environment is made
        folder: RunFolder[Any] = RunFolder(run_dir, settings, env_options, resume=resume, is_fleet=fleet is not None)
        with one_core(), closing(folder), closing(_open_algorithm(folder, fleet)) as algorithm:
            loop = TrainingLoop(folder, algorithm, sinks, control=fleet)
            loop.begin()
            return loop.run()
    finally:
        close_all(sinks)


def train_uninterrupted(
    settings: TrainSettings | RainbowSettings, run_dir: Path, *, resume: bool = False, sinks: Sequence[Sink] = ()
) -> TrainResult:
    """Train a policy as one part of a longer command, in which an incomplete run must not count as a result.

    The arguments and errors are those of :func:`train`. Raises KeyboardInterrupt if a signal or a request of the
    dashboard ended the run.
    """
    result = train(settings, run_dir, resume=resume, sinks=sinks)
    if result.reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _open_algorithm(folder: RunFolder[Any], fleet: Fleet | None) -> Algorithm:
    run = folder.settings.run

    def initialise(policy: Policy | QPolicy, env: VectorEnv[Any, Any, Any]) -> None:
        """Copy the weights of another policy if a new run is configured to."""
        if run.start_from and folder.checkpoint is None:
            start_from(policy, Path(run.start_from), env.metadata.get("policies_of", ()))

    if isinstance(folder.settings, TrainSettings):
        if fleet is not None:
            return open_remote_ppo(folder, initialise, fleet.open_actor)
        return open_ppo(folder, initialise)
    from soulslab.learn.rainbow.rainbow_algorithm import open_rainbow  # noqa: PLC0415  (compiles kernels)

    return open_rainbow(folder, initialise, fleet.open_actor if fleet is not None else None)
