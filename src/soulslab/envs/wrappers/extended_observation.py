"""Adding numbers to an observation, whatever it is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.features import FEATURE_NAMES
from soulslab.errors import EnvironmentUsageError

Wrapper: TypeAlias = gymnasium.Wrapper[Any, Any, Any, Any]
Env: TypeAlias = gymnasium.Env[Any, Any]


class ExtendedObservation(Wrapper):
    """Adds fields to each observation: as keys of a Dict, at the end of a row of numbers.

    Attributes:
        feature_names: Names of a row's numbers, those of the wrappers below included; empty for a Dict.

    Args:
        env: With a Dict or a one-dimensional Box of floats as its observation.
        fields: Space of each field, by key.

    Raises:
        EnvironmentUsageError: The observation is neither, or has such a key already.
    """

    def __init__(self, env: Env, fields: Mapping[str, spaces.Box]) -> None:
        super().__init__(env)
        self._fields = dict(fields)
        self.feature_names: tuple[str, ...] = ()
        space, name = env.observation_space, type(self).__name__
        if isinstance(space, spaces.Dict):
            twice = sorted(set(space.spaces) & set(fields))
            if twice:
                raise EnvironmentUsageError(f"{name}: the observation has {', '.join(twice)} already; wrap it once")
            self.observation_space = spaces.Dict({**space.spaces, **fields})
        elif isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
            self.observation_space = _longer(space, self._fields)
            self.feature_names = (*_names_of(env, space.shape[0]), *_names(self._fields))
        else:
            raise EnvironmentUsageError(
                f"{name} needs an observation that is a Dict or a row of floats, not {space}; "
                f"use observation='dict', 'features' or 'pixels+state'"
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._extend(observation, self.values(is_first=True)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._extend(observation, self.values(is_first=False)), reward, terminated, truncated, info

    @abstractmethod
    def values(self, *, is_first: bool) -> dict[str, Any]:
        """Return the fields' present values; those beyond their bounds are reported at the bound.

        Args:
            is_first: An episode has just begun.
        """

    def _extend(self, observation: Any, values: dict[str, Any]) -> Any:
        arrays = {
            key: np.clip(np.asarray(values[key], space.dtype).reshape(space.shape), space.low, space.high)
            for key, space in self._fields.items()
        }
        if isinstance(observation, dict):
            return {**observation, **arrays}
        return np.concatenate([observation, *(array.ravel() for array in arrays.values())], dtype=observation.dtype)


def number(low: float, high: float, size: int = 1) -> spaces.Box:
    """Return the space of a field of ``size`` float32 numbers."""
    return spaces.Box(np.full(size, low, np.float32), np.full(size, high, np.float32), dtype=np.float32)


def feature_names_of(env: Env) -> tuple[str, ...]:
    """Return the names of the numbers of a row observation, from the environment up to this wrapper; empty for others.

    Use them instead of positions: ``names.index("boundary_distance")``.
    """
    space = env.observation_space
    return _names_of(env, space.shape[0]) if isinstance(space, spaces.Box) and len(space.shape) == 1 else ()


def _names_of(env: Env, n_numbers: int) -> tuple[str, ...]:
    known: tuple[str, ...] = (
        tuple(env.get_wrapper_attr("feature_names")) if env.has_wrapper_attr("feature_names") else FEATURE_NAMES
    )
    return known if len(known) == n_numbers else tuple(f"observation[{i}]" for i in range(n_numbers))


def _names(fields: Mapping[str, spaces.Box]) -> list[str]:
    return [
        key if space.shape == (1,) else f"{key}[{i}]" for key, space in fields.items() for i in range(space.shape[0])
    ]


def _longer(space: spaces.Box, fields: Mapping[str, spaces.Box]) -> spaces.Box:
    def joined(side: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, side) for part in (space, *fields.values())])

    return spaces.Box(joined("low"), joined("high"), dtype=space.dtype.type)
