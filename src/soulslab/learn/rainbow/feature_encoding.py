"""Inputs of the network: the features and soft bins of some of them, normalised.

Whether an attack hits depends on a tenth of a second of an animation, and a perceptron needs many samples to
distinguish that in a number between 0 and 3. Soft bins make it distinguishable from the start. They are radial basis
functions (Sutton & Barto 2018, section 9.5.5) with centres c that are evenly spaced from ``low`` to ``high`` and a
width w that is the distance between two centres::

    exp(-0.5 ((x - c) / w)^2)

Multiplied with the one-hot of the animation they are a table of each moment of each animation in which neighbouring
entries overlap.

The replay buffer and the observations hold only the features; they are expanded when they are normalised.

Shapes: B batch, F features (extra inputs included), O inputs of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ConfigError, EnvironmentUsageError, did_you_mean
from soulslab.learn.environment import find_feature, require_feature_names
from soulslab.learn.network_policy import RunningMoments
from soulslab.learn.rainbow.rainbow_settings import BinsSettings
from soulslab.learn.replay.numba_kernel import kernel

MAX_NORMALISED: Final = 10.0
"""Inputs of the network are clipped to this many standard deviations, so that rare large values do not dominate."""

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_MINUS_HALF = np.float32(-0.5)

_Vectors: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]

_FEATURE, _N, _FIRST, _N_TIMES = range(4)
"""Columns of the plan; _N_TIMES is 0 for bins without factors."""


class Encoding:
    """Expands features by soft bins, and normalises both; the network has ``n_outputs`` (O) inputs.

    The bins follow the features, in the order of the settings. For bins with factors, each factor in turn has the
    products with all bins.
    """

    def __init__(self, n_inputs: int, bins: Sequence[BinsSettings], hidden: Sequence[int] = ()) -> None:
        """Prepare the expansion for checked bins; before :meth:`follow` the values are not normalised.

        Normalised values of the features ``hidden``, of their bins and of bins with them as factors are 0.
        """
        self._n_inputs = n_inputs
        plan = np.array([_plan_row(each) for each in bins], np.int64).reshape(-1, 4)
        centres = np.zeros((len(bins), max((each.n for each in bins), default=1)), np.float32)
        widths = np.zeros(len(bins), np.float32)
        for i, each in enumerate(bins):
            centres[i, : each.n], widths[i] = bin_grid(each)
        self._bins = (plan, centres, widths)
        self.n_outputs = count_outputs(n_inputs, bins)
        self._hidden = self._find_outputs(hidden)
        zeros, ones = np.zeros(self.n_outputs, np.float32), np.ones(self.n_outputs, np.float32)
        self._unmoved: _Vectors = (zeros, ones, zeros)
        self._moved: _Vectors = (zeros, np.where(self._hidden, _ZERO, ones), zeros)

    def expand(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features (B, F) and their bins, not normalised, float32 (B, O); the same array without bins."""
        self._check(features)
        if self.n_outputs == self._n_inputs:
            return features
        out = np.empty((len(features), self.n_outputs), np.float32)
        bare = np.ascontiguousarray(features)  # often a strided view; the kernel is compiled for contiguous arrays
        _encode(bare, self._bins, self._unmoved, np.float32(np.inf), out)
        return out

    def follow(self, moments: RunningMoments) -> None:
        """Use the mean and standard deviation of the outputs of :meth:`expand`, shape (O,), from now on."""
        shift: NDArray[np.float32] = moments.mean.astype(np.float32)
        scale: NDArray[np.float32] = (1.0 / moments.std).astype(np.float32)
        scale[self._hidden] = _ZERO
        # Most products with a one-hot are 0, so the normalised value of 0 is precomputed.
        at_zero: NDArray[np.float32] = np.clip((_ZERO - shift) * scale, -MAX_NORMALISED, MAX_NORMALISED)
        self._moved = (shift, scale, at_zero)

    def normalise(self, features: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write ``(value - mean) / std`` of features (B, F) and bins to ``out`` (B, O), clipped to `MAX_NORMALISED`."""
        self._check(features)
        _encode(features, self._bins, self._moved, np.float32(MAX_NORMALISED), out)
        if self._hidden.any():
            out[:, self._hidden] = _ZERO  # a hidden feature may be NaN

    def fold(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the sum of values of outputs, (O,), for each feature, (F,); bins belong to the feature they divide."""
        plan, _, _ = self._bins
        folded = outputs[: self._n_inputs].copy()
        start = self._n_inputs
        for feature, n, _, n_times in plan.tolist():
            end = start + n * max(1, n_times)
            folded[feature] += outputs[start:end].sum()
            start = end
        return folded

    def _find_outputs(self, hidden: Sequence[int]) -> NDArray[np.bool_]:
        """Return which outputs, bool (O,), depend on some of these features."""
        plan, _, _ = self._bins
        found = np.zeros(self.n_outputs, np.bool_)
        found[list(hidden)] = True
        start = self._n_inputs
        for feature, n, first, n_times in plan.tolist():
            for factor in range(first, first + max(1, n_times)):
                found[start : start + n] = feature in hidden or (n_times > 0 and factor in hidden)
                start += n
        return found

    def _check(self, features: NDArray[np.float32]) -> None:
        if features.ndim != 2 or features.shape[1] != self._n_inputs:
            raise EnvironmentUsageError(
                f"a policy for {self._n_inputs} features was given an array of shape {features.shape}; give it the "
                "inputs (batch, features) of an Observer of its environment"
            )


def resolve_bins(
    bins: Sequence[BinsSettings], n_features: int, names: Sequence[str], env_id: str
) -> tuple[BinsSettings, ...]:
    """Return bins whose features are given by index, as needed in a policy file.

    ``n_features`` and ``names`` exclude the extra inputs; the names may be empty. Raises ConfigError if a feature does
    not exist, or the bins are invalid.
    """
    found = []
    for i, each in enumerate(bins):
        feature, times, path = each.feature, each.times, f"network.bins[{i}]"
        if isinstance(feature, str):
            feature = find_feature(feature, names, env_id, f"{path}.feature")
        if isinstance(times, str) and times:
            times = _find_all(times, names, env_id, f"{path}.times")
        ends = {"low": float(each.low), "high": float(each.high)}
        found.append(msgspec.structs.replace(each, feature=feature, times=times, **ends))
    check_bins(found, n_features, env_id)
    return tuple(found)


def check_bins(bins: Sequence[BinsSettings], n_features: int, env_id: str) -> None:
    """Raise ConfigError if the feature of a bin does not exist, or the range of the bins is invalid."""
    for i, each in enumerate(bins):
        path = f"network.bins[{i}]"
        times = (each.times,) if isinstance(each.times, str) and each.times else each.times
        for place, number in (("feature", each.feature), *(("times", time) for time in times)):
            if isinstance(number, str):
                problem = f"names {number!r}, but a policy file needs the index of the feature"
                raise ConfigError(problem, path=f"{path}.{place}")
            if not 0 <= number < n_features:
                problem = f"feature {number} does not exist: {env_id} has {n_features} features, counted from 0"
                raise ConfigError(problem, path=f"{path}.{place}")
        if not isinstance(each.times, str) and each.times[0] > each.times[1]:
            raise ConfigError(
                f"descends from {each.times[0]} to {each.times[1]}; give the first and the last", path=f"{path}.times"
            )
        if not each.low < each.high:
            raise ConfigError(f"low ({each.low:g}) must be less than high ({each.high:g})", path=path)
        with np.errstate(all="ignore"):
            centres, width = bin_grid(each)
            is_grid = np.isfinite(centres).all() and (np.diff(centres) > 0.0).all() and 0.0 < width < np.inf
        if not is_grid:
            raise ConfigError(
                f"{each.n} bins from {each.low:g} to {each.high:g} are too close together for 32-bit numbers", path=path
            )


def count_outputs(n_inputs: int, bins: Sequence[BinsSettings]) -> int:
    """Return the number of inputs of the network (O) for F features with bins; see :class:`Encoding`."""
    return n_inputs + sum(each.n * max(1, _plan_row(each)[_N_TIMES]) for each in bins)


def bin_grid(bins: BinsSettings) -> tuple[NDArray[np.float32], np.float32]:
    """Return the centres of bins, float32 (n,), and their width."""
    centres = np.linspace(bins.low, bins.high, bins.n).astype(np.float32)
    return centres, np.float32((bins.high - bins.low) / (bins.n - 1))


def _plan_row(bins: BinsSettings) -> tuple[Any, int, int, int]:
    first, n_times = (0, 0) if isinstance(bins.times, str) else (bins.times[0], bins.times[1] - bins.times[0] + 1)
    return bins.feature, bins.n, first, n_times


def _find_all(prefix: str, names: Sequence[str], env_id: str, path: str) -> tuple[int, int]:
    """Return the first and the last index of the features whose names start with a prefix."""
    require_feature_names(prefix, names, env_id, path)
    found = [number for number, name in enumerate(names) if name.startswith(prefix)]
    if not found:
        problem = f"{env_id} has no feature whose name starts with {prefix!r}{did_you_mean(prefix, names)}"
        raise ConfigError(problem, path=path)
    for here, there in pairwise(found):
        if there != here + 1:
            raise ConfigError(
                f"the features of {env_id} whose names start with {prefix!r} are not consecutive: after "
                f"{names[here]!r} ({here}) the next is {names[there]!r} ({there}); give a longer prefix, or the "
                "indices of the first and the last",
                path=path,
            )
    return found[0], found[-1]


@kernel
def _clip(value: Any, limit: Any) -> Any:
    """Return a number clipped to +-limit; NaN stays NaN."""
    value = limit if value > limit else value
    return -limit if value < -limit else value


@kernel
def _encode(
    features: NDArray[Any],
    bins: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    moved: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    limit: Any,
    out: NDArray[Any],
) -> None:
    """Write ``clip((value - shift) * scale)`` of features (B, F) and of their bins to out (B, O)."""
    plan, centres, widths = bins
    shift, scale, at_zero = moved
    n_rows, n_bare = features.shape
    hats = np.empty(centres.shape[1], np.float32)
    for row in range(n_rows):
        for j in range(n_bare):
            out[row, j] = _clip((features[row, j] - shift[j]) * scale[j], limit)
        out[row, n_bare:] = at_zero[n_bare:]
        at = n_bare
        for k in range(len(plan)):
            n, n_times = plan[k, _N], plan[k, _N_TIMES]
            for i in range(n):
                distance = (features[row, plan[k, _FEATURE]] - centres[k, i]) / widths[k]
                hats[i] = np.exp(_MINUS_HALF * (distance * distance))
            for j in range(max(1, n_times)):
                factor = features[row, plan[k, _FIRST] + j] if n_times else _ONE
                if factor != _ZERO:
                    for i in range(n):
                        place = at + i
                        out[row, place] = _clip((factor * hats[i] - shift[place]) * scale[place], limit)
                at += n
