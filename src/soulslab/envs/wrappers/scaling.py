"""A wrapper that scales observations to a range, by known bounds or by running statistics, which can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers.utils import RunningMeanStd
from numpy.typing import ArrayLike, NDArray

from soulslab.config.npz_file import npz_bytes, read_npz, write_atomically
from soulslab.envs.arguments import check_choice
from soulslab.envs.wrappers.duel_source import Env
from soulslab.errors import ConfigError, EnvironmentUsageError

FORMAT = 1
METHODS = ("range", "running")
TARGETS = ((-1.0, 1.0), (0.0, 1.0))

#: Key of the only part of an observation that is not a Dict.
_SINGLE_PART = "observation"
#: Lower bound of the standard deviation, so that a value that hardly ever changes is not amplified.
_MIN_STD = 1e-4
_Moments: Any = RunningMeanStd  # has no type hints


class ScaleObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Scales each part of an observation that consists of floats; integers and pictures are not changed.

    - ``method="range"``: scales linearly from ``ranges``, or from the bounds of the part's space, to ``to``. Values
      out of range are clipped.
    - ``method="running"``: scales by the mean and standard deviation of all observations so far. ``clip_std``
      deviations become the ends of ``to``; values beyond are clipped. `freeze` stops the updates (for evaluation),
      `save` and `load` store the statistics.

    Args:
        env: An environment whose observation is a Dict, or a Box of floats.
        to: ``(-1, 1)`` or ``(0, 1)``.
        method: See above.
        ranges: Smallest and largest value of each part, numbers or arrays, by key. The key of an observation that is
            not a Dict is ``"observation"``.
        clip_std: See above.

    Attributes:
        is_frozen: Whether the statistics are no longer updated.

    Raises:
        EnvironmentUsageError: An option is invalid, a part has no finite range, or no part consists of floats.
    """

    def __init__(
        self,
        env: Env,
        to: tuple[float, float] = (-1.0, 1.0),
        method: str = "range",
        ranges: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
        clip_std: float = 5.0,
    ) -> None:
        RecordConstructorArgs.__init__(self, to=to, method=method, ranges=ranges, clip_std=clip_std)
        super().__init__(env)
        if tuple(to) not in TARGETS:
            raise EnvironmentUsageError(f"ScaleObservation: to must be (-1, 1) or (0, 1), not {to!r}")
        check_choice("ScaleObservation: unknown method", method, METHODS)
        if not clip_std > 0.0:
            raise EnvironmentUsageError(f"ScaleObservation: clip_std must be greater than 0, not {clip_std!r}")
        self._low, self._high, self._clip_std = float(to[0]), float(to[1]), clip_std
        self._parts = _float_parts(env.observation_space)
        self._ranges = _ranges(self._parts, ranges or {}, needs_all=method == "range")
        self._moments: dict[str, Any] = {key: _Moments(shape=space.shape) for key, space in self._parts.items()}
        self._is_running = method == "running"
        self.is_frozen = not self._is_running
        scaled = {
            key: spaces.Box(self._low, self._high, space.shape, space.dtype.type) for key, space in self._parts.items()
        }
        inner = env.observation_space
        if isinstance(inner, spaces.Dict):
            self.observation_space = spaces.Dict({**inner.spaces, **scaled})
        else:
            self.observation_space = scaled[_SINGLE_PART]

    def observation(self, observation: Any) -> Any:
        """Return the scaled observation; ``method="running"`` updates the statistics first."""
        if not isinstance(observation, dict):
            return self._scale(_SINGLE_PART, observation)
        return {**observation, **{key: self._scale(key, observation[key]) for key in self._parts}}

    def freeze(self) -> None:
        """Stop updating the statistics."""
        self.is_frozen = True

    def save(self, path: str | Path) -> None:
        """Write the statistics to an npz file.

        Raises:
            ConfigError: The file cannot be written.
            EnvironmentUsageError: ``method="range"`` has no statistics.
        """
        self._check_running("save")
        arrays: dict[str, Any] = {"format": np.array([FORMAT])}
        for key, moments in self._moments.items():
            arrays |= {f"{key}/mean": moments.mean, f"{key}/var": moments.var, f"{key}/count": np.array(moments.count)}
        write_atomically(Path(path), npz_bytes(arrays))

    def load(self, path: str | Path) -> None:
        """Read statistics from a file, and freeze them.

        Raises:
            ConfigError: The file cannot be read, or was written for another observation.
            EnvironmentUsageError: ``method="range"`` has no statistics.
        """
        self._check_running("load")
        path = Path(path)
        arrays = read_npz(path, partial(ConfigError, source=path))
        if np.ravel(arrays.pop("format", -1)).tolist() != [FORMAT]:
            raise ConfigError(f"holds no statistics of format {FORMAT}", path="format", source=path)
        shapes = {key: space.shape for key, space in self._parts.items()}
        found = {name.rpartition("/")[0]: array.shape for name, array in arrays.items() if name.endswith("/mean")}
        if found != shapes:
            raise ConfigError(f"was written for another observation: {found}, not {shapes}", source=path)
        for key, moments in self._moments.items():
            try:
                moments.mean, moments.var = arrays[f"{key}/mean"], arrays[f"{key}/var"]
                moments.count = float(arrays[f"{key}/count"])
            except (KeyError, TypeError) as error:
                raise ConfigError(f"is not complete: {error}", path=key, source=path) from error
        self.is_frozen = True

    def _check_running(self, method: str) -> None:
        if not self._is_running:
            raise EnvironmentUsageError(f"ScaleObservation.{method}: only method='running' has statistics")

    def _scale(self, key: str, values: NDArray[Any]) -> NDArray[Any]:
        if key in self._ranges:
            low, high = self._ranges[key]
            share = (values - low) / np.where(high > low, high - low, 1.0)
        else:
            moments = self._moments[key]
            if not self.is_frozen:
                moments.update_from_moments(np.asarray(values, np.float64), 0.0, 1)  # one sample, variance 0
            deviations = (values - moments.mean) / np.maximum(np.sqrt(moments.var), _MIN_STD)
            share = 0.5 + 0.5 * deviations / self._clip_std
        scaled = self._low + (self._high - self._low) * np.clip(share, 0.0, 1.0)
        return np.asarray(scaled, values.dtype)


