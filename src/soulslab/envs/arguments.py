"""Checks of the arguments of all environments: options, reset options, seeds, actions and vector arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulslab.config.checking import check
from soulslab.errors import EnvironmentUsageError, InvalidActionError, NotResetError, UnknownOptionError, did_you_mean

#: Reset options that wrappers of other libraries pass on to the environment. They are accepted and have no effect.
FOREIGN_RESET_OPTIONS: Final = ("minari_autoseed",)
#: Options that may be a list in a vector environment, with one value for each environment.
PER_GAME: Final = ("server", "token", "token_file", "tls", "pid", "display", "session")
#: Options of the environments of duels that define a step: its length, its reward, and what its numbers mean. Episodes
#: against other bosses can be mixed in training only if these options are equal.
STEP_OPTIONS: Final = ("observation", "reward", "skip_locked", "step_ms", "actions")

Phase: TypeAlias = Literal["1", "2", "full", 1, 2]
"""Phase of a fight; ``"full"`` is both."""


def refuse_unknown_options(env_id: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UnknownOptionError` for the first option that is not known; `env_id` is for the message."""
    known = tuple(known)
    for name in options:
        if name not in known:
            # TorchRL searches the message for "unexpected keyword argument", and then omits the option.
            raise UnknownOptionError(
                f"unexpected keyword argument {name!r}: {env_id} has no option {name!r}{did_you_mean(name, known)}"
            )


def reset_options_of(options: Any, known: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return the ``options`` argument of a reset, a mapping of known names; an empty mapping for None."""
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
    """Return a discrete action, such as a numpy integer or a scalar tensor of torch or JAX, as an int."""
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
    """Return a seed, a whole number from 0 to 2**64 - 1, as an int."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise EnvironmentUsageError(f"seed: {seed!r} is not a whole number from 0 to 2**64 - 1")
    return int(seed)


def checked_count(name: str, value: Any) -> int:
    """Return a number of things, a whole number from 1; `name` is for the message."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise EnvironmentUsageError(f"{name} must be a whole number from 1, not {value!r}")
    return value


def check_choice(what: str, value: Any, known: Iterable[str]) -> None:
    """Raise `EnvironmentUsageError` if a value is not a known name; the message is `what`, the value and a hint."""
    known = tuple(known)
    if value not in known:
        raise EnvironmentUsageError(f"{what} {value!r}{did_you_mean(str(value), known)}")


def check_names(option: str, names: Any, known: Iterable[str], kind: str = "name") -> None:
    """Raise `EnvironmentUsageError` if an option is not a list of known names; `kind` is for the message."""
    known = tuple(known)
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise EnvironmentUsageError(f"{option} must be a list of names, such as {list(known[-3:])}, not {names!r}")
    for name in names:
        check_choice(f"{option}: unknown {kind}", name, known)


def autoreset_mode_of(mode: Any) -> AutoresetMode:
    """Return Gymnasium's autoreset mode for a name such as ``"NextStep"`` or ``"next_step"``."""
    if isinstance(mode, AutoresetMode):
        return mode
    known = {item.value: item for item in AutoresetMode} | {item.name.lower(): item for item in AutoresetMode}
    check_choice("autoreset_mode: unknown mode", mode, known)
    return known[mode]


def step_options_of(defaults: msgspec.Struct) -> dict[str, Any]:
    """Return ``metadata["step_options"]``: the `STEP_OPTIONS` among the default options of an environment."""
    return {name: getattr(defaults, name) for name in STEP_OPTIONS if hasattr(defaults, name)}


def options_of_each(options: Mapping[str, Any], n_envs: int) -> list[dict[str, Any]]:
    """Return the options of each environment of a vector. Each environment needs a separate game.

    Options that locate a game (`PER_GAME`) may be lists with one value for each environment.
    """
    lists = {name: options[name] for name in PER_GAME if isinstance(options.get(name), list | tuple)}
    for name, values in lists.items():
        if len(values) != n_envs:
            raise EnvironmentUsageError(
                f"{name} is a list of {len(values)}, but there are {n_envs} environments; give one value for each"
            )
    made = [{**options, **{name: values[i] for name, values in lists.items()}} for i in range(n_envs)]
    for name in ("server", "pid", "session"):
        # A session factory opens a separate session for each environment.
        games = [(i, one[name]) for i, one in enumerate(made) if one.get(name) and not callable(one[name])]
        for (j, other), (i, value) in combinations(games, 2):
            is_plain = isinstance(value, str | int)
            if value is other or (is_plain and value == other):
                raise EnvironmentUsageError(
                    f"{name}: environments {j} and {i} would control the same game{f' ({value})' if is_plain else ''}; "
                    f"give {name} as a list of {n_envs}, one game for each environment"
                )
    return made


def reset_mask_of(mask: Any, n_envs: int, begun: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Return ``options["reset_mask"]``, (N,) bool; all true for None.

    Raises `NotResetError` if the mask leaves out an environment that has not begun, according to ``begun`` (N,).
    """
    if mask is None:
        return np.ones(n_envs, np.bool_)
    if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (n_envs,)):
        raise EnvironmentUsageError(f"options['reset_mask'] must be a bool array of shape ({n_envs},)")
    if begun is not None and not (mask | begun).all():
        left_out = np.flatnonzero(~(mask | begun))
        raise NotResetError(
            f"reset: fights {left_out[:8]} have not begun, and options['reset_mask'] leaves them out; reset all fights "
            "once before some of them"
        )
    return mask


def parse_options(
    env_id: str, options: Mapping[str, Any], *kinds: type[msgspec.Struct], defaults: Mapping[str, Any] | None = None
) -> list[Any]:
    """Sort the options of an environment by the type that has them, and check their types and bounds.

    Paths are converted to text, and numpy scalars to Python numbers. No two types have an option of the same name.
    `defaults` are values of options that were not given, and whose default differs from that of their type.
    """
    refuse_unknown_options(env_id, options, [name for kind in kinds for name in kind.__struct_fields__])
    given = {**(defaults or {}), **{name: _plain(value) for name, value in options.items()}}
    return [
        check({name: given[name] for name in kind.__struct_fields__ if name in given}, kind, _error) for kind in kinds
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _error(problem: str, place: str) -> EnvironmentUsageError:
    is_list = problem.endswith(", got a list")
    hint = "; a list, with one value for each environment, is for gymnasium.make_vec" if is_list else ""
    return EnvironmentUsageError(f"{place}: {problem}{hint}")
