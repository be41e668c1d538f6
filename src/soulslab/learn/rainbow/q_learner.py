"""One update of Rainbow.

Hessel et al. 2018, "Rainbow: Combining improvements in deep reinforcement learning", with later improvements:

1. Draw transitions from the replay buffer, those with large errors more often (:mod:`soulslab.learn.replay`). Each
   covers n steps; a step of k game decisions is discounted by ``gamma ** k``.
2. Compute their targets: the rewards plus the value of the best allowed action in the observation after n steps
   (:mod:`soulslab.learn.rainbow.q_targets`).
3. Move the quantiles of the actions taken towards the targets with one step of AdamW.
4. Move the target network towards the online network, and set the priorities to the errors.

The policy that is evaluated and saved has the average of the weights, because the online policy fluctuates between
updates (Polyak & Juditsky 1992, "Acceleration of stochastic approximation by averaging").

Pixels may be shifted at random in each draw, so that the values do not depend on the exact place of what they show
(Kostrikov, Yarats & Fergus 2021, "Image augmentation is all you need").

The action masks of the environment apply to acting and to the targets: a forbidden action is never chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.learn.adam import Adam
from soulslab.learn.archive import Tensors, join_parts
from soulslab.learn.rainbow.demonstration_learning import MixedReplay
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.q_targets import QuantileLoss, greedy_targets, munchausen_targets
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Batch
from soulslab.learn.settings import ReplaySettings


class Measured(NamedTuple):
    """Measurements of one update: those of `QuantileLoss`, and the norm of the gradient before clipping."""

    loss: float
    q_mean: float
    q_max: float
    td_error: float
    grad_norm: float


class BaseLearner(ABC):
    """A policy, its target network and its optimiser, with the number of updates so far."""

    _replay: ReplayBuffer | MixedReplay
    _places: Tensor  # of the last draw

    def __init__(
        self,
        settings: QLearningSettings,
        replay_settings: ReplaySettings,
        policy: QPolicy,
        rng: np.random.Generator,
    ) -> None:
        self._settings = settings
        self._replay_settings = replay_settings
        self._policy = policy
        self._rng = rng
        self.n_updates = 0
        network = policy.network
        self._target = policy.copy_network()
        self._average = network.parameters_flat.clone()
        self._adam = Adam([network.parameters_flat])

    def update(self, progress: float) -> Measured:
        """Make one update when a share of the run is complete, 0..1; raises ReplayError without transitions."""
        return self._learn_from_replay(self.beta(progress))

    def adjust(self, settings: QLearningSettings) -> None:
        """Use other settings from now on; only the adjustable ones may differ."""
        self._settings = settings

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the policy the average of its weights inside the ``with`` block, for evaluating and saving."""
        parameters = self._policy.network.parameters_flat
        online = parameters.clone()
        parameters.copy_(self._average)
        try:
            yield
        finally:
            parameters.copy_(online)

    @property
    def priority_mean(self) -> float:
        """Mean priority of the transitions drawn last."""
        return float(self._replay.priorities(self._places).mean())

    def beta(self, progress: float) -> float:
        """Return the share of the sampling bias that is corrected when a share of the run is complete, 0..1."""
        replay = self._replay_settings
        return replay.beta + (replay.beta_end - replay.beta) * progress

    @abstractmethod
    def _learn_from_replay(self, beta: float) -> Measured:
        """Draw from the replay buffer, learn from it, and set its priorities."""

    def _place_pixels(self, pixels: Tensor | None, n_samples: int) -> Tensor | None:
        return self._policy.place_pixels(pixels, self._settings.shift_px, n_samples, self._rng)

    def _descend(self, found: tuple[float, float, float, float]) -> Measured:
        """Make a step with the gradient of the network, and move the target network and the average."""
        settings, network = self._settings, self._policy.network
        grad_norm = float(network.gradients_flat.norm())
        if grad_norm > settings.max_grad_norm:
            network.gradients_flat.mul_(settings.max_grad_norm / grad_norm)
        self._adam.step(
            [network.gradients_flat],
            lr=settings.lr,
            epsilon=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
        )
        self.n_updates += 1
        if self.n_updates % settings.target_every == 0:
            self._target.parameters_flat.lerp_(network.parameters_flat, settings.target_tau)
        # Until there are enough updates, the average is their plain mean.
        share = max(settings.average_tau, 1.0 / self.n_updates)
        self._average.lerp_(network.parameters_flat, share)
        return Measured(*found, grad_norm=grad_norm)

    def _bootstrap(
        self,
        here: tuple[Tensor, Tensor, Tensor] | None,
        following: tuple[Tensor, Tensor, Tensor],
        rewards: Tensor,
        discounts: Tensor,
    ) -> Tensor:
        """Return the targets from ``here`` of `munchausen_targets`, None without it, and the next observations.

        ``following`` are the first three arguments of `greedy_targets`.
        """
        settings = self._settings
        chooser, judge, blocked = following
        if not settings.is_target_masked:
            blocked = torch.zeros_like(blocked)
        if here is not None:
            factors = {"weight": settings.munchausen, "temperature": settings.munchausen_temperature}
            return munchausen_targets(here, (judge, blocked), rewards, discounts, **factors)
        return greedy_targets(chooser, judge, blocked, rewards, discounts)

    def state(self) -> Tensors:
        """Return copies of everything but the policy and the replay buffer."""
        tensors: Tensors = {
            "counts": np.array([self.n_updates]),
            "target": self._target.parameters_flat.cpu().numpy().copy(),
            "average": self._average.cpu().numpy().copy(),
        }
        adam = {name: tensor.cpu().numpy().copy() for name, tensor in self._moments().items()}
        return tensors | join_parts({"adam": adam})

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned."""
        self.n_updates = int(state["counts"][0])
        self._target.parameters_flat.copy_(torch.from_numpy(np.array(state["target"])))
        self._average.copy_(torch.from_numpy(np.array(state["average"])))
        # The fused step iterates over memory, so its arguments must have the size of the parameters.
        for name, tensor in self._moments().items():
            tensor.copy_(torch.from_numpy(np.array(state[f"adam/{name}"])))

    def _moments(self) -> dict[str, Tensor]:
        """Return the tensors of the optimiser, by their name in a checkpoint."""
        adam = self._adam
        return {"mean": adam.means[0], "square": adam.squares[0], "n_steps": adam.n_steps[0]}


class Learner(BaseLearner):
    """A learner that draws transitions."""

    def __init__(
        self,
        settings: QLearningSettings,
        replay_settings: ReplaySettings,
        policy: QPolicy,
        replay: ReplayBuffer | MixedReplay,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(settings, replay_settings, policy, rng)
        self._replay = replay
        self._batch = replay.make_batch(settings.batch_size)
        self._places = self._batch.places
        self._features = torch.empty(2 * settings.batch_size, policy.encoding.n_outputs)
        self._loss = QuantileLoss(settings.batch_size, policy.network.taus)

    def _learn_from_replay(self, beta: float) -> Measured:
        settings, batch = self._settings, self._batch
        self._replay.sample(batch, n_steps=settings.n_steps, gamma=settings.gamma, beta=beta, rng=self._rng)
        measured = self.learn(batch)
        self._replay.set_priorities(batch.places, self._loss.errors)
        return measured

    @torch.no_grad()
    def learn(self, batch: Batch) -> Measured:
        """Make one step of gradient descent on a batch, and move the target network."""
        settings, network = self._settings, self._policy.network
        n_rows = len(batch.actions)
        features = self._features
        self._policy.normalise(batch.features, out=features[:n_rows])
        self._policy.normalise(batch.next_features, out=features[n_rows:])
        features = features.to(self._policy.device)
        # The observations before and after the n steps have independent shifts.
        here, following = (self._place_pixels(seen, n_rows) for seen in (batch.pixels, batch.next_pixels))
        if settings.is_double and not settings.munchausen:
            pixels = torch.cat((here, following)) if here is not None and following is not None else None
            both = network.forward_both(features, pixels, n_rows).cpu()
            online, chooser = both[:n_rows], both[n_rows:]
        else:
            online, chooser = network.forward_both(features[:n_rows], here, n_rows).cpu(), None
        targets = self._targets(batch, features, (here, following), chooser)
        found = self._loss(online, batch.actions, batch.blocked, targets, batch.weights)
        network.backward(self._loss.gradient, batch.actions)
        return self._descend(found)

    def _targets(
        self, batch: Batch, features: Tensor, pixels: tuple[Tensor | None, Tensor | None], chooser: Tensor | None
    ) -> Tensor:
        """Return the targets for the quantiles of the actions taken, float32 (B, Q)."""
        n_rows = len(batch.actions)
        judge = self._target(features[n_rows:], pixels[1]).cpu()
        here = None
        if self._settings.munchausen:
            here = (self._target(features[:n_rows], pixels[0]).cpu(), batch.blocked, batch.actions)
        following = (chooser if chooser is not None else judge, judge, batch.next_blocked)
        return self._bootstrap(here, following, batch.rewards, batch.discounts)
