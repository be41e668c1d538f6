"""Options of an environment: from keyword arguments to checked values of several types."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from soulslab.config.checking import check
from soulslab.envs.arguments import refuse_unknown_options
from soulslab.errors import EnvironmentUsageError


def parse_options(
    env_id: str, options: Mapping[str, Any], *kinds: type[msgspec.Struct], defaults: Mapping[str, Any] | None = None
) -> list[Any]:
    """Sort the options of an environment by the type that has them, and check their types and bounds.

    Paths are converted to text, and numpy scalars to Python numbers.

    Args:
        env_id: Name of the environment, for errors.
        options: Keyword arguments of the environment.
        kinds: Types of options. No two have an option of the same name.
        defaults: Values of options that were not given and whose default differs from that of their type.

    Returns:
        A value of each type.

    Raises:
        UnknownOptionError: No type has an option of that name.
        EnvironmentUsageError: An option has the wrong type or is out of range.
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
