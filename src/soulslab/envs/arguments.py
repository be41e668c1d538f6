"""Checks of the arguments that all environments accept: options, reset options and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from soulslab.errors import EnvironmentUsageError, InvalidActionError, UnknownOptionError, did_you_mean

#: Reset options that wrappers of other libraries pass on to the environment. They are accepted and have no effect.
FOREIGN_RESET_OPTIONS: Final = ("minari_autoseed",)


def refuse_unknown_options(env_id: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UnknownOptionError` for the first option that the environment does not have.

    Args:
        env_id: Id of the environment, for the message.
        options: Names of the given options.
        known: Names of the known options.
    """
    known = tuple(known)
    for name in options:
        if name not in known:
            # TorchRL searches the message for "unexpected keyword argument", and then omits the option.
            raise UnknownOptionError(
                f"unexpected keyword argument {name!r}: {env_id} has no option {name!r}{did_you_mean(name, known)}"
            )


def reset_options_of(options: Any, known: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return the ``options`` argument of a reset; an empty mapping for None.

    Args:
        options: Argument of ``reset``.
        known: Names of the reset options of the environment.

    Raises:
        EnvironmentUsageError: ``options`` is not a mapping, or contains an unknown name.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise EnvironmentUsageError(f"reset: options must be a dict or None, not {options!r}")
    known = tuple(known)
    for name in options:
        if name not in known and name not in FOREIGN_RESET_OPTIONS:
            what = f"has no option {name!r}{did_you_mean(str(name), known)}" if known else f"takes no options: {name!r}"
            raise EnvironmentUsageError(f"reset {what}")
    return options


def action_number(action: Any, n_actions: int) -> int:
    """Return a discrete action as an int.

    Args:
        action: An int, a numpy integer, or a scalar array or tensor of integers (of torch or JAX, for example).
        n_actions: Number of actions.

    Raises:
        InvalidActionError: The action is not an integer from 0 to ``n_actions - 1``.
    """
    number: Any = action
    if not isinstance(number, int | np.generic | np.ndarray) and hasattr(number, "__array__"):
        try:
            number = np.asarray(number)
        except (TypeError, ValueError, RuntimeError) as error:  # a tensor on another device, or one with a gradient
            raise InvalidActionError(f"action {action!r} cannot be converted to a numpy array: {error}") from error
    is_integer = isinstance(number, int) or (
        isinstance(number, np.generic | np.ndarray) and number.shape == () and number.dtype.kind in "iu"
    )
    if not is_integer or isinstance(number, bool) or not 0 <= number < n_actions:
        raise InvalidActionError(f"action {action!r}: must be a whole number from 0 to {n_actions - 1}")
    return int(number)


def checked_seed(seed: Any) -> int:
    """Return a seed as an int.

    Args:
        seed: An int or a numpy integer.

    Raises:
        EnvironmentUsageError: It is not a whole number from 0 to 2**64 - 1.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise EnvironmentUsageError(f"seed: {seed!r} is not a whole number from 0 to 2**64 - 1")
    return int(seed)
