"""An actor in the process of the learner, which takes turns with the updates."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from soulslab.learn.actors.actor_status import LATE_S, LatenessWrapper
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.actors.transport import InProcessTransport
from soulslab.learn.archive import Tensors, join_parts, take_part
from soulslab.learn.checkpoint import load_rng, rng_state
from soulslab.learn.environment import TRAINING, environment_seed, stateful
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.telemetry import ActorStats

_PLAYING = 2
"""Number of the purpose "random actions" in seed sequences; environments use 0 and 1."""


class LocalActor:
    """An actor in this process, as an `ActorHandle`."""

    is_remote = has_values = False

    def __init__(self, env: VectorEnv[Any, Any, Any], policy: QPolicy, seed: int) -> None:
        """Make the actor for an environment, which it closes, with a separate policy for the actor."""
        self._n_late = 0
        self._unreported_s: list[float] = []  # lateness of the steps since the last statistics
        self._env = LatenessWrapper(env, self.note_step)
        self._seed = seed
        self.channel = InProcessTransport(row_type(step_shape(policy.header)), env.num_envs)
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLAYING,)))
        self._actor = Actor(self._env, policy, self.channel, self._rng)

    def begin(self, state: Tensors | None, env_steps: int) -> None:
        """Start a new run, or continue exactly if the state of the environment is stored; else start new episodes."""
        self._actor.reset(environment_seed(self._seed + env_steps, TRAINING))
        if state is None or "rng" not in state:  # checkpoints with a remote actor have no generator
            return
        load_rng(self._rng, state["rng"])
        if "n_late" in state:  # older checkpoints lack it
            self._n_late = int(state["n_late"][0])
        env_state, base = take_part(state, "env"), stateful(self._env)
        if env_state and base is not None:
            base.set_state(env_state)
            self._actor.load(take_part(state, "actor"))
        else:
            self._actor.env_steps = env_steps

    def show_live(self, live: LiveFeed) -> None:
        """Show the first environment in a feed."""
        live.open(self._env)
        self._actor.live = live

    def advance(self, n_updates_due: float = 0.0) -> None:
        """Step the environments once; the learner calls this only when no updates are due."""
        del n_updates_due
        self._actor.step()

    def note_step(self, late_s: float | None) -> None:
        """Count a step with its lateness (s), which a game that does not wait reports in its info."""
        if late_s is not None:
            self._n_late += late_s > LATE_S
            self._unreported_s.append(late_s)

    def stats(self, env_steps: int, version: int) -> ActorStats:
        """Return statistics of the actor; no steps are lost, but steps are late if the game does not wait."""
        late_s, self._unreported_s = self._unreported_s, []
        return ActorStats(
            env_steps=env_steps,
            staleness_updates=version - max(0, self._actor.weights_version),
            n_dropped=0,
            n_late=self._n_late,
            lateness_p99_ms=1000.0 * float(np.quantile(late_s, 0.99)) if late_s else None,
            n_restarts=0,
        )

    def state(self, *, with_env: bool) -> Tensors:
        """Return what :meth:`begin` needs."""
        base = stateful(self._env) if with_env else None
        parts = join_parts({"actor": self._actor.state(), "env": base.get_state() if base else {}})
        return {"rng": rng_state(self._rng), "n_late": np.array([self._n_late]), **parts}

    def saved(self) -> None:
        """Do nothing: no steps are stored."""

    def finish(self) -> None:
        """Do nothing: this actor steps only when called."""

    def close(self) -> None:
        """Close the environments."""
        self._env.close()
