"""Lets stable-baselines3 play a Gymnasium vector environment without a Python loop over its environments' steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv


class VectorAdapter(VecEnv):
    """A Gymnasium vector environment with same-step autoreset as stable-baselines3 wants it."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        """Wrap an environment whose observations are copies: stable-baselines3 stores them a step later."""
        self._env = env
        self._actions = np.zeros(env.num_envs, np.int64)
        self._masks = np.ones((env.num_envs, 1), np.bool_)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> NDArray[np.float32]:
        """Begin fresh episodes, with the seeds that were set."""
        obs, info = self._env.reset(seed=self._seeds[0])  # ours gives environment i the seed s + i, as theirs does
        self._reset_seeds()
        self._masks = info["action_mask"]
        result: NDArray[np.float32] = obs
        return result

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step; see `VecEnv.step_wait`."""
        obs, rewards, terminated, truncated, info = self._env.step(self._actions)
        self._masks = info["action_mask"]
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [{"n_decisions": n} for n in info["n_decisions"].tolist()]
        for place in np.flatnonzero(dones).tolist():
            infos[place]["terminal_observation"] = info["final_obs"][place]
            infos[place]["TimeLimit.truncated"] = bool(truncated[place] and not terminated[place])
            infos[place]["fight"] = {"won": info["final_info"]["fight"]["won"][place]}
        return obs, rewards, dones, infos

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute per environment; there are ``render_mode`` and ``action_masks``."""
        known = {"render_mode": None, "action_masks": self._masks}
        if attr_name not in known:
            raise AttributeError(attr_name)
        return [known[attr_name]] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002 (their signature)
        """There is nothing to set."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *_: Any, indices: Any = None, **__: Any) -> list[Any]:
        """Return the open actions of each environment (A,), which is the one method there is."""
        if method_name != "action_masks":
            raise AttributeError(method_name)
        return [self._masks[place] for place in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002 (their signature)
        """Nothing is wrapped one by one."""
        return [False] * len(list(self._get_indices(indices)))
