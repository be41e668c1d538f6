"""A Gymnasium environment without a game, in real time: each step ends at the next deadline of a fixed interval.

It is for tests and benchmarks of timing. Its deadlines are on a grid of wall time, as those of
:class:`soulslab.envs.game.timing.RealtimeTiming`, and ``info["late_s"]`` has the same meaning. Importing this module
registers `PACED_ID`, so that ``gymnasium.make("soulslab.testing.paced_env:testing/Paced-v0")`` creates the environment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

PACED_ID: Final = "testing/Paced-v0"
LIFE, EPISODE, STEP = range(3)
"""Indices of the features that identify the environment, the episode and the step; the other features are noise."""


class Paced(gymnasium.Env[NDArray[np.float32], np.int64]):
    """An environment with a step every ``step_s``.

    By default it has as many features (at least 3) and actions (at least 2) as the built-in fight. The last action is
    masked. The reward is 1 for action 0, otherwise 0; or the sum of the terms in `reward`, which are ``first`` (1 for
    action 0) and ``step`` (1), with their weights. ``info["reward_terms"]`` has the weighted terms. The lateness and
    the agent's time of each step are written to the file `log`, if it is not ""; see `read_log`.
    """

    def __init__(
        self,
        step_s: float = 0.1,
        n_features: int = 74,
        n_actions: int = 20,
        n_steps: int = 100,
        log: str = "",
        reward: Mapping[str, float] | None = None,
    ) -> None:
        self.observation_space = Box(-np.inf, np.inf, (n_features,), np.float32)
        self.action_space = Discrete(n_actions)
        self._step_s = step_s
        self._n_steps = n_steps
        self._reward = {"first": 1.0} if reward is None else dict(reward)
        self._mask = np.arange(n_actions) < n_actions - 1
        self._obs = np.zeros(n_features, np.float32)
        self._end_at = self._observed_at = 0.0
        self._log = Path(log).open("ab", buffering=0) if log else None  # noqa: SIM115 - closed by `close`

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; its first deadline is one step from now."""
        super().reset(seed=seed, options=options)
        if self._obs[LIFE] == 0.0:
            self._obs[LIFE] = self.np_random.integers(1, 1 << 24)  # float32 holds it exactly
        self._obs[EPISODE] += 1.0
        self._obs[STEP] = 0.0
        self._end_at = time.perf_counter()
        return self._observe(), {"action_mask": self._mask.copy()}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Wait for the next deadline; ``info["late_s"]`` is the time by which it was missed (s)."""
        now = time.perf_counter()
        self._end_at += self._step_s
        if now > self._end_at:
            self._end_at += (now - self._end_at) // self._step_s * self._step_s
        time.sleep(max(0.0, self._end_at - time.perf_counter()))
        late_s = max(0.0, time.perf_counter() - self._end_at)
        if self._log is not None:
            self._log.write(np.array([late_s, now - self._observed_at]).tobytes())
        self._obs[STEP] += 1.0
        is_over = bool(self._obs[STEP] >= self._n_steps)
        quantities = {"first": float(action == 0), "step": 1.0}
        terms = {name: weight * quantities[name] for name, weight in self._reward.items()}
        info = {"action_mask": self._mask.copy(), "late_s": late_s, "reward_terms": terms}
        return self._observe(), sum(terms.values()), is_over, False, info

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def _observe(self) -> NDArray[np.float32]:
        obs = self._obs.copy()
        obs[STEP + 1 :] = self.np_random.standard_normal(len(obs) - STEP - 1, dtype=np.float32)
        self._observed_at = time.perf_counter()
        return obs


def read_log(path: Path) -> NDArray[np.float64]:
    """Return the lateness and the agent's time of each step (s), float64 (T, 2); an incomplete last row is ignored."""
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // 16 * 16]).reshape(-1, 2)


if PACED_ID not in gymnasium.registry:
    gymnasium.register(PACED_ID, entry_point=f"{__name__}:{Paced.__name__}")
