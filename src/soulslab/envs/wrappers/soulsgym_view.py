"""A duel as SoulsGym shows it, for agents and tools that were written for SoulsGym."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError

_NAMES = tuple(field.name for field in DUEL_FIELDS)


class SoulsGymView(Wrapper, RecordConstructorArgs):
    """Shows the 15 fields of SoulsGym 1.1.0 in its order, and of ``info`` only ``action_mask``.

    ``observation="dict"`` has these fields with the same shapes and types already; this takes away what wrappers or
    ``"pixels+state"`` added, and what SoulsGym's ``info`` does not have.

    Args:
        env: Any duel whose observation has the fields.

    Raises:
        EnvironmentUsageError: It has not.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        space = env.observation_space
        missing = [name for name in _NAMES if not isinstance(space, spaces.Dict) or name not in space.spaces]
        if not isinstance(space, spaces.Dict) or missing:
            raise EnvironmentUsageError(
                f"SoulsGymView: the observation has no {', '.join(missing)}; make the environment with "
                f"observation='dict' or 'pixels+state'"
            )
        self.observation_space = spaces.Dict({name: space.spaces[name] for name in _NAMES})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return _fields(observation), {"action_mask": info["action_mask"]}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return _fields(observation), reward, terminated, truncated, {"action_mask": info["action_mask"]}


def _fields(observation: dict[str, Any]) -> dict[str, Any]:
    return {name: observation[name] for name in _NAMES}
