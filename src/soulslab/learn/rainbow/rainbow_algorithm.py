"""Rainbow as the training loop calls it: acting, replay buffer, updates and weights for the actor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.vector import VectorEnv

from soulslab.learn.actors.transport import Weights
from soulslab.learn.algorithm import AlgorithmState
from soulslab.learn.archive import Tensors, check_shapes
from soulslab.learn.checkpoint import Checkpoint, load_rng, rng_state
from soulslab.learn.rainbow.demonstration_learning import DemonstrationLearning
from soulslab.learn.rainbow.episode_window import EpisodeWindow
from soulslab.learn.rainbow.q_learner import Learner, Measured
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.rainbow.run_setup import RunSetup, set_up_run
from soulslab.learn.rainbow.transition_actor import step_shape
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.run_folder import RunFolder, part
from soulslab.learn.telemetry import LearningStats, Message

REPLAY_NAME: Final = "replay"
MAX_UPDATES_PER_ITERATION: Final = 64
"""Largest number of updates between two checks for signals and checkpoints."""

_LEARNING: Final = 3
"""Number of the purpose "draws from the replay buffer" in seed sequences."""


class RainbowAlgorithm:
    """Rainbow with its actor, its replay buffer and the recorded episodes.

    Implements :class:`soulslab.learn.algorithm.Algorithm`.
    """

    report_every_s: Final = 1.0

    def __init__(self, folder: RunFolder[RainbowSettings], opened: RunSetup) -> None:
        """Prepare the learner.

        Args:
            folder: Folder of the run.
            opened: The policy to train, the actor and the recorded episodes.
        """
        self._folder = folder
        self._settings = settings = folder.settings
        self._playing = opened.playing
        self._replay_store = ReplayStore(folder.path / REPLAY_NAME)
        self._manifests: dict[Path, Any] = {}
        self._manifest: Any = None
        self._policy = opened.policy
        self._rng = np.random.default_rng(np.random.SeedSequence(settings.run.seed, spawn_key=(_LEARNING,)))
        mapped = folder.path / REPLAY_NAME if settings.replay.is_mapped else None
        shape = step_shape(self._policy)
        self._replay = ReplayBuffer(shape, settings.replay, settings.env.n_envs, mapped)
        self._demonstrations = None
        if opened.shown is not None:
            self._demonstrations = DemonstrationLearning(
                settings, opened.shown, shape, self._replay, self._policy, self._rng
            )
            if folder.checkpoint is None:
                self._demonstrations.begin()
        source = self._demonstrations.replay if self._demonstrations else self._replay
        self._learner = Learner(settings.learner, settings.replay, self._policy, source, self._rng)
        self._measured: list[Measured] = []
        self._credit = 0.0
        self._n_env_steps = 0
        self._n_steps = 0
        self._n_ended = 0  # episodes that ended in the observed rows
        self._published: Tensors = {}
        self._is_remote = settings.run.actor == "apart"
        # If the process is killed before its first regular checkpoint, the run can still resume with the actor's steps.
        self.saves_at_start = self._is_remote
        self.episodes = EpisodeWindow()

    @property
    def env_steps(self) -> int:
        """Number of observed game decisions, all environments together."""
        return self._n_env_steps

    def start(self) -> None:
        """Reset the environments for a new run."""
        self._playing.begin(None, 0)
        self._publish(self._policy.moments.state(), self._epsilon())

    def act(self) -> None:
        """Step the environments once unless updates are due; with a remote actor, wait for its steps."""
        if self._credit < 1.0 or self._is_remote:
            self._playing.advance()

    def observe(self) -> None:
        """Move the steps since the last call to the replay buffer, up to ``run.total_steps``."""
        total_steps = self._settings.run.total_steps
        rows = self._playing.channel.take(total_steps - self.env_steps)
        results = self._playing.channel.take_episodes()
        is_step = rows["outcome"] != Outcome.FINAL
        n_decisions = int(rows["n_decisions"][is_step].sum())
        self._n_ended += int((is_step & (rows["outcome"] != Outcome.GOES_ON)).sum())
        if self.env_steps + n_decisions >= total_steps:  # a remote actor may have finished more episodes
            results = results[: max(0, self._n_ended - self.episodes.n_episodes)]
        self.episodes.add(results)
        if len(rows) == 0:
            return
        self._replay.append(rows)
        self._policy.observe(rows["features"])
        n_steps = int(is_step.sum())
        self._n_env_steps += n_decisions
        self._n_steps += n_steps
        if self._n_steps > self._settings.learner.learning_starts:
            self._credit += n_steps * self._settings.learner.updates_per_step

    def update(self) -> None:
        """Make the updates that are due for the observed steps, and publish the weights."""
        if self._credit < 1.0:
            return
        progress = self._progress()
        for _ in range(min(int(self._credit), MAX_UPDATES_PER_ITERATION)):
            self._measured.append(self._learner.update(progress))
            if self._demonstrations:
                self._demonstrations.after_update(self._learner.n_updates, self.env_steps)
            self._credit -= 1.0
        self._publish(self._policy.moments.state(), self._epsilon())

    @contextmanager
    def best_estimate(self) -> Iterator[QPolicy]:
        """Return a context in which the policy has the average of its weights, without noise."""
        self._policy.network.zero_noise()
        with self._learner.averaged():
            yield self._policy

    def policy_header(self) -> dict[str, Any]:
        """Return the header of the policy, with the present number of game decisions."""
        return self._policy.count_decisions(self.env_steps)

    def report(self, seconds: float) -> list[Message]:
        """Return the statistics of the updates, the actor and the fights since the last call."""
        messages: list[Message] = []
        if self._measured:
            messages.append(self._learning_stats(seconds))
        messages.append(self._playing.stats(self.env_steps, self._learner.n_updates))
        fights = self.episodes.stats(self.env_steps)
        return [*messages, fights] if fights is not None else messages

    def state(self, *, with_env: bool) -> AlgorithmState:
        """Write new rows of the replay buffer to files; return copies of everything else that :meth:`load` needs."""
        self._manifest = self._replay_store.save(self._replay)
        own: Tensors = {
            "counts": np.array([self._n_env_steps, self._n_steps]),
            "credit": np.array([self._credit]),
            "rng": rng_state(self._rng),
            "episodes": np.frombuffer(self.episodes.state(), np.uint8).copy(),
        }
        tensors: Tensors = {}
        # The names are those of the first version, so that old checkpoints can be loaded.
        for name, each in (
            ("policy", self._policy.state()),
            ("learner", self._learner.state()),
            ("replay", self._replay.state()),
            ("playing", self._playing.state(with_env=with_env)),
            ("teaching", self._demonstrations.state() if self._demonstrations else {}),
            ("run", own),
            ("published", self._published),
        ):
            tensors |= {f"{name}/{key}": array for key, array in each.items()}
        return AlgorithmState(tensors, {"replay": self._manifest})

    def after_save(self, path: Path) -> None:
        """Remove the files of the replay buffer and the steps of the actor that no checkpoint needs."""
        self._playing.saved()
        kept = self._folder.store.paths()
        self._manifests = {each: self._manifests[each] for each in kept if each in self._manifests}
        self._manifests[path] = self._manifest
        self._replay_store.prune(list(self._manifests.values()))

    def load_files(self, header: dict[str, Any]) -> None:
        """Load the rows of the replay buffer."""
        self._replay_store.load(self._replay, header["replay"])

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        tensors = checkpoint.tensors
        self._policy.load_state(part(tensors, "policy"), checkpoint.path)
        self._learner.load(part(tensors, "learner"))
        self._replay.load(part(tensors, "replay"))
        if self._demonstrations:
            self._demonstrations.load(part(tensors, "teaching"))
        self._manifests = self._folder.store.header_values("replay")
        own = part(tensors, "run")
        self._n_env_steps, self._n_steps = (int(count) for count in own["counts"])
        self._credit = float(own["credit"][0])
        load_rng(self._rng, own["rng"])
        self.episodes.load(own["episodes"].tobytes())
        self._n_ended = self.episodes.n_episodes
        self._playing.begin(part(tensors, "playing"), self.env_steps)
        published = part(tensors, "published")
        check_shapes(published, {**self._policy.moments.state(), "epsilon": np.zeros(1)}, checkpoint.path)
        epsilon = float(published.pop("epsilon")[0])
        self._publish(published, epsilon)

    def finish(self) -> None:
        """Stop a remote actor."""
        self._playing.finish()

    def close(self) -> None:
        """Stop the actor and close the environments."""
        self._playing.close()

    def _publish(self, moments: Tensors, epsilon: float) -> None:
        """Publish the weights for the actor, with the moments of the normaliser and the share of random actions."""
        # Moments and epsilon change with each step but are published only after updates, so they are in checkpoints.
        self._published = {**moments, "epsilon": np.array([epsilon])}
        tensors = {**self._policy.weights(), **moments}
        self._playing.channel.publish(Weights(version=self._learner.n_updates, epsilon=epsilon, tensors=tensors))

    def _epsilon(self) -> float:
        """Return the share of random actions; it is low from the start if the policy is pretrained or cloned."""
        settings, shown = self._settings.learner, self._settings.demonstrations
        if self._settings.is_cloned:
            return _interpolate(shown.epsilon, settings.epsilon_end, self.env_steps / shown.epsilon_decisions)
        if self._settings.run.start_from:
            return settings.epsilon_end
        if self._n_steps < settings.learning_starts:
            return 1.0
        return _interpolate(settings.epsilon, settings.epsilon_end, self.env_steps / settings.epsilon_decisions)

    def _progress(self) -> float:
        """Return the share of the run that is complete, 0..1."""
        return min(1.0, self.env_steps / self._settings.run.total_steps)

    def _learning_stats(self, seconds: float) -> LearningStats:
        """Return the means over the updates since the last call."""
        measured, self._measured = self._measured, []
        means = Measured(*np.mean(measured, axis=0).tolist())
        learner, replay = self._learner, self._replay
        return LearningStats(
            env_steps=self.env_steps,
            n_updates=learner.n_updates,
            updates_per_second=len(measured) / seconds,
            lr=self._settings.learner.lr,
            epsilon=self._epsilon(),
            priority_mean=learner.priority_mean,
            priority_max=replay.priority_max,
            n_replay=replay.n_steps_stored,
            n_resets=learner.n_resets,
            **learner.schedule(self._progress())._asdict(),
            **means._asdict(),
        )


def open_rainbow(
    folder: RunFolder[RainbowSettings], initialise: Callable[[QPolicy, VectorEnv[Any, Any, Any]], None]
) -> RainbowAlgorithm:
    """Make the environments, or the process of a remote actor, and the learner of a run.

    Args:
        folder: Folder of the run.
        initialise: Called with the new policy and the environments; may replace the random weights.

    Raises:
        CheckpointError: ``run.start_from`` does not name a matching policy.
        ConfigError: A setting names an unknown feature, or a remote actor would need a secret.
        DemonstrationError: The recorded episodes belong to another environment, or are damaged.
        EnvironmentUsageError: The environment does not support training.
    """
    opened = set_up_run(folder, initialise)
    try:
        return RainbowAlgorithm(folder, opened)
    except BaseException:
        opened.playing.close()
        raise


def _interpolate(start: float, end: float, progress: float) -> float:
    """Return the linear interpolation from ``start`` at progress 0 to ``end`` at progress 1 and above."""
    return start + (end - start) * min(1.0, progress)
