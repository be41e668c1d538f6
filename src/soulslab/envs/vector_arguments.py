"""Arguments that all of our vector environments take, checked in one way."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulslab.errors import EnvironmentUsageError, did_you_mean


def autoreset_mode_of(mode: Any) -> AutoresetMode:
    """Return Gymnasium's autoreset mode of a name: ``"NextStep"`` or ``"next_step"``.

    Raises:
        EnvironmentUsageError: There is none of that name.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    known = {item.value: item for item in AutoresetMode} | {item.name.lower(): item for item in AutoresetMode}
    if not isinstance(mode, str) or mode not in known:
        raise EnvironmentUsageError(f"autoreset_mode: unknown mode {mode!r}{did_you_mean(str(mode), known)}")
    return known[mode]


def reset_mask_of(mask: Any, n_envs: int) -> NDArray[np.bool_]:
    """Return ``options["reset_mask"]``, (N,) bool; all of them for None.

    Raises:
        EnvironmentUsageError: It is no such array.
    """
    if mask is None:
        return np.ones(n_envs, np.bool_)
    if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (n_envs,)):
        raise EnvironmentUsageError(f"options['reset_mask'] must be a bool array of shape ({n_envs},)")
    return mask
