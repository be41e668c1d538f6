"""Where the environments are played, as the learner sees it: in turn with learning, or in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.learn.actors.actor_status import LATE_S
from soulslab.learn.actors.step_lateness import Stopwatch
from soulslab.learn.actors.transport import InProcessTransport, LearnerEnd
from soulslab.learn.archive import Tensors
from soulslab.learn.environment import TRAINING, environment_seed, stateful
from soulslab.learn.rainbow.actor import Actor, step_shape
from soulslab.learn.rainbow.policy import QPolicy
from soulslab.learn.randomness import load_rng, rng_state
from soulslab.learn.replay.elements import row_type
from soulslab.learn.telemetry import ActorStats

_PLAYING = 2
"""Purpose number of the actor's random actions; 0 and 1 are the environments' (:mod:`soulslab.learn.environment`)."""


class Playing(Protocol):
    """An actor and its environments, wherever they are."""

    @property
    def channel(self) -> LearnerEnd:
        """The learner's end of the way there."""

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Begin to play, anew or from what :meth:`state` returned after so many decisions."""

    def advance(self) -> None:
        """Play a step, or wait a moment for what is played elsewhere."""

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return how the actor fares, for a learner that has made so many updates."""

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs; the environment's own state only if it is to be trusted."""

    def saved(self) -> None:
        """Hear that all that was taken from the channel so far is safe in a checkpoint."""

    def finish(self) -> None:
        """Stop playing; what was played until then still comes through the channel."""

    def close(self) -> None:
        """Stop playing and free the environments."""


class LocalActor:
    """Plays in this process, one step whenever it is asked."""

    def __init__(self, env: VectorEnv[Any, Any, Any], policy: QPolicy, seed: int) -> None:
        """Take over an environment.

        Args:
            env: From :func:`soulslab.learn.environment.make_vector`; closed at the end.
            policy: A policy of its own for the actor.
            seed: Of the run.
        """
        self._lateness = _Lateness()
        self._env = Stopwatch(env, self._lateness)
        self._seed = seed
        self.channel = InProcessTransport(row_type(step_shape(policy)), env.num_envs)
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLAYING,)))
        self._actor = Actor(self._env, policy, self.channel, self._rng)

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Begin anew, or go on exactly if the environment's state is known; else with fresh episodes."""
        self._actor.reset(environment_seed(self._seed + env_steps, TRAINING))
        if state is None or "rng" not in state:  # an actor apart keeps its own
            return
        load_rng(self._rng, state["rng"])
        if "n_late" in state:  # older checkpoints have none
            self._lateness.n_late = int(state["n_late"][0])
        env_state, base = _part(state, "env"), stateful(self._env)
        if env_state and base is not None:
            base.set_state(env_state)
            self._actor.load(_part(state, "actor"))
        else:
            self._actor.env_steps = env_steps

    def advance(self) -> None:
        """Play one step."""
        self._actor.step()

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return how the actor fares; it can lose no steps here, but it comes late where a game does not wait."""
        return ActorStats(
            env_steps=env_steps,
            staleness_updates=version - max(0, self._actor.weights_version),
            n_dropped=0,
            n_late=self._lateness.n_late,
            lateness_p99_ms=self._lateness.take_p99_ms(),
            n_restarts=0,
        )

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs."""
        base = stateful(self._env) if with_env else None
        tensors: Tensors = {"rng": rng_state(self._rng), "n_late": np.array([self._lateness.n_late])}
        tensors |= {f"actor/{name}": array for name, array in self._actor.state().items()}
        return tensors | {f"env/{name}": array for name, array in (base.get_state() if base else {}).items()}

    def saved(self) -> None:
        """Nothing is kept that a checkpoint would free."""

    def finish(self) -> None:
        """Nothing plays on by itself."""

    def close(self) -> None:
        """Free the environments."""
        with closing(self._env):
            pass


class _Lateness:
    """Counts the steps that were late, where the environment tells (`apart.stopwatch.LATENESS`)."""

    def __init__(self) -> None:
        self.n_late = 0
        self._untold_s: list[float] = []

    def note_step(self, late_s: float | None) -> None:
        """Count a step that was so late (s)."""
        if late_s is not None:
            self.n_late += late_s > LATE_S
            self._untold_s.append(late_s)

    def take_p99_ms(self) -> float | None:
        """Return the 99th percentile since the last call (ms); None if no step told its lateness."""
        told_s, self._untold_s = self._untold_s, []
        return 1000.0 * float(np.quantile(told_s, 0.99)) if told_s else None


def _part(tensors: Mapping[str, NDArray[Any]], name: str) -> Tensors:
    prefix = f"{name}/"
    return {key[len(prefix) :]: array for key, array in tensors.items() if key.startswith(prefix)}
