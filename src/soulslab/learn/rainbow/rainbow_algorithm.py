"""Rainbow as the training loop calls it: acting, replay buffer, updates and weights for the actor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.errors import ConfigError
from soulslab.learn.actors.episode_window import EpisodeWindow
from soulslab.learn.actors.transition_actor import ActorHandle, refuse_secrets, step_shape
from soulslab.learn.actors.transport import Weights
from soulslab.learn.algorithm import AlgorithmState
from soulslab.learn.archive import Tensors, check_shapes, join_parts, take_part
from soulslab.learn.checkpoint import Checkpoint, load_rng, rng_state
from soulslab.learn.demonstrations.reading import read_demonstrations
from soulslab.learn.environment import feature_names, make_vector, sizes, without_functions
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.network_policy import header_fields
from soulslab.learn.rainbow.demonstration_learning import DemonstrationLearning
from soulslab.learn.rainbow.feature_encoding import resolve_bins
from soulslab.learn.rainbow.local_actor import LocalActor
from soulslab.learn.rainbow.q_learner import BaseLearner, Learner, Measured
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.rainbow.recurrent_learner import RecurrentLearner
from soulslab.learn.rainbow.remote_actor import RemoteActor
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.replay.sequence_replay import SequenceReplay
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.run_folder import REPLAY_NAME, RunFolder
from soulslab.learn.settings import adjust_settings, reward_factors
from soulslab.learn.telemetry import LearningStats, Message
from soulslab.learn.torch_device import select_device

MAX_UPDATES_PER_ITERATION: Final = 16
"""Largest number of updates before steps of remote actors are taken again, and signals are checked."""

_LEARNING: Final = 3
"""Number of the purpose "draws from the replay buffer" in seed sequences."""


class RainbowAlgorithm:
    """Rainbow with its actor, its replay buffer and the recorded episodes, as an `Algorithm`."""

    report_every_s: float = 1.0

    def __init__(
        self,
        folder: RunFolder[RainbowSettings],
        policy: QPolicy,
        actor: ActorHandle,
        demonstrations: NDArray[Any] | None = None,
    ) -> None:
        """Prepare the learner; the recorded episodes are rows of `read_demonstrations`."""
        self._folder = folder
        self._settings = settings = folder.settings
        self._actor = actor
        self._replay_store = ReplayStore(folder.path / REPLAY_NAME)
        self._manifests: dict[Path, Any] = {}
        self._manifest: Any = None
        self._policy = policy
        self._rng = np.random.default_rng(np.random.SeedSequence(settings.run.seed, spawn_key=(_LEARNING,)))
        mapped = folder.path / REPLAY_NAME if settings.replay.is_mapped else None
        shape, n_envs = step_shape(policy.header, has_values=actor.has_values), settings.env.n_envs
        self._replay: ReplayBuffer
        if settings.network.memory:
            self._replay = SequenceReplay(shape, settings.replay, n_envs, settings.learner.n_steps, mapped)
        else:
            self._replay = ReplayBuffer(shape, settings.replay, n_envs, mapped)
        self._demonstrations = None
        if demonstrations is not None:
            self._demonstrations = DemonstrationLearning(
                settings, demonstrations, step_shape(policy.header), self._replay, self._policy, self._rng
            )
            if folder.checkpoint is None:
                self._demonstrations.begin()
        source = self._demonstrations.replay if self._demonstrations else self._replay
        common = settings.learner, settings.replay, self._policy
        self._learner: BaseLearner = (
            RecurrentLearner(*common, self._replay, self._rng)
            if isinstance(self._replay, SequenceReplay)
            else Learner(*common, source, self._rng)
        )
        self._measured: list[Measured] = []
        self._credit = 0.0
        self.env_steps = 0  # observed game decisions, all environments together
        self._n_steps = 0
        self._n_ended = 0  # episodes that ended in the observed rows
        self._published: Tensors = {}
        self._reward_factors: dict[str, float] = {}
        # If the process is killed before its first regular checkpoint, the run can still resume with the actor's steps.
        self.saves_at_start = actor.is_remote
        self.episodes = EpisodeWindow()

    def start(self) -> None:
        """Reset the environments for a new run."""
        self._actor.begin(None, 0)
        self._publish(self._policy.moments.state(), self._epsilon())

    def show_live(self, live: LiveFeed) -> None:
        """Show the first environment in a feed; a remote actor opens its own."""
        if isinstance(self._actor, LocalActor):
            self._actor.show_live(live)

    def act(self) -> None:
        """Step the environments once unless updates are due; with a remote actor, wait for its steps."""
        if self._credit < 1.0 or self._actor.is_remote:
            self._actor.advance(self._credit)

    def observe(self) -> None:
        """Move the steps since the last call to the replay buffer, up to ``run.total_steps``."""
        total_steps = self._settings.run.total_steps
        rows = self._actor.channel.take(total_steps - self.env_steps)
        results = self._actor.channel.take_episodes()
        is_step = rows["outcome"] != Outcome.FINAL
        n_decisions = int(rows["n_decisions"][is_step].sum())
        self._n_ended += int((is_step & (rows["outcome"] != Outcome.GOES_ON)).sum())
        if self.env_steps + n_decisions >= total_steps:  # a remote actor may have finished more episodes
            results = results[: max(0, self._n_ended - self.episodes.n_episodes)]
        self.episodes.add(results)
        if len(rows) == 0:
            return
        learner = self._settings.learner
        self._replay.append(rows, n_steps=learner.n_steps, gamma=learner.gamma)
        self._policy.observe(rows["features"])
        n_steps = int(is_step.sum())
        self.env_steps += n_decisions
        self._n_steps += n_steps
        has_sequences = not self._policy.header.n_memory or self._replay.sampler.n_places > 0
        if self._n_steps > learner.learning_starts and has_sequences:
            self._credit += n_steps * learner.updates_per_step

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

    def adjust(self, changes: Mapping[str, float]) -> None:
        """Change settings by path; see `Algorithm.adjust`. Actors get factors of the reward with their weights."""
        self._settings = adjust_settings(self._folder.settings, changes)
        self._reward_factors = reward_factors(self._folder.options, self._settings.env.options)
        self._learner.adjust(self._settings.learner)

    @contextmanager
    def best_estimate(self) -> Iterator[QPolicy]:
        """Return a context in which the policy has the average of its weights."""
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
        messages.append(self._actor.stats(self.env_steps, self._learner.n_updates))
        fights = self.episodes.stats(self.env_steps)
        return [*messages, fights] if fights is not None else messages

    def state(self, *, with_env: bool) -> AlgorithmState:
        """Write new rows of the replay buffer to files; return copies of everything else that :meth:`load` needs."""
        self._manifest = self._replay_store.save(self._replay)
        own: Tensors = {
            "counts": np.array([self.env_steps, self._n_steps]),
            "credit": np.array([self._credit]),
            "rng": rng_state(self._rng),
            "episodes": np.frombuffer(self.episodes.state(), np.uint8).copy(),
        }
        # The names are those of the first version, so that old checkpoints can be loaded.
        parts = {
            "policy": self._policy.state(),
            "learner": self._learner.state(),
            "replay": self._replay.state(),
            "playing": self._actor.state(with_env=with_env),
            "teaching": self._demonstrations.state() if self._demonstrations else {},
            "run": own,
            "published": self._published,
        }
        return AlgorithmState(join_parts(parts), {"replay": self._manifest})

    def after_save(self, path: Path) -> None:
        """Remove the files of the replay buffer and the steps of the actor that no checkpoint needs."""
        self._actor.saved()
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
        self._policy.load_state(take_part(tensors, "policy"), checkpoint.path)
        self._learner.load(take_part(tensors, "learner"))
        self._replay.load(take_part(tensors, "replay"))
        if self._demonstrations:
            self._demonstrations.load(take_part(tensors, "teaching"))
        self._manifests = self._folder.store.header_values("replay")
        own = take_part(tensors, "run")
        self.env_steps, self._n_steps = (int(count) for count in own["counts"])
        check_shapes(own, {"credit": np.zeros(1)}, checkpoint.path)
        self._credit = float(own["credit"][0])
        load_rng(self._rng, own["rng"])
        self.episodes.load(own["episodes"].tobytes())
        self._n_ended = self.episodes.n_episodes
        self._actor.begin(take_part(tensors, "playing"), self.env_steps)
        published = take_part(tensors, "published")
        check_shapes(published, {**self._policy.moments.state(), "epsilon": np.zeros(1)}, checkpoint.path)
        epsilon = float(published.pop("epsilon")[0])
        self._publish(published, epsilon)

    def finish(self) -> None:
        """Stop a remote actor."""
        self._actor.finish()

    def close(self) -> None:
        """Stop the actor and close the environments."""
        self._actor.close()

    def _publish(self, moments: Tensors, epsilon: float) -> None:
        """Publish the weights for the actor, with the moments of the normaliser and the share of random actions."""
        # Moments and epsilon change with each step but are published only after updates, so they are in checkpoints.
        self._published = {**moments, "epsilon": np.array([epsilon])}
        tensors = {**self._policy.weights(), **moments}
        version, factors = self._learner.n_updates, self._reward_factors
        weights = Weights(version=version, epsilon=epsilon, tensors=tensors, reward_factors=factors)
        self._actor.channel.publish(weights)

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
            priority_max=replay.sampler.priority_max,
            n_replay=len(replay.ring),
            beta=learner.beta(self._progress()),
            **means._asdict(),
        )


OpenActor: TypeAlias = Callable[[RunFolder[Any], QHeader], ActorHandle]
"""Makes the actors of a run from the header of their policy."""


def open_rainbow(
    folder: RunFolder[RainbowSettings],
    initialise: Callable[[QPolicy, VectorEnv[Any, Any, Any]], None],
    open_actor: OpenActor | None = None,
) -> RainbowAlgorithm:
    """Make the environments, or the process of a remote actor, and the learner of a run.

    ``initialise`` is called with the new policy and the environments; it may replace the random weights. ``open_actor``
    makes other actors than those of the setting ``run.actor``; the environments are then only made to read their
    spaces. Raises
    CheckpointError if ``run.start_from`` does not name a matching policy, ConfigError if a setting names an unknown
    feature, a remote actor would need a secret or changed weights of the reward, or ``network.memory`` is combined with
    recorded episodes or other actors, DemonstrationError for recorded episodes of another environment, and
    EnvironmentUsageError if the environment does not support training.
    """
    settings = folder.settings
    if settings.network.memory:
        _refuse_with_memory(settings, is_fleet=open_actor is not None)
    options = folder.options if open_actor is None else without_functions(folder.options)
    env = make_vector(settings.env.id, settings.env.n_envs, options)
    actor: ActorHandle | None = None
    try:
        found = sizes(env)
        bins = resolve_bins(settings.network.bins, found.n_features, feature_names(env), settings.env.id)
        header = QHeader(
            **header_fields(settings, found),
            extras=settings.inputs,
            network=msgspec.structs.replace(settings.network, bins=bins),
        )
        generator = torch.Generator().manual_seed(settings.run.seed)
        policy = QPolicy(header, generator, select_device(settings.run.device))
        initialise(policy, env)
        demonstrations = _read_demonstrations(folder, env) if settings.demonstrations.path else None
        if open_actor is not None or settings.run.actor == "apart":
            env.close()
            refuse_secrets(folder.options)
            _refuse_changed_reward(folder)
            actor = open_actor(folder, header) if open_actor is not None else RemoteActor(folder.path, header)
        else:
            actor = LocalActor(env, QPolicy(header), settings.run.seed)
        return RainbowAlgorithm(folder, policy, actor, demonstrations)
    except BaseException:
        (actor or env).close()
        raise


def _refuse_with_memory(settings: RainbowSettings, *, is_fleet: bool) -> None:
    """Raise ConfigError for settings that recurrent Rainbow does not support."""
    others = {
        "demonstrations.path": bool(settings.demonstrations.path),
        "run.actor = 'apart'": settings.run.actor == "apart" and not is_fleet,
        "a fleet": is_fleet,
    }
    named = [name for name, is_used in others.items() if is_used]
    if named:
        raise ConfigError(
            f"cannot be combined with {' and '.join(named)}: recurrent Rainbow learns only from environments in its "
            "own process; set it to 0, or use 'soulslab train' with run.actor = 'here' and without "
            "demonstrations.path",
            path="network.memory",
        )


def _refuse_changed_reward(folder: RunFolder[RainbowSettings]) -> None:
    """Raise ConfigError for changed weights of the reward, which a process with the settings of the start lacks."""
    if reward_factors(folder.settings.env.options, folder.options):
        raise ConfigError(
            "cannot be 'apart', because weights of the reward were changed in a fleet; use 'here', or a fleet",
            path="run.actor",
        )


def _read_demonstrations(folder: RunFolder[RainbowSettings], env: VectorEnv[Any, Any, Any]) -> NDArray[Any]:
    settings = folder.settings
    # Only a reset shows whether there are masks. A resumed run was checked when it started, and must not start a fight
    # in a game that a remote actor still plays.
    is_masked = folder.checkpoint is None and "action_mask" in env.reset(seed=settings.run.seed)[1]
    return read_demonstrations(
        settings.demonstrations.path,
        env,
        settings.env,
        extras=settings.inputs,
        is_masked=is_masked,
        is_simulated=settings.demonstrations.is_simulated,
    )


def _interpolate(start: float, end: float, progress: float) -> float:
    """Return the linear interpolation from ``start`` at progress 0 to ``end`` at progress 1 and above."""
    return start + (end - start) * min(1.0, progress)
