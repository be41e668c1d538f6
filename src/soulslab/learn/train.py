"""A training run: from settings to a policy, with checkpoints, telemetry and orderly stops.

A run lives in one folder::

    config.toml                the resolved settings
    policy.safetensors         the newest policy, usable alone
    checkpoints/               the newest few, each with everything that continuing needs

A run that was stopped and resumed gives, bit for bit, the tensors of one that was not, if the machine is the
same and the environment can be saved (``get_state``); any other environment starts fresh episodes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from gymnasium.vector import VectorEnv

from soulslab.errors import CheckpointError, DivergedError
from soulslab.learn.archive import Tensors
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.collect import Collector
from soulslab.learn.environment import TRAINING, environment_seed, make_vector, sizes, stateful
from soulslab.learn.interrupt import StopRequest
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo import PPO
from soulslab.learn.provenance import git_commit
from soulslab.learn.runs import (
    POLICY_NAME,
    Duration,
    RunFolder,
    StopReason,
    TrainResult,
    check_same_run,
    continuing_from,
    part,
)
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import (
    CheckpointSaved,
    Sink,
    TrainFinished,
    TrainProgress,
    TrainStarted,
    close_all,
    tell,
)
from soulslab.learn.threads import one_core
from soulslab.learn.tracker import MILESTONES, Milestone
from soulslab.version import VERSION

_log = logging.getLogger(__name__)


def train(
    settings: TrainSettings,
    run_dir: Path,
    *,
    resume: bool = False,
    env_options: Mapping[str, Any] | None = None,
    sinks: Sequence[Sink] = (),
) -> TrainResult:
    """Train a policy, or go on training it.

    SIGINT and SIGTERM end the run after the update under way, with everything saved; a second SIGINT ends it
    at once.

    Args:
        settings: Everything that defines the run. A resumed run must have the settings it was started with; of
            ``run`` only the seed.
        run_dir: Folder of the run; made if needed.
        resume: Go on from the folder's newest whole checkpoint.
        env_options: Merged over ``settings.env.options``; the way to pass a Python function, such as a
            reward.
        sinks: Who listens; closed at the end.

    Returns:
        What the run came to.

    Raises:
        CheckpointError: The folder holds a run already and ``resume`` is False, or holds none and it is True,
            or something could not be written.
        ConfigError: An option names a Python function that was not passed again.
        EnvironmentUsageError: The environment cannot be trained on.
        NonFiniteError: The environment gave NaN or infinity.
        DivergedError: The learner has diverged; policy and checkpoints are those from before.
        ChannelError: Another process learns in the folder.
        Exception: Whatever the environment raises, as where its game is gone; the learner was saved before.
    """
    try:
        folder = RunFolder(run_dir, settings, env_options, resume=resume)
        with (
            one_core(),
            closing(folder),
            closing(make_vector(settings.env.id, settings.env.n_envs, folder.options)) as env,
        ):
            run = _Run(folder, env, sinks)
            run.begin()
            return run.run()
    finally:
        close_all(sinks)


class _Clock(NamedTuple):
    """When this part of the run began, and the training time before it (s)."""

    started: float
    before: float

    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        folder: RunFolder[TrainSettings],
        env: VectorEnv[Any, Any, Any],
        sinks: Sequence[Sink],
    ) -> None:
        self._folder = folder
        self._settings = settings = folder.settings
        self._env = env
        self._sinks = sinks
        generator = torch.Generator().manual_seed(settings.run.seed)
        n_envs, n_features, n_actions, pixels, names = sizes(env)
        header = PolicyHeader(
            env_id=settings.env.id,
            env_options=settings.env.options,
            n_features=n_features,
            n_actions=n_actions,
            pixels=pixels,
            frame_stack=settings.env.frame_stack,
            network=settings.network,
            soulslab=VERSION,
            commit=git_commit(),
            n_envs=n_envs,
            feature_names=names,
        )
        self._policy = Policy(header, generator)
        self._learner = PPO(settings.learner, self._policy, n_envs, generator)
        self._collector = Collector(env, settings.learner.gamma, settings.env.frame_stack)
        self._milestones: tuple[Milestone, ...] = ()
        self._clock = _Clock(time.monotonic(), 0.0)
        self._saved_at_s = 0.0
        self._is_resumed = False

    def begin(self) -> None:
        """Stand at the beginning, or where a checkpoint was written."""
        if self._folder.checkpoint is None:
            self._collector.reset(environment_seed(self._settings.run.seed, TRAINING))
        else:
            with continuing_from(self._folder.checkpoint.path):
                self._restore(self._folder.checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        check_same_run(checkpoint, self._settings)
        tensors, header = checkpoint.tensors, checkpoint.header
        self._policy.load_state(part(tensors, "policy"), checkpoint.path)
        self._learner.load(part(tensors, "learner"))
        self._collector.load(part(tensors, "collector"))
        self._milestones = msgspec.convert(header["milestones"], tuple[Milestone, ...])
        self._saved_at_s = msgspec.convert(header["train_seconds"], Duration)
        self._clock = _Clock(time.monotonic(), self._saved_at_s)
        self._is_resumed = True
        env_state, base = part(tensors, "env"), stateful(self._env)
        # Gymnasium wants a reset before anything else; the saved state then replaces all of it.
        seed = environment_seed(self._settings.run.seed + self._collector.env_steps, TRAINING)
        if env_state and base is not None:
            self._env.reset(seed=seed)
            base.set_state(env_state)
        else:
            _log.info("%s: no environment state is stored; fresh episodes start", checkpoint.path)
            self._collector.reset(seed)

    def run(self) -> TrainResult:
        """Iterate until there is a reason to stop."""
        self._folder.begin()
        tell(
            self._sinks,
            TrainStarted(
                env_id=self._settings.env.id,
                total_steps=self._settings.run.total_steps,
                env_steps=self._collector.env_steps,
                seed=self._settings.run.seed,
                is_resumed=self._is_resumed,
            ),
        )
        with StopRequest() as request:
            while (reason := self._reason_to_stop(request)) is None:
                try:
                    self._iterate()
                except Exception as error:
                    # The rollout is lost and its environments are not to be trusted, but what was learned is kept.
                    # Where nothing can be written, or nothing but NaN was learned, the last checkpoint stands.
                    if not isinstance(error, CheckpointError | DivergedError):
                        self._save(with_env=False)
                    raise
                if self._clock.seconds() - self._saved_at_s >= self._settings.run.checkpoint_every_s:
                    self._save()
            self._save()
            if reason is StopReason.INTERRUPTED:
                _log.info("%s: the run is saved and can be resumed", request.signal_name)
        return self._finish(reason)

    def _iterate(self) -> None:
        steps_before, seconds_before = self._collector.env_steps, self._clock.seconds()
        progress = min(1.0, steps_before / self._settings.run.total_steps)
        stats = self._learner.iterate(self._collector, progress)
        seconds, tracker = self._clock.seconds(), self._collector.tracker
        self._note_milestones(seconds)
        tell(self._sinks, stats)
        tell(
            self._sinks,
            TrainProgress(
                env_steps=self._collector.env_steps,
                total_steps=self._settings.run.total_steps,
                seconds=seconds,
                steps_per_second=(self._collector.env_steps - steps_before) / (seconds - seconds_before),
                n_fights=tracker.n_episodes,
                win_rate=tracker.win_rate,
                mean_return=tracker.mean_return,
                mean_decisions=tracker.mean_decisions,
            ),
        )

    def _note_milestones(self, seconds: float) -> None:
        tracker = self._collector.tracker
        if not tracker.is_full or tracker.win_rate is None:
            return
        for level in MILESTONES[len(self._milestones) :]:
            if tracker.win_rate >= level:
                self._milestones += (Milestone(level, self._collector.env_steps, seconds),)

    def _reason_to_stop(self, request: StopRequest) -> StopReason | None:
        run, tracker = self._settings.run, self._collector.tracker
        if request.signal_name:
            return StopReason.INTERRUPTED
        if self._collector.env_steps >= run.total_steps:
            return StopReason.COMPLETED
        if tracker.is_full and tracker.win_rate is not None and tracker.win_rate > run.stop_win_rate:
            return StopReason.WIN_RATE
        if self._clock.seconds() >= run.max_seconds:
            return StopReason.TIME
        return None

    def _save(self, *, with_env: bool = True) -> None:
        """Write a checkpoint and the policy."""
        seconds, env_steps = self._clock.seconds(), self._collector.env_steps
        base = stateful(self._env) if with_env else None
        tensors: Tensors = {}
        for name, each in (
            ("policy", self._policy.state()),
            ("learner", self._learner.state()),
            ("collector", self._collector.state()),
            ("env", {} if base is None else base.get_state()),
        ):
            tensors |= {f"{name}/{key}": array for key, array in each.items()}
        self._policy.header = msgspec.structs.replace(self._policy.header, env_steps=env_steps)
        header = {
            "settings": msgspec.to_builtins(self._settings),
            "policy": msgspec.to_builtins(self._policy.header),
            "milestones": msgspec.to_builtins(self._milestones),
            "train_seconds": seconds,
            "soulslab": VERSION,
            "commit": self._policy.header.commit,
        }
        path = self._folder.store.save(env_steps, tensors, header)
        self._policy.save(self._folder.path / POLICY_NAME)
        self._saved_at_s = self._clock.seconds()
        tell(self._sinks, CheckpointSaved(env_steps=env_steps, path=str(path)))

    def _finish(self, reason: StopReason) -> TrainResult:
        seconds, tracker = self._clock.seconds(), self._collector.tracker
        env_steps = self._collector.env_steps
        tell(self._sinks, TrainFinished(env_steps=env_steps, seconds=seconds, reason=reason.value))
        return TrainResult(
            reason=reason,
            env_steps=env_steps,
            train_seconds=seconds,
            n_fights=tracker.n_episodes,
            win_rate=tracker.win_rate,
            mean_return=tracker.mean_return,
            milestones=self._milestones,
            policy_path=self._folder.path / POLICY_NAME,
        )
