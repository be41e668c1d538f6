"""A Rainbow run: from settings to a policy, with checkpoints, evaluations, telemetry and orderly stops.

A run lives in one folder::

    config.toml                the resolved settings
    policy.safetensors         the newest policy, usable alone
    checkpoints/               the newest few, each with everything that continuing needs but the replay buffer
    replay/                    the replay buffer, in chunks that the checkpoints name

A run that was stopped and resumed gives, bit for bit, the tensors of one that was not, if the machine is the same, the
actor plays here and the environment can be saved (``get_state``); any other environment starts fresh episodes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from soulslab.errors import CheckpointError, CorruptCheckpointError, NonFinitePriorityError
from soulslab.learn.archive import Tensors, check_shapes
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.interrupt import StopRequest
from soulslab.learn.rainbow.actor import step_shape
from soulslab.learn.rainbow.channel import Weights
from soulslab.learn.rainbow.demonstration_learning import DemonstrationLearning
from soulslab.learn.rainbow.episodes import EpisodeWindow
from soulslab.learn.rainbow.learner import Learner
from soulslab.learn.rainbow.meter import LearningMeter
from soulslab.learn.rainbow.opening import Opened, open_run
from soulslab.learn.rainbow.settings import RainbowSettings
from soulslab.learn.randomness import load_rng, rng_state
from soulslab.learn.replay.buffer import ReplayBuffer
from soulslab.learn.replay.elements import Outcome
from soulslab.learn.replay.store import ReplayStore
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
from soulslab.learn.telemetry import (
    CheckpointSaved,
    Evaluated,
    LearningStats,
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

REPLAY_NAME: Final = "replay"
TELL_EVERY_S: Final = 1.0
MOST_UPDATES_AT_ONCE: Final = 64
"""Whoever has fallen behind catches up a little at a time, so that signals and checkpoints are not kept waiting."""

_LEARNING: Final = 3
"""Purpose number of the replay buffer's draws."""

_log = logging.getLogger(__name__)


