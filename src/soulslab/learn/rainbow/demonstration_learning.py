"""Recorded episodes in a Rainbow run: a share of each batch, cloning at the start, and cloning during learning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors
from soulslab.learn.rainbow.behaviour_cloning import clone, cloner_of, cloning_weight
from soulslab.learn.rainbow.mixed_replay import MixedReplay, shown_replay
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import StepShape

_SHOWN, _CLONER = "shown/", "cloner/"

_log = logging.getLogger(__name__)


class DemonstrationLearning:
    """Uses recorded episodes in a run.

    ::

        teaching = DemonstrationLearning(settings, rows, shape, own, policy, rng)
        teaching.begin()                       # or load() in a resumed run
        learner = Learner(..., teaching.replay, rng)
        while ...:
            learner.update(progress)
            teaching.after_update(learner.n_updates, env_steps)

    Attributes:
        replay: Replay buffer for the learner, with both kinds of transitions.
    """

    def __init__(
        self,
        settings: RainbowSettings,
        rows: NDArray[Any],
        shape: StepShape,
        own: ReplayBuffer,
        policy: QPolicy,
        rng: np.random.Generator,
    ) -> None:
        """Store the recorded episodes in a replay buffer.

        Args:
            settings: Settings of the run.
            rows: From :func:`soulslab.learn.demonstrations.reading.read_demonstrations`.
            shape: Sizes of a step.
            own: Replay buffer with the transitions of the policy.
            policy: The policy to train.
            rng: Random generator of the draws; the learner uses the same one.
        """
        self._settings = settings.demonstrations
        self._features = rows["features"]
        self._policy = policy
        self._shown = shown_replay(rows, shape, settings.replay)
        self._cloner = cloner_of(policy, self._shown, rng, self._settings)
        self.replay = MixedReplay(own, self._shown, self._settings.share)

    def begin(self) -> None:
        """Update the normaliser with the recorded features and clone, before the learner copies the weights."""
        self._policy.observe(self._features)
        n_updates = self._settings.cloning_updates
        if n_updates:
            found = clone(self._cloner, n_updates)
            _log.info("cloned for %d updates: %.0f %% of the actions agree", n_updates, 100 * found.agreement)

    def after_update(self, n_updates: int, env_steps: int) -> None:
        """Make an update of cloning, if it is due.

        Args:
            n_updates: Number of updates of the learner so far.
            env_steps: Number of game decisions so far.
        """
        every = self._settings.cloning_every
        if every and n_updates % every == 0 and (weight := cloning_weight(self._settings, env_steps)) > 0.0:
            self._cloner.update(weight)

    def state(self) -> Tensors:
        """Return copies of what :meth:`load` needs, without the policy, the random generator and the data set."""
        shown = {_SHOWN + name: array for name, array in self._shown.state().items()}
        return shown | {_CLONER + name: array for name, array in self._cloner.state().items()}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what :meth:`state` returned.

        Raises:
            ReplayError: The data set has another number of steps than before.
        """
        parts = {
            prefix: {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}
            for prefix in (_SHOWN, _CLONER)
        }
        self._shown.load(parts[_SHOWN])
        self._cloner.load(parts[_CLONER])
