"""Masked proximal policy optimisation (PPO), in one file.

Schulman et al. 2017, "Proximal policy optimization algorithms". One iteration:

1. Take T steps in N environments with the current policy (:mod:`soulslab.learn.ppo.rollout`).
2. Compute the advantages: how much better each action was than expected (:mod:`soulslab.learn.ppo.rollout`).
3. Pass over the T * N transitions several times in shuffled minibatches. The policy loss increases the probability of
   better actions; its gradient is 0 once the probability ratio of an action has changed by more than ``clip``, because
   the data were collected with the old policy. The critic is trained on the returns. An entropy bonus maintains
   exploration.

A teacher adds its cross-entropy to the loss, in the states of the new policy (Schmitt et al. 2018, "Kickstarting deep
reinforcement learning", equation 2). It may see features that are hidden from the new policy.

Pixels may be shifted at random (Laskin et al. 2020, "Reinforcement learning with augmented data"): each minibatch draws
a shift for each transition, or for each environment of a recurrent policy. The policy acts on pixels without shifts, so
the probability ratio compares its probability of an action for shifted pixels with that for the original ones.

The action masks of the environment apply to acting and learning: a forbidden action has probability 0 in the ratio, in
the entropy and in the gradient.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from soulslab.errors import ConfigError, DivergedError
from soulslab.learn.adam import Adam
from soulslab.learn.algorithm import Algorithm, AlgorithmState
from soulslab.learn.archive import Tensors, join_parts, take_part, writing
from soulslab.learn.checkpoint import Checkpoint
from soulslab.learn.environment import TRAINING, environment_seed, make_vector, sizes, stateful
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.network_policy import header_fields
from soulslab.learn.pixel_encoding import shift_pixels
from soulslab.learn.players import load_player
from soulslab.learn.policy import Policy, PolicyHeader, masked_log_probs
from soulslab.learn.ppo.episode_tracker import EpisodeTracker
from soulslab.learn.ppo.rollout import Collector, Minibatch, Rollout, RolloutSource, generalised_advantages
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.settings import PPOSettings, TrainSettings, adjust_settings
from soulslab.learn.telemetry import Message, UpdateStats
from soulslab.learn.torch_device import select_device

TEACHER_NAME: Final = "teacher.safetensors"
"""File of a run with a copy of its teacher."""
_ADAM_EPSILON: Final = 1e-5
_MIN_STD: Final = 1e-8

_log = logging.getLogger(__name__)


class PPO:
    """PPO without its environments: a policy, its optimiser, and the memory of one rollout."""

    def __init__(self, settings: PPOSettings, policy: Policy, n_envs: int, generator: torch.Generator) -> None:
        """Allocate the memory and make the optimiser; the generator draws the actions and the minibatches."""
        self._settings = settings
        self._policy = policy
        self._generator = generator
        header = policy.header
        self._rollout = Rollout(
            settings.n_steps, n_envs, header.n_features, header.n_actions, header.stacked_pixels, header.n_memory
        )
        # A recurrent policy learns from whole sequences of steps, so its minibatches are parts of the environments.
        self._order = torch.empty(n_envs if header.n_memory else self._rollout.n_transitions, dtype=torch.int64)
        self._parameters = list(policy.network.parameters())
        self._adam = Adam(self._parameters)
        self._stats: list[UpdateStats] = []
        self._passed_s = 0.0

    def collect(self, source: RolloutSource) -> None:
        """Collect one rollout; raises NonFiniteError if an environment returned NaN or infinity."""
        source.collect(self._policy, self._rollout, self._generator)

    def update(self, progress: float, env_steps: int) -> UpdateStats:
        """Update the policy with the last rollout and return statistics of the update.

        ``progress`` is the share of the run that is complete, 0..1; it sets the learning rate, the entropy bonus and
        the weight of the teacher.
        Raises DivergedError if a gradient is NaN or infinite, because the weights are not finite then either.
        """
        explained_variance = self._compute_targets()
        settings = self._settings
        lr = settings.lr + (settings.lr_end - settings.lr) * progress
        entropy_coef = settings.entropy + (settings.entropy_end - settings.entropy) * progress
        teacher_weight = settings.teacher_weight + (settings.teacher_weight_end - settings.teacher_weight) * progress
        means = self._optimise(lr, entropy_coef, teacher_weight)
        if not math.isfinite(means["grad_norm"]):
            raise DivergedError(env_steps, means["grad_norm"])
        stats = UpdateStats(
            env_steps=env_steps, explained_variance=explained_variance, lr=lr, entropy_coef=entropy_coef, **means
        )
        self._stats.append(stats)
        return stats

    def take_stats(self, seconds: float) -> list[UpdateStats]:
        """Return the statistics of the updates since the last call, and forget them.

        ``seconds`` is the training time since the last call (s), from which the updates per second follow.
        """
        self._passed_s += seconds
        if not self._stats:  # an update of a fleet may take longer
            return []
        rate, self._passed_s = len(self._stats) / self._passed_s, 0.0
        stats, self._stats = self._stats, []
        return [msgspec.structs.replace(each, updates_per_second=rate) for each in stats]

    def _compute_targets(self) -> float:
        """Compute advantages and value targets; return the explained variance of the critic."""
        rollout, moments = self._rollout, self._policy.value_moments
        advantages = generalised_advantages(rollout, self._settings.gae_lambda)
        corrections = rollout.weights * advantages
        returns = corrections + rollout.values[:-1]
        old = (float(moments.mean), float(moments.std))
        moments.update(returns.reshape(-1))
        new = (float(moments.mean), float(moments.std))
        self._policy.network.rescale_critic(old, new)
        rollout.returns.copy_(torch.from_numpy((returns - new[0]) / new[1]))
        normalised = (advantages - advantages.mean()) / (advantages.std() + _MIN_STD)
        # With the weights, the ratio in the loss starts at 1 for steps of an older policy, too: the decoupled objective
        # of Hilton et al. 2021, "Batch size-invariance for policy optimization", equation 5.
        rollout.advantages.copy_(torch.from_numpy(rollout.weights * normalised))
        return 1.0 - float(corrections.var() / max(returns.var(), _MIN_STD))

    def _optimise(self, lr: float, entropy_coef: float, teacher_weight: float) -> dict[str, float]:
        """Pass over the rollout ``n_epochs`` times; return the means of the measurements by name."""
        measurements: list[dict[str, Tensor]] = []
        for _ in range(self._settings.n_epochs):
            epoch: list[dict[str, Tensor]] = []
            for batch in self._minibatches():
                loss, measured = self._loss(batch, entropy_coef, teacher_weight)
                self._policy.network.zero_grad()
                torch.autograd.backward(loss)
                measured["grad_norm"] = nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm)
                gradients = [each.grad for each in self._parameters if each.grad is not None]  # each is in the loss
                self._adam.step(gradients, lr=lr, epsilon=_ADAM_EPSILON)
                epoch.append(measured)
            measurements += epoch
            moved = sum(float(measured["approx_kl"]) for measured in epoch) / len(epoch)
            if 0.0 < self._settings.target_kl < moved:
                break
        names = measurements[0]
        return {name: float(torch.stack([m[name] for m in measurements]).mean()) for name in names}

    def _minibatches(self) -> Iterator[Minibatch]:
        """Yield the rollout in shuffled parts of equal size, with new random shifts of the pixels."""
        n_parts = max(1, round(self._rollout.n_transitions / self._settings.minibatch_size))
        select = self._rollout.select_environments if self._policy.header.n_memory else self._rollout.select
        torch.randperm(len(self._order), generator=self._generator, out=self._order)
        for index in self._order.tensor_split(min(n_parts, len(self._order))):
            batch = select(index)
            shift_px = self._settings.shift_px
            if shift_px and batch.pixels is not None:
                offsets = torch.randint(-shift_px, shift_px + 1, (len(index), 2), generator=self._generator)
                batch = batch._replace(pixels=shift_pixels(batch.pixels, offsets))
            yield batch.to(self._policy.device)

    def _loss(self, batch: Minibatch, entropy_coef: float, teacher_weight: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch, and measurements by name."""
        network = self._policy.network
        if batch.memory is not None and batch.is_first is not None:
            logits, values = network.unroll(batch.obs, batch.pixels, batch.memory, batch.is_first)
        else:
            logits, values = network(batch.obs, batch.pixels)
        log_probs = masked_log_probs(logits, batch.blocked)
        # Equation 7 of Schulman et al. 2017, negated: the minimum of the unclipped and the clipped objective.
        log_ratio = log_probs.gather(-1, batch.actions).squeeze(-1) - batch.log_probs
        ratio = log_ratio.exp()
        clip = self._settings.clip
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        policy_loss = -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
        value_loss = nn.functional.mse_loss(values, batch.returns)
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1).mean()
        loss = policy_loss + self._settings.value_coef * value_loss - entropy_coef * entropy
        with torch.no_grad():
            measured = {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": (ratio - 1.0 - log_ratio).mean(),
                "clip_fraction": ((ratio - 1.0).abs() > clip).float().mean(),
            }
        if batch.teacher is not None:
            teacher_loss = -(batch.teacher * log_probs).sum(dim=-1).mean()
            loss = loss + teacher_weight * teacher_loss
            measured["teacher_loss"] = teacher_loss.detach()
        return loss, measured

    def adjust(self, settings: PPOSettings) -> None:
        """Use other settings from now on; only the adjustable ones may differ."""
        self._settings = settings

    def state(self) -> Tensors:
        """Return copies of the state of the optimiser and the random generator, without the policy."""
        tensors: Tensors = {"generator": self._generator.get_state().numpy().copy()}
        return tensors | join_parts({"adam": self._adam.state()})

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned."""
        self._generator.set_state(torch.from_numpy(np.array(state["generator"])))
        self._adam.load(take_part(state, "adam"))


class PPOAlgorithm(Algorithm):
    """PPO as the training loop calls it."""

    def __init__(
        self,
        settings: TrainSettings,
        env: VectorEnv[Any, Any, Any],
        policy: Policy,
        generator: torch.Generator,
        teacher: Policy | None = None,
    ) -> None:
        """Make the learner and the collector for an environment, which :meth:`close` closes."""
        self._settings = settings
        self._env = env
        self._policy = policy
        self._learner = PPO(settings.learner, policy, env.num_envs, generator)
        self._collector = Collector(
            env, settings.learner.gamma, settings.env.frame_stack, settings.network.memory, teacher
        )
        self._progress = 0.0

    @property
    def env_steps(self) -> int:
        """Number of game decisions, all environments together."""
        return self._collector.env_steps

    @property
    def episodes(self) -> EpisodeTracker:
        """Statistics of the training episodes."""
        return self._collector.tracker

    def start(self) -> None:
        """Reset the environments for a new run."""
        self._collector.reset(environment_seed(self._settings.run.seed, TRAINING))

    def show_live(self, live: LiveFeed) -> None:
        """Show the first environment in a feed."""
        live.open(self._env)
        self._collector.live = live

    def act(self) -> None:
        """Collect one rollout."""
        self._progress = min(1.0, self.env_steps / self._settings.run.total_steps)
        self._learner.collect(self._collector)

    def update(self) -> None:
        """Update the policy with the rollout."""
        self._learner.update(self._progress, self.env_steps)

    def adjust(self, changes: Mapping[str, float]) -> None:
        """Change settings by path; see `Algorithm.adjust`."""
        self._learner.adjust(adjust_settings(self._settings, changes).learner)

    def state(self, *, with_env: bool) -> AlgorithmState:
        """Return copies of everything that :meth:`load` needs."""
        base = stateful(self._env) if with_env else None
        parts = {
            "policy": self._policy.state(),
            "learner": self._learner.state(),
            "collector": self._collector.state(),
            "env": base.get_state() if base is not None else {},
        }
        return AlgorithmState(join_parts(parts), {})

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        tensors = checkpoint.tensors
        self._policy.load_state(take_part(tensors, "policy"), checkpoint.path)
        self._learner.load(take_part(tensors, "learner"))
        if "run/counts" in tensors:  # of a fleet, whose environments are elsewhere
            env_steps, n_episodes, _ = tensors["run/counts"].tolist()
            self._collector.continue_from(env_steps, n_episodes)
        else:
            self._collector.load(take_part(tensors, "collector"))
        env_state, base = take_part(tensors, "env"), stateful(self._env)
        # Gymnasium requires a reset first; the saved state then replaces its result.
        seed = environment_seed(self._settings.run.seed + self.env_steps, TRAINING)
        if env_state and base is not None:
            self._env.reset(seed=seed)
            base.set_state(env_state)
        else:
            _log.info("%s holds no state of the environment; new episodes start", checkpoint.path)
            self._collector.reset(seed)

    def policy_header(self) -> dict[str, Any]:
        """Return the header of the policy, with the present number of game decisions."""
        return self._policy.count_decisions(self.env_steps)

    def best_estimate(self) -> AbstractContextManager[Policy]:
        """Return a context with the policy; PPO evaluates and saves the newest weights."""
        return nullcontext(self._policy)

    def report(self, seconds: float) -> list[Message]:
        """Return the statistics of the updates since the last call, and of the fights."""
        stats: list[Message] = [*self._learner.take_stats(seconds)]
        fights = self.episodes.fights.take(self.env_steps, seconds)
        return [*stats, fights] if fights is not None else stats

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def open_ppo(
    folder: RunFolder[TrainSettings], initialise: Callable[[Policy, VectorEnv[Any, Any, Any]], None]
) -> PPOAlgorithm:
    """Make the environments and the policy of a run.

    ``initialise`` is called with the new policy and the environments; it may replace the random weights. Raises
    EnvironmentUsageError if the environment does not support training, and the errors of `open_teacher`.
    """
    settings = folder.settings
    env = make_vector(settings.env.id, settings.env.n_envs, folder.options)
    try:
        generator = torch.Generator().manual_seed(settings.run.seed)
        header = PolicyHeader(**header_fields(settings, sizes(env)), network=settings.network)
        policy = Policy(header, generator, select_device(settings.run.device))
        initialise(policy, env)
        teacher = _teacher_of(folder, header, env) if settings.learner.teacher else None
        return PPOAlgorithm(settings, env, policy, generator, teacher)
    except BaseException:
        env.close()
        raise


def _teacher_of(folder: RunFolder[TrainSettings], header: PolicyHeader, env: VectorEnv[Any, Any, Any]) -> Policy:
    """Read the teacher; a resumed run reads the copy in its folder, because the original may have changed or moved."""
    copy = folder.path / TEACHER_NAME
    if folder.checkpoint is not None:
        return open_teacher(copy, header, env)
    teacher = open_teacher(Path(folder.settings.learner.teacher), header, env)
    with writing(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
    teacher.save(copy)
    return teacher


def open_teacher(path: Path, header: PolicyHeader, env: VectorEnv[Any, Any, Any]) -> Policy:
    """Read the policy that a new policy imitates, from a file, the folder of a run, or the name of a shipped policy.

    Raises:
        CheckpointError: It cannot be read, or does not match the observations or actions of the environment.
        ConfigError: It is not a PPO policy, or has a memory or other frames than the new policy.
    """
    teacher = load_player(path)
    if not isinstance(teacher, Policy) or teacher.header.n_memory:
        raise ConfigError(
            f"{path} is not a policy of PPO, or has a memory; name a policy of PPO without network.memory",
            path="learner.teacher",
        )
    there = teacher.header
    pixels = header.pixels if there.pixels is not None else None
    if pixels is not None and there.frame_stack != header.frame_stack:
        raise ConfigError(
            f"{path} sees {there.frame_stack} frames, but env.frame_stack is {header.frame_stack}; set it to "
            f"{there.frame_stack}, or name another policy",
            path="learner.teacher",
        )
    known = sizes(env)._replace(pixels=pixels)
    there.check_env(header.env_id, known, path, alike=env.metadata.get("policies_of", ()))
    return teacher