def _float_parts(space: spaces.Space[Any]) -> dict[str, spaces.Box]:
    """Return the parts of a space that consist of floats, by key."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {_SINGLE_PART: space}
    floats = {key: part for key, part in parts.items() if isinstance(part, spaces.Box) and part.dtype.kind == "f"}
    if not floats:
        raise EnvironmentUsageError(f"ScaleObservation: no part of {space} consists of floats")
    return floats


def _ranges(
    parts: Mapping[str, spaces.Box], given: Mapping[str, tuple[ArrayLike, ArrayLike]], *, needs_all: bool
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the smallest and largest values by key: the given ones, otherwise the bounds of the part's space."""
    for key in given:
        check_choice("ScaleObservation: ranges: unknown part", key, parts)
    found = {}
    for key, space in parts.items():
        if key not in given and not needs_all:
            continue
        sides = given.get(key, (space.low, space.high))
        try:
            low, high = (np.broadcast_to(np.asarray(side, np.float64), space.shape) for side in sides)
        except (TypeError, ValueError) as error:
            raise EnvironmentUsageError(
                f"ScaleObservation: ranges[{key!r}] must be two numbers or arrays: {error}"
            ) from error
        # A number that is constant in the environment's space is scaled to the lower end.
        is_range = (low < high) if key in given else (low <= high)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and is_range.all()):
            raise EnvironmentUsageError(
                f"ScaleObservation: {key!r} has no finite range; give it one in ranges, or use method='running'"
            )
        found[key] = low, high
    return found
