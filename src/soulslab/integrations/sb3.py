"""Vector environments of soulslab for stable-baselines3, without a Python loop over single environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from soulslab.envs.registration import register_all
from soulslab.errors import EnvironmentUsageError, optional_imports

with optional_imports():
    from stable_baselines3.common.vec_env import VecEnv as _VecEnv


class VecEnv(_VecEnv):
    """A Gymnasium vector environment as stable-baselines3's ``VecEnv``.

    All N environments step in one call. Each entry of ``infos`` contains ``n_decisions``; at the end of an episode it
    also contains ``terminal_observation``, ``TimeLimit.truncated``, and the info of the last step, such as ``fight``.
    ``env_method("action_masks")`` returns the action masks for MaskablePPO of sb3-contrib. Use stable-baselines3's
    ``VecMonitor`` to log returns, and ``VecNormalize`` to normalise.

    Args:
        env: Gymnasium id of a soulslab environment, or a vector environment with same-step autoreset and copied
            observations.
        n_envs: Number of environments, N, if `env` is an id.
        options: Options of the environment, if `env` is an id.

    Raises:
        EnvironmentUsageError: The environment uses another autoreset mode, reuses its buffers, or has a space that
            stable-baselines3 does not support; or `options` were given together with an environment.
    """

    def __init__(self, env: str | VectorEnv[Any, Any, Any], n_envs: int = 8, **options: Any) -> None:
        if isinstance(env, str):
            register_all()
            env = gymnasium.make_vec(
                env,
                num_envs=n_envs,
                vectorization_mode="vector_entry_point",
                autoreset_mode=AutoresetMode.SAME_STEP.value,
                **options,
            )
        elif options:
            raise EnvironmentUsageError(f"options require an environment id: {', '.join(options)}")
        _check(env)
        self._env = env
        self._actions: NDArray[Any] = np.zeros(0)
        self._masks: NDArray[np.bool_] | None = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        # Set before the first reset, so that the attribute always exists.
        if isinstance(env.single_action_space, spaces.Discrete):
            self._masks = np.ones((env.num_envs, int(env.single_action_space.n)), np.bool_)

    def reset(self) -> Any:
        """Start new episodes with the seeds and options that were set; return observations, (N, ...)."""
        seeds: Any = list(self._seeds) if any(seed is not None for seed in self._seeds) else None
        options = self._options[0]
        if any(other != options for other in self._options):
            raise EnvironmentUsageError("set_options: all environments of a vector must have the same reset options")
        obs, info = self._env.reset(seed=seeds, options=dict(options))
        self._reset_seeds()
        self._reset_options()
        self._masks = info.get("action_mask")
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions (N, ...) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step with the actions of `step_async`.

        Returns:
            Observations (N, ...), rewards float32 (N,), episode ends bool (N,), and N infos. After the end of an
            episode, the observation is the first one of the next episode.
        """
        obs, rewards, terminated, truncated, info = self._env.step(self._actions)
        self._masks = info.get("action_mask")
        n_decisions = info.get("n_decisions")
        if n_decisions is None:
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        else:
            infos = [{"n_decisions": n} for n in n_decisions.tolist()]
        dones = terminated | truncated
        for index in np.flatnonzero(dones).tolist():
            infos[index] = _at(info["final_info"], index)
            infos[index]["terminal_observation"] = info["final_obs"][index]
            infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
        return obs, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return an image (H, W, 3) uint8 of each environment; None for each without a render mode."""
        pictures: Any = self._env.render()
        return list(pictures) if pictures is not None else [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the vector environment, once for each chosen environment.

        Raises:
            AttributeError: The environment has no such attribute.
        """
        if attr_name == "action_masks" and self._masks is not None:
            value: Any = self._masks
        elif attr_name == "render_mode":
            value = getattr(self._env, "render_mode", None)
        else:
            value = getattr(self._env, attr_name)
        return [value] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002 (their signature)
        """Raise `AttributeError`, because single environments of a vector have no settable attributes."""
        raise AttributeError(f"{attr_name!r} cannot be set on {self._env}")

    def env_method(self, method_name: str, *_: Any, indices: Any = None, **__: Any) -> list[Any]:
        """Return the action mask, bool (A,), of each chosen environment; the only method is ``action_masks``.

        Raises:
            AttributeError: The method is not ``action_masks``, or the environment has no action masks.
        """
        if method_name != "action_masks" or self._masks is None:
            raise AttributeError(f"{method_name!r} is not a method of {self._env}")
        return [self._masks[index] for index in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002 (their signature)
        """Return False for each chosen environment, because single environments are not wrapped."""
        return [False] * len(list(self._get_indices(indices)))


def _check(env: VectorEnv[Any, Any, Any]) -> None:
    """Raise `EnvironmentUsageError` if stable-baselines3 cannot use the environment."""
    if env.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        raise EnvironmentUsageError(f"{env}: stable-baselines3 requires autoreset_mode='same_step'")
    if not getattr(env, "copy", True):
        raise EnvironmentUsageError(
            f"{env}: make it with copy=True, because stable-baselines3 stores observations one step later"
        )
    space = env.single_observation_space
    if not isinstance(space, spaces.Dict):
        return
    shifted = [key for key, part in space.items() if isinstance(part, spaces.Discrete) and part.start != 0]
    if shifted:
        raise EnvironmentUsageError(
            f"stable-baselines3 does not support Discrete spaces that do not start at 0 ({', '.join(shifted)}); "
            f"make the environment with observation='boxes', or 'pixels+features' for pictures"
        )


def _at(info: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the part of a vector environment's info for one environment."""
    part = {}
    for key, values in info.items():
        if key.startswith("_") or not info[f"_{key}"][index]:
            continue
        part[key] = _at(values, index) if isinstance(values, dict) else values[index]
    return part
