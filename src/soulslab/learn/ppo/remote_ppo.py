"""PPO that learns from actors in other processes or on other machines, which never wait for an update.

The actors choose their actions with weights that are some updates old. V-trace corrects for that (Espeholt et al. 2018,
"IMPALA"); see `soulslab.learn.ppo.rollout.generalised_advantages`. An update begins as soon as there are T * N steps,
whichever actors took them (:mod:`soulslab.learn.ppo.segment_buffer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from soulslab.errors import ConfigError
from soulslab.learn.actors.episode_window import EpisodeWindow
from soulslab.learn.actors.transition_actor import ActorHandle, refuse_secrets, step_shape
from soulslab.learn.actors.transport import Weights
from soulslab.learn.algorithm import Algorithm, AlgorithmState
from soulslab.learn.archive import join_parts, take_part
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.environment import make_vector, sizes, without_functions
from soulslab.learn.network_policy import header_fields
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import PPO
from soulslab.learn.ppo.segment_buffer import SegmentBuffer
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.settings import TrainSettings, adjust_settings, reward_factors
from soulslab.learn.telemetry import Message
from soulslab.learn.torch_device import select_device


class RemotePPO(Algorithm):
    """PPO with actors elsewhere, as the training loop calls it."""

    report_every_s: float = 1.0
    saves_at_start = True
    """If the process is killed before its first regular checkpoint, the run can still resume with the actors' steps."""

    def __init__(self, settings: TrainSettings, policy: Policy, actor: ActorHandle, generator: torch.Generator) -> None:
        """Prepare the learner; :meth:`start` or :meth:`load` connects to the actors."""
        self._settings = settings
        self._policy = policy
        self._actor = actor
        n_streams, learner = settings.env.n_envs, settings.learner
        self._learner = PPO(learner, policy, n_streams, generator)
        self._buffer = SegmentBuffer(step_shape(policy.header), n_streams, learner.n_steps, learner.gamma)
        self._reward_factors: dict[str, float] = {}
        self._env_steps = self._n_updates = 0
        self._episodes = EpisodeWindow()

    @property
    def env_steps(self) -> int:
        """Number of game decisions that were observed, all actors together."""
        return self._env_steps

    @property
    def episodes(self) -> EpisodeWindow:
        """Statistics of the training episodes."""
        return self._episodes

    def start(self) -> None:
        """Connect to the actors of a new run."""
        self._actor.begin(None, 0)
        self._publish()

    def act(self) -> None:
        """Wait a short time for steps unless an update is due."""
        self._actor.advance(float("inf") if self._buffer.is_full else 0.0)

    def observe(self) -> None:
        """Receive the steps since the last call; while an update is due, they wait in the transport."""
        if self._buffer.is_full:
            return
        rows = self._actor.channel.take(self._settings.run.total_steps - self._env_steps)
        self._episodes.add(self._actor.channel.take_episodes())
        if len(rows) == 0:
            return
        is_step = rows["outcome"] != Outcome.FINAL
        self._env_steps += int(rows["n_decisions"][is_step].sum())
        self._policy.observe(rows["features"])
        self._buffer.append(rows)

    def update(self) -> None:
        """Update the policy if there are enough steps, and publish its weights."""
        if not self._buffer.is_full:
            return
        self._learner.collect(self._buffer)
        progress = min(1.0, self._env_steps / self._settings.run.total_steps)
        self._learner.update(progress, self._env_steps)
        self._n_updates += 1
        self._publish()

    def adjust(self, changes: Mapping[str, float]) -> None:
        """Change settings by path; see `Algorithm.adjust`. Actors get factors of the reward with their weights."""
        adjusted = adjust_settings(self._settings, changes)
        self._reward_factors = reward_factors(self._settings.env.options, adjusted.env.options)
        self._learner.adjust(adjusted.learner)

    def state(self, *, with_env: bool) -> AlgorithmState:
        """Return copies of everything that :meth:`load` needs."""
        parts = {
            "policy": self._policy.state(),
            "learner": self._learner.state(),
            "buffer": self._buffer.state(),
            "playing": self._actor.state(with_env=with_env),
            "run": {
                "counts": np.array([self._env_steps, self._episodes.n_episodes, self._n_updates]),
                "episodes": np.frombuffer(self._episodes.state(), np.uint8).copy(),
            },
        }
        return AlgorithmState(join_parts(parts), {})

    def after_save(self, path: Path) -> None:
        """Free the steps that the checkpoint holds."""
        del path
        self._actor.saved()

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, also from one of a run in one process."""
        tensors = checkpoint.tensors
        self._policy.load_state(take_part(tensors, "policy"), checkpoint.path)
        self._learner.load(take_part(tensors, "learner"))
        if "run/counts" in tensors:
            self._env_steps, _, self._n_updates = tensors["run/counts"].tolist()
            self._episodes.load(tensors["run/episodes"].tobytes())
            self._buffer.load(take_part(tensors, "buffer"))
        else:
            self._env_steps = int(tensors["collector/env_steps"][0])
            self._episodes.n_episodes = int(tensors["collector/tracker/n_episodes"][0])
        self._actor.begin(take_part(tensors, "playing"), self._env_steps)
        self._publish()

    def policy_header(self) -> dict[str, Any]:
        """Return the header of the policy, with the present number of game decisions."""
        return self._policy.count_decisions(self._env_steps)

    def best_estimate(self) -> AbstractContextManager[Policy]:
        """Return a context with the policy; PPO evaluates and saves the newest weights."""
        return nullcontext(self._policy)

    def report(self, seconds: float) -> list[Message]:
        """Return the statistics of the updates, the actors and the fights since the last call."""
        fights = self._episodes.stats(self._env_steps)
        stats = self._learner.take_stats(seconds)
        messages: list[Message] = [*stats, self._actor.stats(self._env_steps, self._n_updates)]
        return [*messages, fights] if fights is not None else messages

    def finish(self) -> None:
        """Stop the actors, if they belong to this run."""
        self._actor.finish()

    def close(self) -> None:
        """Disconnect from the actors."""
        self._actor.close()

    def _publish(self) -> None:
        tensors, factors = self._policy.weights(), self._reward_factors
        weights = Weights(version=self._n_updates, epsilon=0.0, tensors=tensors, reward_factors=factors)
        self._actor.channel.publish(weights)


def open_remote_ppo(
    folder: RunFolder[TrainSettings],
    initialise: Callable[[Policy, VectorEnv[Any, Any, Any]], None],
    open_actor: Callable[[RunFolder[Any], PolicyHeader], ActorHandle],
) -> RemotePPO:
    """Make the policy of a run and its actors; the environments are only made to read their spaces.

    ``initialise`` is called with the new policy and the environments; it may replace the random weights. Raises
    EnvironmentUsageError if the environment does not support training, ConfigError if an actor would need a secret, the
    policy is recurrent, or the settings name a teacher.
    """
    settings = folder.settings
    refuse_secrets(folder.options)
    if settings.network.memory:
        raise ConfigError("must be 0 in a fleet, whose chunks hold no states of a policy", path="network.memory")
    if settings.learner.teacher:
        raise ConfigError(
            "must be empty in a fleet, whose actors record no probabilities of a teacher; train in one process",
            path="learner.teacher",
        )
    with closing(make_vector(settings.env.id, settings.env.n_envs, without_functions(folder.options))) as env:
        generator = torch.Generator().manual_seed(settings.run.seed)
        header = PolicyHeader(**header_fields(settings, sizes(env)), network=settings.network)
        policy = Policy(header, generator, select_device(settings.run.device))
        initialise(policy, env)
    return RemotePPO(settings, policy, open_actor(folder, header), generator)
