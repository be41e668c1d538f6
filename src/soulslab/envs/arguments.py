"""Checks of the arguments that every environment takes: options, reset options and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from soulslab.errors import EnvironmentUsageError, InvalidActionError, UnknownOptionError, did_you_mean

#: Reset options of other libraries' wrappers that reach the environment. They are accepted and have no effect.
FOREIGN_RESET_OPTIONS: Final = ("minari_autoseed",)


def refuse_unknown_options(env_id: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UnknownOptionError` for the first option that the environment does not have.

    Args:
        env_id: Name of the environment, for the message.
        options: Names of the options that were given.
        known: Names of the options that exist.
    """
    known = tuple(known)
    for name in options:
        if name not in known:
            # TorchRL looks for Python's own words in the message, and then makes the environment without the option.
            raise UnknownOptionError(
                f"unexpected keyword argument {name!r}: {env_id} has no option {name!r}{did_you_mean(name, known)}"
            )


def reset_options_of(options: Any, known: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return the ``options`` of a reset; an empty mapping for None.

    Args:
        options: As given to ``reset``.
        known: Names of the options that the environment has.

    Raises:
        EnvironmentUsageError: ``options`` is not a mapping, or has an unknown name.
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
        InvalidActionError: It is not a whole number from 0 to ``n_actions - 1``.
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