def train_rainbow(
    settings: RainbowSettings,
    run_dir: Path,
    *,
    resume: bool = False,
    env_options: Mapping[str, Any] | None = None,
    sinks: Sequence[Sink] = (),
) -> TrainResult:
    """Train a policy of action values, or go on training it.

    SIGINT and SIGTERM end the run after the step under way, with everything saved; a second SIGINT ends it at once.

    Args:
        settings: Everything that defines the run. A resumed run must have the settings it was started with; of
            ``run`` only the seed.
        run_dir: Folder of the run; made if needed.
        resume: Go on from the folder's newest checkpoint that is whole, its part of the replay buffer included; each
            damaged one is named in a warning.
        env_options: Merged over ``settings.env.options``; the way to pass a Python function, such as a reward.
        sinks: Who listens; closed at the end.

    Returns:
        What the run came to.

    Raises:
        CheckpointError: The folder holds a run already and ``resume`` is False, or holds none and it is True, or
            something could not be written, or ``run.start_from`` names no policy that fits.
        ConfigError: An option names a Python function that was not passed again, or the bins a feature that is not.
        EnvironmentUsageError: The environment cannot be trained on.
        DemonstrationError: The recorded fights are of another environment, or damaged.
        NonFiniteError: The environment gave NaN or infinity.
        NonFinitePriorityError: The learner has diverged; policy and checkpoints are those from before.
        ActorError: The process that plays failed too often.
        ChannelError: Another process learns in the folder.
        Exception: Whatever the environment raises, as where its game is gone; everything learned was saved before.
    """
    try:
        folder = RunFolder(run_dir, settings, env_options, resume=resume)
        with one_core(), closing(folder):
            opened = open_run(folder)
            with closing(opened.playing):
                run = _Run(folder, opened, sinks)
                run.begin()
                return run.run()
    finally:
        close_all(sinks)


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        folder: RunFolder[RainbowSettings],
        opened: Opened,
        sinks: Sequence[Sink],
    ) -> None:
        self._folder = folder
        self._settings = settings = folder.settings
        self._playing = opened.playing
        self._replay_store = ReplayStore(folder.path / REPLAY_NAME)
        self._manifests: dict[Path, Any] = {}
        self._sinks = sinks
        self._policy = opened.policy
        self._rng = np.random.default_rng(np.random.SeedSequence(settings.run.seed, spawn_key=(_LEARNING,)))
        mapped = folder.path / REPLAY_NAME if settings.replay.is_mapped else None
        shape = step_shape(self._policy)
        self._replay = ReplayBuffer(shape, settings.replay, settings.env.n_envs, mapped)
        self._teaching = None
        if opened.shown is not None:
            self._teaching = DemonstrationLearning(settings, opened.shown, shape, self._replay, self._policy, self._rng)
            if folder.checkpoint is None:
                self._teaching.begin()
        source = self._teaching.replay if self._teaching else self._replay
        self._learner = Learner(settings.learner, settings.replay, self._policy, source, self._rng)
        self._episodes = EpisodeWindow()
        self._meter = LearningMeter()
        self._milestones: tuple[Milestone, ...] = ()
        self._env_steps = 0
        self._steps = 0
        self._credit = 0.0
        self._published: Tensors = {}
        self._evaluated: Evaluated | None = None
        self._started, self._seconds_before = time.monotonic(), 0.0
        self._saved_at_s = self._told_at_s = 0.0
        self._told_steps = 0
        self._is_resumed = False

    # --- beginning and ending -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Stand at the beginning, or where a checkpoint was written."""
        if self._folder.checkpoint is None:
            self._playing.begin(None, 0)
            self._publish(self._policy.moments.state(), self._epsilon())
        else:
            self._restore(self._folder.checkpoint)

    def run(self) -> TrainResult:
        """Play and learn until there is a reason to stop."""
        self._folder.begin()
        run = self._settings.run
        started = TrainStarted(
            env_id=self._settings.env.id,
            total_steps=run.total_steps,
            env_steps=self._env_steps,
            seed=run.seed,
            is_resumed=self._is_resumed,
        )
        tell(self._sinks, started)
        if run.actor == "apart" and not self._is_resumed:
            # Whoever is killed before the first checkpoint can be resumed too, and gets what was played since.
            self._save()
        with StopRequest() as request:
            while (reason := self._reason_to_stop(request)) is None:
                try:
                    self._iterate()
                except Exception as error:
                    # The environments are not to be trusted, but what was lived through and learned is kept. Where
                    # nothing can be written, or nothing but NaN was learned, the last checkpoint stands.
                    if not isinstance(error, CheckpointError | NonFinitePriorityError):
                        self._save(with_env=False)
                    raise
            self._playing.finish()
            self._absorb()
            self._tell()
            self._save()
            if reason is StopReason.INTERRUPTED:
                _log.info("%s: the run is saved and can be resumed", request.signal_name)
        return self._finish(reason)

    def _finish(self, reason: StopReason) -> TrainResult:
        seconds = self._seconds()
        tell(self._sinks, TrainFinished(env_steps=self._env_steps, seconds=seconds, reason=reason.value))
        return TrainResult(
            reason=reason,
            env_steps=self._env_steps,
            train_seconds=seconds,
            n_fights=self._episodes.n_episodes,
            win_rate=self._win_rate(),
            mean_return=self._episodes.mean_return,
            milestones=self._milestones,
            policy_path=self._folder.path / POLICY_NAME,
        )

    def _reason_to_stop(self, request: StopRequest) -> StopReason | None:
        run = self._settings.run
        if request.signal_name:
            return StopReason.INTERRUPTED
        if self._env_steps >= run.total_steps:
            return StopReason.COMPLETED
        win_rate = self._win_rate() if self._evaluated or self._episodes.is_full else None
        if win_rate is not None and win_rate > run.stop_win_rate:
            return StopReason.WIN_RATE
        if self._seconds() >= run.max_seconds:
            return StopReason.TIME
        return None

    # --- playing and learning -----------------------------------------------------------------------------

    def _iterate(self) -> None:
        """Play a step, learn as much as is due, and do what is due besides."""
        if self._credit < 1.0 or self._settings.run.actor == "apart":  # whoever plays here waits until all is learned
            self._playing.advance()
        before = self._env_steps
        self._absorb()
        self._learn()
        every = self._settings.run.evaluate_every
        if every and self._env_steps // every > before // every:
            self._evaluate()
        seconds = self._seconds()
        if seconds - self._told_at_s >= TELL_EVERY_S:
            self._tell()
        if seconds - self._saved_at_s >= self._settings.run.checkpoint_every_s:
            self._save()

    def _absorb(self) -> None:
        """Take over what was played since."""
        rows = self._playing.channel.take()
        self._episodes.add(self._playing.channel.take_episodes())
        if len(rows) == 0:
            return
        self._replay.append(rows)
        self._policy.observe(rows["features"])
        is_step = rows["outcome"] != Outcome.FINAL
        n_steps = int(is_step.sum())
        self._env_steps += int(rows["n_decisions"][is_step].sum())
        self._steps += n_steps
        if self._steps > self._settings.learner.learning_starts:
            self._credit += n_steps * self._settings.learner.updates_per_step

    def _learn(self) -> None:
        """Make the updates that are due for the steps played, and publish the weights."""
        if self._credit < 1.0:
            return
        progress = min(1.0, self._env_steps / self._settings.run.total_steps)
        for _ in range(min(int(self._credit), MOST_UPDATES_AT_ONCE)):
            self._meter.add(self._learner.update(progress))
            if self._teaching:
                self._teaching.after_update(self._learner.n_updates, self._env_steps)
            self._credit -= 1.0
        self._publish(self._policy.moments.state(), self._epsilon())

    def _publish(self, moments: Tensors, epsilon: float) -> None:
        """Let the actor act with the weights of now, and with a normaliser and a share of random actions."""
        # Both change with each step, but the actor hears of it after updates alone; who resumes has to know them.
        self._published = {**moments, "epsilon": np.array([epsilon])}
        tensors = {**self._policy.weights(), **moments}
        self._playing.channel.publish(Weights(version=self._learner.n_updates, epsilon=epsilon, tensors=tensors))

    def _epsilon(self) -> float:
        """Return the share of random actions; a policy that can do something already is not led astray with all."""
        settings, shown = self._settings.learner, self._settings.demonstrations
        if self._settings.is_cloned:
            return _falling(shown.epsilon, settings.epsilon_end, self._env_steps / shown.epsilon_decisions)
        if self._settings.run.start_from:
            return settings.epsilon_end
        if self._steps < settings.learning_starts:
            return 1.0
        return _falling(settings.epsilon, settings.epsilon_end, self._env_steps / settings.epsilon_decisions)

    def _evaluate(self) -> None:
        """Let the policy fight greedily, and note which levels it has reached."""
        run = self._settings.run
        self._policy.network.silence()
        settings = EvaluationSettings(
            env_id=self._settings.env.id,
            env_options=self._folder.options,
            n_fights=run.evaluate_fights,
            n_envs=run.evaluate_envs,
            seed=run.seed,
        )
        with self._learner.averaged():
            found = evaluate(self._policy, settings)
        low, high = found.interval or (None, None)
        self._evaluated = Evaluated(
            env_steps=self._env_steps,
            n_fights=found.n_fights,
            mean_return=found.mean_return,
            win_rate=found.win_rate,
            low=low,
            high=high,
        )
        tell(self._sinks, self._evaluated)
        if found.win_rate is not None:
            for level in MILESTONES[len(self._milestones) :]:
                if found.win_rate >= level:
                    self._milestones += (Milestone(level, self._env_steps, self._seconds()),)

    # --- telling and saving -------------------------------------------------------------------------------

    def _tell(self) -> None:
        seconds = self._seconds()
        passed = max(seconds - self._told_at_s, 1e-9)
        episodes, learner = self._episodes, self._learner
        progress = TrainProgress(
            env_steps=self._env_steps,
            total_steps=self._settings.run.total_steps,
            seconds=seconds,
            steps_per_second=(self._env_steps - self._told_steps) / passed,
            n_fights=episodes.n_episodes,
            win_rate=episodes.win_rate,
            mean_return=episodes.mean_return,
            mean_decisions=episodes.mean_decisions,
        )
        tell(self._sinks, progress)
        self._tell_of_learning(passed)
        tell(self._sinks, self._playing.stats(self._env_steps, learner.n_updates))
        fights = episodes.stats(self._env_steps)
        if fights is not None:
            tell(self._sinks, fights)
        self._told_at_s, self._told_steps = seconds, self._env_steps

    def _tell_of_learning(self, passed: float) -> None:
        taken = self._meter.take()
        if taken is None:
            return
        n_new, means = taken
        learner, replay = self._learner, self._replay
        schedule = learner.schedule(min(1.0, self._env_steps / self._settings.run.total_steps))
        stats = LearningStats(
            env_steps=self._env_steps,
            n_updates=learner.n_updates,
            updates_per_second=n_new / passed,
            lr=self._settings.learner.lr,
            epsilon=self._epsilon(),
            priority_mean=learner.priority_mean,
            priority_max=replay.priority_max,
            n_replay=replay.n_steps_stored,
            n_resets=learner.n_resets,
            **schedule._asdict(),
            **means._asdict(),
        )
        tell(self._sinks, stats)

    def _save(self, *, with_env: bool = True) -> None:
        """Write the replay buffer's new chunks, a checkpoint that names them, and the policy."""
        manifest = self._replay_store.save(self._replay)
        tensors: Tensors = {}
        for name, each in (
            ("policy", self._policy.state()),
            ("learner", self._learner.state()),
            ("replay", self._replay.state()),
            ("playing", self._playing.state(with_env=with_env)),
            ("teaching", self._teaching.state() if self._teaching else {}),
            ("run", self._state()),
            ("published", self._published),
        ):
            tensors |= {f"{name}/{key}": array for key, array in each.items()}
        self._policy.header = msgspec.structs.replace(self._policy.header, env_steps=self._env_steps)
        header = {
            "settings": msgspec.to_builtins(self._settings),
            "policy": msgspec.to_builtins(self._policy.header),
            "milestones": msgspec.to_builtins(self._milestones),
            "evaluated": None if self._evaluated is None else msgspec.to_builtins(self._evaluated),
            "train_seconds": self._seconds(),
            "replay": manifest,
            "soulslab": VERSION,
            "commit": self._policy.header.commit,
        }
        path = self._folder.store.save(self._env_steps, tensors, header)
        self._playing.saved()
        self._manifests = {
            kept: self._manifests[kept] for kept in self._folder.store.paths() if kept in self._manifests
        }
        self._manifests[path] = manifest
        self._replay_store.prune(list(self._manifests.values()))
        with self._learner.averaged():
            self._policy.save(self._folder.path / POLICY_NAME)
        self._saved_at_s = self._seconds()
        tell(self._sinks, CheckpointSaved(env_steps=self._env_steps, path=str(path)))

    def _state(self) -> Tensors:
        return {
            "counts": np.array([self._env_steps, self._steps]),
            "credit": np.array([self._credit]),
            "rng": rng_state(self._rng),
            "episodes": np.frombuffer(self._episodes.state(), np.uint8).copy(),
        }

    def _restore(self, newest: Checkpoint) -> None:
        with continuing_from(newest.path):
            checkpoint = self._load_rows(newest)
        with continuing_from(checkpoint.path):
            self._load(checkpoint)

    def _load(self, checkpoint: Checkpoint) -> None:
        tensors, header = checkpoint.tensors, checkpoint.header
        self._policy.load_state(part(tensors, "policy"), checkpoint.path)
        self._learner.load(part(tensors, "learner"))
        self._replay.load(part(tensors, "replay"))
        if self._teaching:
            self._teaching.load(part(tensors, "teaching"))
        self._manifests = self._folder.store.header_values("replay")
        own = part(tensors, "run")
        self._env_steps, self._steps = (int(count) for count in own["counts"])
        self._credit = float(own["credit"][0])
        load_rng(self._rng, own["rng"])
        self._episodes.load(own["episodes"].tobytes())
        self._milestones = msgspec.convert(header["milestones"], tuple[Milestone, ...])
        self._evaluated = msgspec.convert(header["evaluated"], Evaluated | None)
        self._seconds_before = self._saved_at_s = self._told_at_s = msgspec.convert(header["train_seconds"], Duration)
        self._told_steps = self._env_steps
        self._is_resumed = True
        self._playing.begin(part(tensors, "playing"), self._env_steps)
        published = part(tensors, "published")
        check_shapes(published, {**self._policy.moments.state(), "epsilon": np.zeros(1)}, checkpoint.path)
        epsilon = float(published.pop("epsilon")[0])
        self._publish(published, epsilon)

    def _load_rows(self, checkpoint: Checkpoint) -> Checkpoint:
        """Load the replay buffer's rows; return the checkpoint that they are of, an older one if some are damaged."""
        while True:
            check_same_run(checkpoint, self._settings)
            try:
                self._replay_store.load(self._replay, checkpoint.header["replay"])
            except CorruptCheckpointError as error:
                _log.warning("passing over %s, which needs what is damaged: %s", checkpoint.path, error)
                checkpoint = self._folder.store.latest(before=checkpoint.path)
            else:
                return checkpoint

    def _win_rate(self) -> float | None:
        """Return the evaluated win rate, or the moving one where nothing is evaluated."""
        return self._episodes.win_rate if self._evaluated is None else self._evaluated.win_rate

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started


def _falling(start: float, end: float, progress: float) -> float:
    """Return what is ``start`` at first, ``end`` once progress is 1, and in between in between."""
    return start + (end - start) * min(1.0, progress)
