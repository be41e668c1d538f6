"""Recorded episodes in a Rainbow run: a share of each batch, cloning at the start, and cloning during learning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from soulslab.errors import DemonstrationError
from soulslab.learn.archive import Tensors, join_parts, take_part
from soulslab.learn.rainbow.behaviour_cloning import clone, cloner_of, cloning_weight
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Batch, StepShape
from soulslab.learn.settings import ReplaySettings


class MixedReplay:
    """Draws a fixed share of each batch from recorded episodes and the rest from the policy's transitions.

    Vecerik et al. 2017, "Leveraging demonstrations for deep reinforcement learning", store both in one buffer and mix
    them by priority. With a fixed share (Ball et al. 2023, "Efficient online reinforcement learning with offline data":
    one half) the mixture does not change while the policy's buffer grows a hundred times larger.
    """

    def __init__(self, own: ReplayBuffer, shown: ReplayBuffer, share: float) -> None:
        """Combine two sources; ``share`` of each batch is recorded, rounded to whole transitions."""
        self.own = own
        self.shown = shown
        self._share = share
        self._batch: Batch | None = None
        self._n_shown = 0
        self._parts: list[tuple[ReplayBuffer, slice, Batch]] = []

    def make_batch(self, batch_size: int) -> Batch:
        """Allocate a batch of ``batch_size`` transitions."""
        return self.own.make_batch(batch_size)

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Fill a batch, recorded transitions first; all are recorded ones while the policy has no transitions."""
        n = len(batch.actions)
        n_shown = round(self._share * n) if self.own.sampler.n_places else n
        if batch is not self._batch or n_shown != self._n_shown:  # the same batch is used repeatedly
            self._batch, self._n_shown = batch, n_shown
            halves = ((self.shown, slice(n_shown)), (self.own, slice(n_shown, n)))
            self._parts = [(source, rows, batch.part(rows)) for source, rows in halves if len(batch.actions[rows])]
        for source, _, part in self._parts:
            source.sample(part, n_steps=n_steps, gamma=gamma, beta=beta, rng=rng)

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of the last batch, whose places these are, float64 (B,)."""
        return np.concatenate([source.priorities(places[rows]) for source, rows, _ in self._parts])

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities of the last batch, whose places these are, from its errors, float32 (B,)."""
        for source, rows, _ in self._parts:
            source.set_priorities(places[rows], errors[rows])


def shown_replay(rows: NDArray[Any], shape: StepShape, settings: ReplaySettings) -> ReplayBuffer:
    """Return a replay buffer that holds all recorded episodes, from rows of `read_demonstrations`."""
    replay = ReplayBuffer(shape, msgspec.structs.replace(settings, capacity=len(rows), is_mapped=False), 1)
    replay.append(rows)
    return replay


_log = logging.getLogger(__name__)


class DemonstrationLearning:
    """Uses recorded episodes in a run; ``replay`` is the buffer for the learner, with both kinds of transitions."""

    def __init__(
        self,
        settings: RainbowSettings,
        rows: NDArray[Any],
        shape: StepShape,
        own: ReplayBuffer,
        policy: QPolicy,
        rng: np.random.Generator,
    ) -> None:
        """Store the rows of `read_demonstrations` in a replay buffer; the learner uses the same ``rng``."""
        self._settings = settings.demonstrations
        self._features = rows["features"]
        self._policy = policy
        self._shown = shown_replay(rows, shape, settings.replay)
        self._cloner = cloner_of(policy, self._shown, rng, self._settings, settings.learner.shift_px)
        self.replay = MixedReplay(own, self._shown, self._settings.share)

    def begin(self) -> None:
        """Update the normaliser with the recorded features and clone, before the learner copies the weights."""
        self._policy.observe(self._features)
        n_updates = self._settings.cloning_updates
        if n_updates:
            _log.info("cloning the recorded steps in %d updates, before the first fight", n_updates)
            found = clone(self._cloner, n_updates)
            _log.info("cloned for %d updates: %.0f %% of the actions agree", n_updates, 100 * found.agreement)

    def after_update(self, n_updates: int, env_steps: int) -> None:
        """Make an update of cloning, if it is due after these updates and game decisions."""
        every = self._settings.cloning_every
        if every and n_updates % every == 0 and (weight := cloning_weight(self._settings, env_steps)) > 0.0:
            self._cloner.update(weight)

    def state(self) -> Tensors:
        """Return copies of what :meth:`load` needs, without the policy, the random generator and the data set."""
        return join_parts({"shown": self._shown.state(), "cloner": self._cloner.state()})

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned; raises DemonstrationError for another number of recorded steps."""
        n_steps = int(np.sum(state["shown/written"]))
        if n_steps != len(self._features):
            raise DemonstrationError(
                self._settings.path,
                f"has {len(self._features)} steps, but had {n_steps} when the run began; restore it, or begin anew",
            )
        self._shown.load(take_part(state, "shown"))
        self._cloner.load(take_part(state, "cloner"))
