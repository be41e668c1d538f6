"""Small environments with the interface between environments and learners; the first two have masks.

``Lights`` is a contextual bandit: the observation shows the correct lever, and masked levers would have a larger
reward. ``Corridor`` is a walk of six cells with a reward at the end; its vector form can be saved, reports wins,
and has steps of two decisions. ``Late`` is a game in real time. ``Recall`` needs a policy that remembers.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv

N_LEVERS = 4
N_CUES = 2
N_TO_REMEMBER = 4
LENGTH = 6
LIMIT = 20


class Lights(gymnasium.Env[np.ndarray, int]):
    """An episode of one step: choose the lit lever. The last lever is always masked, and has reward 10."""

    def __init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (N_LEVERS,), np.float32)
        self.action_space = Discrete(N_LEVERS)
        self._lit = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._lit = int(self.np_random.integers(N_LEVERS - 1))
        return self._obs(), self._info()

    def step(self, action: int) -> Any:
        reward = 10.0 if action == N_LEVERS - 1 else float(action == self._lit)
        return self._obs(), reward, True, False, self._info()

    def _obs(self) -> np.ndarray:
        obs = np.zeros(N_LEVERS, np.float32)
        obs[self._lit] = 1.0
        return obs

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.arange(N_LEVERS) < N_LEVERS - 1}


class Corridor(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """N walks at once: 0 left, 1 right, 2 jump two cells (even cells only, two decisions), 3 never allowed.

    Reaching the last cell wins; leaving at the left end loses; after ``LIMIT`` steps the walk is truncated.

    With ``nan_at``, environment 2 returns a NaN reward at this call of ``step``. With ``is_named``, the features have
    the names ``cell_0``, ``cell_1`` and so on.
    """

    def __init__(
        self,
        num_envs: int,
        autoreset_mode: str = "same_step",
        reward: Any = None,
        nan_at: int = -1,
        is_named: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode(autoreset_mode)}
        self.single_observation_space = Box(0.0, 1.0, (LENGTH,), np.float32)
        self.single_action_space = Discrete(4)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.attack_names = ("fall", "boredom")
        self.feature_names = tuple(f"cell_{i}" for i in range(LENGTH)) if is_named else ()
        self._reward = reward
        self._nan_at = nan_at
        self._calls = 0
        self._cell = np.zeros(num_envs, np.int64)
        self._age = np.zeros(num_envs, np.int64)
        self._decisions = np.zeros(num_envs, np.int64)
        self._return = np.zeros(num_envs)
        self._random = np.zeros(num_envs, np.uint64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:  # noqa: ARG002
        self._random = np.arange(self.num_envs).astype(np.uint64) + np.uint64((seed or 0) + 1)
        self._start(np.ones(self.num_envs, np.bool_))
        return self._obs(), {"action_mask": self._mask()}

    def step(self, actions: np.ndarray) -> Any:
        allowed = self._mask()[np.arange(self.num_envs), actions]
        if not allowed.all():
            raise AssertionError(f"masked actions {actions[~allowed]}")
        self._calls += 1
        taken = np.where(actions == 2, 2, 1)
        self._cell = self._cell + np.choose(actions, [-1, 1, 2, 0])
        self._age += 1
        self._decisions += taken
        won, lost = self._cell >= LENGTH - 1, self._cell < 0
        terminated = won | lost
        truncated = (self._age >= LIMIT) & ~terminated
        rewards = won * 1.0 - lost * 1.0
        if self._reward is not None:
            rewards = rewards + np.array([self._reward(int(cell)) for cell in self._cell])
        if self._calls == self._nan_at:
            rewards[2] = np.nan
        self._return += rewards
        done = terminated | truncated
        info: dict[str, Any] = {"n_decisions": taken}
        if done.any():
            info |= self._final(done, won, lost)
            self._start(done)
        info["action_mask"] = self._mask()
        return self._obs(), rewards, terminated, truncated, info

    def get_state(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, f"_{name}").copy() for name in ("cell", "age", "decisions", "return", "random")}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        for name, array in state.items():
            setattr(self, f"_{name}", array.copy())

    def _final(self, done: np.ndarray, won: np.ndarray, lost: np.ndarray) -> dict[str, Any]:
        final_obs = np.full(self.num_envs, None, object)
        obs = self._obs()
        for i in np.flatnonzero(done):
            final_obs[i] = obs[i]
        damage = np.stack([lost * 10.0, self._age * 1.0], axis=1)
        fight = {
            "won": won,
            "n_decisions": self._decisions.copy(),
            "time_s": self._decisions * 0.1,
            "start_pose": np.arange(self.num_envs) % 2,
            "damage_taken": damage.sum(axis=1),
            "damage_by_attack": damage,
            "killed_by": np.where(lost, 0, -1),
            "return": self._return.copy(),
        }
        return {
            "final_obs": final_obs,
            "_final_obs": done.copy(),
            "final_info": {"fight": fight, "_fight": done.copy()},
            "_final_info": done.copy(),
        }

    def _start(self, where: np.ndarray) -> None:
        # xorshift64, whose state for each environment can be saved.
        x = self._random[where]
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        self._random[where] = x
        self._cell[where] = (x >> np.uint64(32)).astype(np.int64) % 3
        self._age[where] = 0
        self._decisions[where] = 0
        self._return[where] = 0.0

    def _obs(self) -> np.ndarray:
        cells = np.clip(self._cell, 0, LENGTH - 1)
        return (np.arange(LENGTH) == cells[:, None]).astype(np.float32)

    def _mask(self) -> np.ndarray:
        mask = np.ones((self.num_envs, 4), np.bool_)
        mask[:, 2] = self._cell % 2 == 0
        mask[:, 3] = False
        return mask


class Recall(gymnasium.Env[np.ndarray, int]):
    """The first observation shows a cue, the last one asks for it: reward 1 for the action with its number."""

    def __init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (N_CUES + 1,), np.float32)
        self.action_space = Discrete(N_CUES)
        self._cue = self._age = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._cue, self._age = int(self.np_random.integers(N_CUES)), 0
        return self._obs(), {}

    def step(self, action: int) -> Any:
        self._age += 1
        is_over = self._age > N_TO_REMEMBER
        return self._obs(), float(is_over and action == self._cue), is_over, False, {}

    def _obs(self) -> np.ndarray:
        obs = np.zeros(N_CUES + 1, np.float32)
        if self._age == 0:
            obs[self._cue] = 1.0
        obs[-1] = self._age / N_TO_REMEMBER
        return obs


class Late(gymnasium.Env[np.ndarray, int]):
    """Reports a lateness of 10 ms for each of the three steps of an episode."""

    observation_space = Box(0.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._n = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:  # noqa: ARG002
        self._n += 1
        return np.zeros(1, np.float32), 0.0, self._n == 3, False, {"late_s": 0.01 * self._n}


def register_toys() -> None:
    """Register the environments with Gymnasium; a second call does nothing."""
    if "toys/Lights-v0" not in gymnasium.registry:
        gymnasium.register("toys/Lights-v0", entry_point=Lights)
        gymnasium.register("toys/Corridor-v0", vector_entry_point=Corridor)
        gymnasium.register("toys/Late-v0", entry_point=Late)
        gymnasium.register("toys/Recall-v0", entry_point=Recall)
