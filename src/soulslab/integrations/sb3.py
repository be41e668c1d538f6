"""stable-baselines3 on the vector environments of soulslab, without a Python loop over single environments.

::

    from sb3_contrib import MaskablePPO
    from soulslab.integrations.sb3 import VecEnv

    env = VecEnv("soulslab/Arena-v0", n_envs=256, boss="judge")
    model = MaskablePPO("MlpPolicy", env).learn(1_000_000)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from soulslab.envs.registration import register_all
from soulslab.errors import EnvironmentUsageError, MissingDependencyError

try:
    from stable_baselines3.common.vec_env import VecEnv as _VecEnv
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "stable_baselines3":
        raise
    raise MissingDependencyError("stable_baselines3", "peers") from error


class VecEnv(_VecEnv):
    """A Gymnasium vector environment as stable-baselines3's ``VecEnv``.

    All N environments take a step in one call. An ``infos`` entry holds ``n_decisions``; at the end of an episode it
    also holds ``terminal_observation``, ``TimeLimit.truncated`` and everything that the environment reports of the last
    step, such as ``fight``. ``env_method("action_masks")`` returns the open actions, as sb3-contrib's MaskablePPO asks
    for. Wrap it in stable-baselines3's ``VecMonitor`` to log returns, and in ``VecNormalize`` to scale.

    Args:
        env: Gymnasium id of soulslab, or a vector environment with same-step autoreset that copies its observations.
        n_envs: N, for an id.
        options: Options of the environment, for an id.

    Raises:
        EnvironmentUsageError: The environment resets in another way, reuses its buffers, or has a space that
            stable-baselines3 does not support; or `options` were given for an environment that exists.
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
            raise EnvironmentUsageError(f"options are for an environment that is made from an id: {', '.join(options)}")
        _check(env)
        self._env = env
        self._actions: NDArray[Any] = np.zeros(0)
        self._masks: NDArray[np.bool_] | None = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        # Attributes that do not exist are errors, and the mask exists before the first reset.
        if isinstance(env.single_action_space, spaces.Discrete):
            self._masks = np.ones((env.num_envs, int(env.single_action_space.n)), np.bool_)

    def reset(self) -> Any:
        """Begin fresh episodes with the seeds and options that were set; return observations, (N, ...)."""
        seeds: Any = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        options = self._options[0]
        if any(other != options for other in self._options):
            raise EnvironmentUsageError("set_options: all environments of this vector take the same reset options")
        obs, info = self._env.reset(seed=seeds, options=dict(options))
        self._reset_seeds()
        self._reset_options()
        self._masks = info.get("action_mask")
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions (N, ...) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step with the actions of `step_async`.

        Returns:
            Observations (N, ...), rewards float32 (N,), ends of episodes bool (N,), and N infos. Where an episode
            ended, the observation is the first one of the next.
        """
        obs, rewards, terminated, truncated, info = self._env.step(self._actions)
        self._masks = info.get("action_mask")
        n_decisions = info.get("n_decisions")
        if n_decisions is None:
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        else:
            infos = [{"n_decisions": n} for n in n_decisions.tolist()]
        dones = terminated | truncated
        for place in np.flatnonzero(dones).tolist():
            infos[place] = _at(info["final_info"], place)
            infos[place]["terminal_observation"] = info["final_obs"][place]
            infos[place]["TimeLimit.truncated"] = bool(truncated[place] and not terminated[place])
        return obs, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return a picture (H, W, 3) uint8 of each environment; None for each if it was made without a render mode."""
        pictures: Any = self._env.render()
        return [None] * self.num_envs if pictures is None else list(pictures)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the vector environment, once for each chosen environment.

        Raises:
            AttributeError: There is none of that name.
        """
        if attr_name == "action_masks" and self._masks is not None:
            value: Any = self._masks
        elif attr_name == "render_mode":
            value = getattr(self._env, "render_mode", None)
        else:
            value = getattr(self._env, attr_name)
        return [value] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002 (their signature)
        """Raise `AttributeError`: the environments of a vector have no attributes of their own that can be set."""
        raise AttributeError(f"{attr_name!r} cannot be set on {self._env}")

    def env_method(self, method_name: str, *_: Any, indices: Any = None, **__: Any) -> list[Any]:
        """Return the open actions bool (A,) of each chosen environment; the method is ``action_masks``.

        Raises:
            AttributeError: Another method was asked for, or the environment has no action masks.
        """
        if method_name != "action_masks" or self._masks is None:
            raise AttributeError(f"{method_name!r} is not a method of {self._env}")
        return [self._masks[place] for place in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002 (their signature)
        """Return False for each chosen environment: they are not wrapped one by one."""
        return [False] * len(list(self._get_indices(indices)))


def _check(env: VectorEnv[Any, Any, Any]) -> None:
    """Raise `EnvironmentUsageError` for an environment that stable-baselines3 cannot use."""
    if env.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        raise EnvironmentUsageError(f"{env}: make it with autoreset_mode='same_step', as stable-baselines3 expects")
    if not getattr(env, "copy", True):
        raise EnvironmentUsageError(
            f"{env}: make it with copy=True; stable-baselines3 stores observations a step later"
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


def _at(info: dict[str, Any], place: int) -> dict[str, Any]:
    """Return one environment's part of a vector environment's info."""
    part = {}
    for key, values in info.items():
        if key.startswith("_") or not info[f"_{key}"][place]:
            continue
        part[key] = _at(values, place) if isinstance(values, dict) else values[place]
    return part
