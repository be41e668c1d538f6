"""Environments and masked modules for RLlib's new API stack.

RLlib has no place for the action mask that an environment reports in its info. Here the mask is the first part of the
observation, followed by the features, and the modules read it from there: a forbidden action is never drawn, has
probability 0 in the loss of PPO, and the targets of DQN leave it out.

Shapes: B batch, A actions, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from soulslab.envs.registration import register_all
from soulslab.errors import EnvironmentUsageError, optional_imports

with optional_imports():
    from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
    from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.columns import Columns
    from ray.rllib.utils.torch_utils import FLOAT_MIN
    from ray.tune.registry import register_env

BLOCKED_LOGIT: Final = -1e9
"""Added to the logit of a forbidden action; its probability is 0 in float32, and the gradient stays finite."""


class MaskInObservation(gymnasium.Wrapper[NDArray[np.float32], int, NDArray[np.float32], int]):
    """Puts the action mask before the features: observations are float32 (A + F,), 1 for allowed actions.

    Raises:
        EnvironmentUsageError: The observations are not flat, or the actions are not discrete.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        actions, features = env.action_space, env.observation_space
        if not isinstance(actions, Discrete) or not isinstance(features, Box) or len(features.shape) != 1:
            raise EnvironmentUsageError(
                f"{env}: the masked modules for RLlib need discrete actions and flat observations, not {actions} and "
                f"{features}; try observation='features' or 'relative'"
            )
        self._n_actions = int(actions.n)
        low, high = np.zeros(self._n_actions, np.float32), np.ones(self._n_actions, np.float32)
        self.observation_space = Box(
            np.concatenate((low, features.low.astype(np.float32))),
            np.concatenate((high, features.high.astype(np.float32))),
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(obs, info), info

    def step(self, action: int) -> Any:
        """Take a step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(obs, info), reward, terminated, truncated, info

    def _with_mask(self, obs: NDArray[np.float32], info: Mapping[str, Any]) -> NDArray[np.float32]:
        mask = info.get("action_mask", np.ones(self._n_actions))
        return np.concatenate((np.asarray(mask, np.float32), np.asarray(obs, np.float32)))


def make_masked(env_id: str, options: Mapping[str, Any] | None = None) -> MaskInObservation:
    """Make an environment whose observations hold the action mask.

    Call it once before RLlib does: RLlib does not report why an environment fails in one of its own processes.
    """
    register_all()
    return MaskInObservation(gymnasium.make(env_id, **(options or {})))


def register_envs() -> list[str]:
    """Register all environments of soulslab with RLlib, with the mask in the observation, and return their ids.

    The settings ``env_config`` of RLlib are the options of the environment.
    """
    register_all()
    ids = sorted(name for name in gymnasium.registry if name.startswith("soulslab/"))
    for env_id in ids:
        register_env(env_id, lambda options, env_id=env_id: make_masked(env_id, options))
    return ids


class MaskedPPOModule(DefaultPPOTorchRLModule):  # type: ignore[misc]  # RLlib has no types
    """The default module of PPO, which gives forbidden actions probability 0."""

    def _forward(self, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        return self._masked(batch, super()._forward(batch, **arguments))

    def _forward_train(self, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        return self._masked(batch, super()._forward_train(batch, **arguments))

    def _masked(self, batch: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
        """Mask the logits, float32 (B, A)."""
        logits = outputs[Columns.ACTION_DIST_INPUTS]
        outputs[Columns.ACTION_DIST_INPUTS] = logits.masked_fill(blocked_actions(batch, logits), BLOCKED_LOGIT)
        return outputs


class MaskedDQNModule(DefaultDQNTorchRLModule):  # type: ignore[misc]
    """The default module of DQN, which neither chooses forbidden actions nor uses their values in targets."""

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the actions; those of forbidden ones are the lowest float32."""
        return self._masked(batch, super().compute_q_values(batch))

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the target network; those of forbidden actions are the lowest float32."""
        return self._masked(batch, super().forward_target(batch))

    def _forward_exploration(self, batch: dict[str, Any], t: int, **arguments: Any) -> dict[str, Any]:
        outputs: dict[str, Any] = self._forward_inference(batch, **arguments)
        actions = outputs[Columns.ACTIONS]
        self.epsilon_schedule.update(t)
        is_random = torch.rand(actions.shape, device=actions.device) < self.epsilon_schedule.get_current_value()
        n_actions = int(self.action_space.n)
        allowed = ~blocked_actions(batch, torch.empty(n_actions))
        drawn = torch.multinomial(allowed.float().view(-1, n_actions), 1).view(actions.shape).to(actions.dtype)
        outputs[Columns.ACTIONS] = torch.where(is_random, drawn, actions)
        return outputs

    def _masked(self, batch: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
        values = outputs[QF_PREDS]
        outputs[QF_PREDS] = values.masked_fill(blocked_actions(batch, values), FLOAT_MIN)
        return outputs


def blocked_actions(batch: Mapping[str, Any], per_action: torch.Tensor) -> torch.Tensor:
    """Return the forbidden actions of the observations in a batch, bool (B, A), for scores of this shape."""
    mask: torch.Tensor = batch[Columns.OBS][..., : per_action.shape[-1]]
    return mask < 0.5
