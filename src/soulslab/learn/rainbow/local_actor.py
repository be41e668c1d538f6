"""The interface of an actor for the learner, and the actor in the learner's process."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import VectorEnv

from soulslab.learn.actors.actor_status import LATE_S
from soulslab.learn.actors.step_lateness import LatenessWrapper
from soulslab.learn.actors.transport import InProcessTransport, LearnerEnd
from soulslab.learn.archive import Tensors
from soulslab.learn.environment import TRAINING, environment_seed, stateful
from soulslab.learn.generator_state import load_rng, rng_state
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.rainbow.transition_actor import Actor, step_shape
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.run_folder import part
from soulslab.learn.telemetry import ActorStats

_PLAYING = 2
"""Number of the purpose "random actions" in seed sequences; environments use 0 and 1."""


class ActorRunner(Protocol):
    """An actor and its environments, in this process or in another one."""

    @property
    def channel(self) -> LearnerEnd:
        """The learner's end of the transport."""

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Start acting, in a new run or from the state that :meth:`state` returned after ``env_steps`` decisions."""

    def advance(self) -> None:
        """Step the environments once, or wait a short time for the steps of a remote actor."""

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics of the actor, for a learner that has made ``version`` updates."""

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs; ``with_env`` is False after an environment failed."""

    def saved(self) -> None:
        """Free the steps that were taken before the last :meth:`state`, because a checkpoint holds them."""

    def finish(self) -> None:
        """Stop acting; the steps taken before can still be received from the transport."""

    def close(self) -> None:
        """Stop acting and close the environments."""


class LocalActor:
    """An actor in this process; it takes one step per call."""

    def __init__(self, env: VectorEnv[Any, Any, Any], policy: QPolicy, seed: int) -> None:
        """Make the actor for an environment.

        Args:
            env: From :func:`soulslab.learn.environment.make_vector`; closed by :meth:`close`.
            policy: A separate policy for the actor.
            seed: Seed of the run.
        """
        self._lateness = _Lateness()
        self._env = LatenessWrapper(env, self._lateness)
        self._seed = seed
        self.channel = InProcessTransport(row_type(step_shape(policy)), env.num_envs)
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLAYING,)))
        self._actor = Actor(self._env, policy, self.channel, self._rng)

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Start a new run, or continue exactly if the state of the environment is stored; else start new episodes."""
        self._actor.reset(environment_seed(self._seed + env_steps, TRAINING))
        if state is None or "rng" not in state:  # checkpoints with a remote actor have no generator
            return
        load_rng(self._rng, state["rng"])
        if "n_late" in state:  # older checkpoints lack it
            self._lateness.n_late = int(state["n_late"][0])
        env_state, base = part(state, "env"), stateful(self._env)
        if env_state and base is not None:
            base.set_state(env_state)
            self._actor.load(part(state, "actor"))
        else:
            self._actor.env_steps = env_steps

    def advance(self) -> None:
        """Step the environments once."""
        self._actor.step()

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics of the actor; no steps are lost, but steps are late if the game does not wait."""
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
        """Do nothing: no steps are stored."""

    def finish(self) -> None:
        """Do nothing: this actor steps only when called."""

    def close(self) -> None:
        """Close the environments."""
        with closing(self._env):
            pass


class _Lateness:
    """Counts late steps, if the environment reports them (`soulslab.learn.actors.step_lateness.LATENESS`)."""

    def __init__(self) -> None:
        self.n_late = 0
        self._untold_s: list[float] = []

    def note_step(self, late_s: float | None) -> None:
        """Count a step with its lateness (s)."""
        if late_s is not None:
            self.n_late += late_s > LATE_S
            self._untold_s.append(late_s)

    def take_p99_ms(self) -> float | None:
        """Return the 99th percentile since the last call (ms); None if no step reported its lateness."""
        told_s, self._untold_s = self._untold_s, []
        return 1000.0 * float(np.quantile(told_s, 0.99)) if told_s else None
