"""What the network sees of the features: themselves, soft bins of some, all in units of their standard deviation.

When a blow lands is a matter of a tenth of a second of an animation, and a perceptron needs many samples until it is as
sharp as that in a number that runs from 0 to 3. Soft bins give it that sharpness from the beginning: radial basis
functions (Sutton & Barto 2018, section 9.5.5) with their centres c evenly from ``low`` to ``high`` and the distance
between two of them as their width w::

    exp(-0.5 ((x - c) / w)^2)

Multiplied with the one-hot of the animation they become a table of what is to be done at which moment of which
animation, in which neighbours know of each other.

The replay buffer and the observations have the features alone; they are expanded where they are normalised.

Shapes: B batch, F features (extra inputs included), O numbers that the network sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ConfigError, EnvironmentUsageError, did_you_mean
from soulslab.learn.normalise import RunningMoments
from soulslab.learn.rainbow.settings import BinsSettings
from soulslab.learn.replay.kernel import kernel

MAX_NORMALISED: Final = 10.0
"""What the network sees is clipped to this many standard deviations, so that a rare number drowns no other."""

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_MINUS_HALF = np.float32(-0.5)

_Vectors: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]

_FEATURE, _N, _FIRST, _N_TIMES = range(4)
"""Columns of the plan; _N_TIMES is 0 where the bins stand alone."""


class Encoding:
    """Expands features by soft bins, and normalises all.

    After the features come the bins, in the order of the settings. Where they are multiplied with features, these go
    one after another, each with all bins.

    Attributes:
        n_outputs: O; F where there are no bins.
    """

    def __init__(self, n_inputs: int, bins: Sequence[BinsSettings]) -> None:
        """Prepare it; until :meth:`follow` nothing is shifted or scaled.

        Args:
            n_inputs: F.
            bins: Checked (:func:`check_bins`), their features given by number.
        """
        self._n_inputs = n_inputs
        plan = np.array([_plan_row(each) for each in bins], np.int64).reshape(-1, 4)
        centres = np.zeros((len(bins), max((each.n for each in bins), default=1)), np.float32)
        widths = np.zeros(len(bins), np.float32)
        for i, each in enumerate(bins):
            centres[i, : each.n], widths[i] = bin_grid(each)
        self._bins = (plan, centres, widths)
        self.n_outputs = count_outputs(n_inputs, bins)
        zeros, ones = np.zeros(self.n_outputs, np.float32), np.ones(self.n_outputs, np.float32)
        self._unmoved: _Vectors = (zeros, ones, zeros)
        self._moved = self._unmoved

    def expand(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features and their bins as they are, float32 (B, O); the same array if there are no bins.

        Args:
            features: float32 (B, F).

        Raises:
            EnvironmentUsageError: They are not F.
        """
        self._check(features)
        if self.n_outputs == self._n_inputs:
            return features
        out = np.empty((len(features), self.n_outputs), np.float32)
        bare = np.ascontiguousarray(features)  # a column of rows, often; the kernel is compiled for one kind of array
        _encode(bare, self._bins, self._unmoved, np.float32(np.inf), out)
        return out

    def follow(self, moments: RunningMoments) -> None:
        """Take over mean and standard deviation of what :meth:`expand` gave, shape (O,)."""
        shift: NDArray[np.float32] = moments.mean.astype(np.float32)
        scale: NDArray[np.float32] = (1.0 / moments.std).astype(np.float32)
        # Most products with a one-hot are 0, so what becomes of a 0 is computed once.
        at_zero: NDArray[np.float32] = np.clip((_ZERO - shift) * scale, -MAX_NORMALISED, MAX_NORMALISED)
        self._moved = (shift, scale, at_zero)

    def normalise(self, features: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write what the network sees: ``(value - mean) / std`` of features and bins, clipped to `MAX_NORMALISED`.

        Args:
            features: float32 (B, F).
            out: float32 (B, O).

        Raises:
            EnvironmentUsageError: They are not F.
        """
        self._check(features)
        _encode(features, self._bins, self._moved, np.float32(MAX_NORMALISED), out)

    def _check(self, features: NDArray[np.float32]) -> None:
        """Check what the kernel relies on."""
        if features.ndim != 2 or features.shape[1] != self._n_inputs:
            raise EnvironmentUsageError(
                f"a policy that sees {self._n_inputs} features was shown an array of shape {features.shape}; give it "
                "(batch, features), what an Observer made of its environment's observations"
            )


def resolve_bins(
    bins: Sequence[BinsSettings], n_features: int, names: Sequence[str], env_id: str
) -> tuple[BinsSettings, ...]:
    """Return bins that name their features by number, as a policy's file has to.

    Args:
        bins: As the config has them.
        n_features: Features of an observation, without extra inputs.
        names: Of these features; empty if the environment tells none.
        env_id: The environment, for messages.

    Raises:
        ConfigError: There is no such feature, or the bins are none.
    """
    found = []
    for i, each in enumerate(bins):
        feature, times, path = each.feature, each.times, f"network.bins[{i}]"
        if isinstance(feature, str):
            feature = _find(feature, names, env_id, f"{path}.feature")
        if isinstance(times, str) and times:
            times = _find_all(times, names, env_id, f"{path}.times")
        ends = {"low": float(each.low), "high": float(each.high)}
        found.append(msgspec.structs.replace(each, feature=feature, times=times, **ends))
    check_bins(found, n_features, env_id)
    return tuple(found)


def check_bins(bins: Sequence[BinsSettings], n_features: int, env_id: str) -> None:
    """Check that bins fit to observations.

    Args:
        bins: Their features given by number.
        n_features: Features of an observation, without extra inputs.
        env_id: The environment, for messages.

    Raises:
        ConfigError: There is no such feature, or the bins have no order or no width.
    """
    for i, each in enumerate(bins):
        path = f"network.bins[{i}]"
        numbers: list[tuple[str, str | int]] = [("feature", each.feature)]
        if each.times:
            numbers += [("times", number) for number in ((each.times,) if isinstance(each.times, str) else each.times)]
        for place, number in numbers:
            if isinstance(number, str):
                raise ConfigError(
                    f"names {number!r}, which only a run can look up; give numbers", path=f"{path}.{place}"
                )
            if not 0 <= number < n_features:
                raise ConfigError(
                    f"there is no feature {number}: {env_id} gives {n_features} features, counted from 0",
                    path=f"{path}.{place}",
                )
        if not isinstance(each.times, str) and each.times[0] > each.times[1]:
            raise ConfigError(
                f"falls from {each.times[0]} to {each.times[1]}; name the first and the last", path=f"{path}.times"
            )
        if not each.low < each.high:
            raise ConfigError(f"low ({each.low:g}) has to lie below high ({each.high:g})", path=path)
        with np.errstate(all="ignore"):
            centres, width = bin_grid(each)
            is_grid = np.isfinite(centres).all() and (np.diff(centres) > 0.0).all() and 0.0 < width < np.inf
        if not is_grid:
            raise ConfigError(
                f"{each.n} bins from {each.low:g} to {each.high:g} cannot be told apart in 32-bit numbers", path=path
            )


def count_outputs(n_inputs: int, bins: Sequence[BinsSettings]) -> int:
    """Return how many numbers the network sees (O) of F features with bins; see :class:`Encoding`."""
    n_times = [int(_plan_row(each)[_N_TIMES]) for each in bins]
    return n_inputs + sum(each.n * max(1, n) for each, n in zip(bins, n_times, strict=True))


def bin_grid(bins: BinsSettings) -> tuple[NDArray[np.float32], np.float32]:
    """Return the centres, float32 (n,), and the width of bins."""
    centres = np.linspace(bins.low, bins.high, bins.n).astype(np.float32)
    return centres, np.float32((bins.high - bins.low) / (bins.n - 1))


def _plan_row(bins: BinsSettings) -> tuple[Any, ...]:
    first, n_times = (0, 0) if isinstance(bins.times, str) else (bins.times[0], bins.times[1] - bins.times[0] + 1)
    return bins.feature, bins.n, first, n_times


def _find(name: str, names: Sequence[str], env_id: str, path: str) -> int:
    """Return the number of a feature."""
    _check_names(name, names, env_id, path)
    if name not in names:
        raise ConfigError(f"{env_id} has no feature {name!r}{did_you_mean(name, names)}", path=path)
    return list(names).index(name)


def _find_all(prefix: str, names: Sequence[str], env_id: str, path: str) -> tuple[int, int]:
    """Return the first and the last number of the features whose names begin alike."""
    _check_names(prefix, names, env_id, path)
    found = [number for number, name in enumerate(names) if name.startswith(prefix)]
    if not found:
        raise ConfigError(
            f"{env_id} has no feature whose name begins with {prefix!r}{did_you_mean(prefix, names)}", path=path
        )
    for here, there in pairwise(found):
        if there != here + 1:
            raise ConfigError(
                f"the features of {env_id} whose names begin with {prefix!r} do not stand side by side: after "
                f"{names[here]!r} ({here}) the next is {names[there]!r} ({there}); write more of the name, or the "
                "numbers of the first and the last",
                path=path,
            )
    return found[0], found[-1]


def _check_names(name: str, names: Sequence[str], env_id: str, path: str) -> None:
    if not names:
        raise ConfigError(
            f"{env_id} tells no names of its features, so {name!r} cannot be found; give the number of the feature, "
            "counted from 0",
            path=path,
        )


@kernel
def _clip(value: Any, limit: Any) -> Any:
    """Return a number within +-limit; NaN stays NaN."""
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
