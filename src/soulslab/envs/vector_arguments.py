"""Checks of the arguments that all vector environments accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulslab.errors import EnvironmentUsageError, did_you_mean

#: Options that may be a list in a vector environment, with one value for each environment.
PER_GAME = ("server", "token", "token_file", "tls", "pid", "display", "session")


def autoreset_mode_of(mode: Any) -> AutoresetMode:
    """Return Gymnasium's autoreset mode for a name such as ``"NextStep"`` or ``"next_step"``.

    Raises:
        EnvironmentUsageError: The name is unknown.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    known = {item.value: item for item in AutoresetMode} | {item.name.lower(): item for item in AutoresetMode}
    if not isinstance(mode, str) or mode not in known:
        raise EnvironmentUsageError(f"autoreset_mode: unknown mode {mode!r}{did_you_mean(str(mode), known)}")
    return known[mode]


def options_of_each(options: Mapping[str, Any], n_envs: int) -> list[dict[str, Any]]:
    """Return the options of each environment of a vector; each environment needs a separate game.

    Args:
        options: Options of ``make_vec``. An option that locates a game (`PER_GAME`) may be a list with one value for
            each environment.
        n_envs: Number of environments.

    Raises:
        EnvironmentUsageError: A list has another length, or two environments would use the same game.
    """
    lists = {name: options[name] for name in PER_GAME if isinstance(options.get(name), list | tuple)}
    for name, values in lists.items():
        if len(values) != n_envs:
            raise EnvironmentUsageError(
                f"{name} is a list of {len(values)}, but there are {n_envs} environments; give one value for each"
            )
    made = [{**options, **{name: values[i] for name, values in lists.items()}} for i in range(n_envs)]
    for name in ("server", "pid", "session"):
        _refuse_one_game(name, [one.get(name) for one in made])
    return made


def _refuse_one_game(name: str, values: Sequence[Any]) -> None:
    """Raise `EnvironmentUsageError` if two environments would use the same game."""
    # A session factory opens a separate session for each environment.
    games = [(i, value) for i, value in enumerate(values) if value and not callable(value)]
    for place, (i, value) in enumerate(games):
        for j, other in games[:place]:
            if value is other or (isinstance(value, str | int) and value == other):
                what = f" ({value})" if isinstance(value, str | int) else ""
                raise EnvironmentUsageError(
                    f"{name}: environments {j} and {i} would control the same game{what}; give {name} as a list of "
                    f"{len(values)}, one game for each environment"
                )


def reset_mask_of(mask: Any, n_envs: int) -> NDArray[np.bool_]:
    """Return ``options["reset_mask"]``, (N,) bool; all true for None.

    Raises:
        EnvironmentUsageError: The mask is not a bool array of shape (N,).
    """
    if mask is None:
        return np.ones(n_envs, np.bool_)
    if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (n_envs,)):
        raise EnvironmentUsageError(f"options['reset_mask'] must be a bool array of shape ({n_envs},)")
    return mask
