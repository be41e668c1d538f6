"""Checks of the description of a run, before a machine plays."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium

from soulslab.errors import ConfigError, FleetError, did_you_mean
from soulslab.fleet.messages import RunDescription
from soulslab.learn.environment import function_name, is_function_name
from soulslab.learn.players import untrained_policy
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.untrusted import check_named_environment
from soulslab.version import VERSION


def read_policy(description: RunDescription, address: str, own_env_id: str = "") -> Policy | QPolicy:
    """Return the untrained policy; raises ConfigError or FleetError unless this machine may play its environment.

    ``own_env_id`` is an environment that this machine allows although a message cannot name it; "" for none.
    """
    if description.soulslab != VERSION:
        raise FleetError(
            address, f"the learner has soulslab {description.soulslab}, but this machine has {VERSION}; install that"
        )
    policy = untrained_policy(description.header, Path(address))
    header = policy.header
    check_named_environment("" if header.env_id == own_env_id else header.env_id, header.env_options, address)
    if ":" not in header.env_id and header.env_id not in gymnasium.registry:
        known = [name for name in gymnasium.registry if name.startswith("soulslab/")]
        raise FleetError(address, f"the environment {header.env_id!r} is unknown{did_you_mean(header.env_id, known)}")
    return policy


def with_functions(options: Mapping[str, Any], allowed: Mapping[str, str], address: str) -> dict[str, Any]:
    """Return options of the learner in which the functions that it names are those that this machine allows.

    Args:
        options: Options of the environment, some of which may be names of functions (`describe_function`).
        allowed: Functions as ``module:function``, by the name that the learner uses.
        address: Address of the learner, for errors.

    Raises:
        FleetError: A name is not allowed.
        ConfigError: A function of this machine cannot be imported.
    """
    found = dict(options)
    for key, value in options.items():
        if not is_function_name(value):
            continue
        name = function_name(value)
        if name not in allowed:
            raise FleetError(
                address,
                f"the learner names the function {name!r} as {key}, but this machine allows "
                f"{', '.join(sorted(allowed)) or 'none'}; add --allow-reward {name}=MODULE:FUNCTION",
            )
        found[key] = _import_function(allowed[name], name)
    return found


def _import_function(target: str, name: str) -> Any:
    module, _, attribute = target.partition(":")
    # Unlike `python -m`, an installed command does not search its working directory.
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{target!r} cannot be imported: {error}", source=f"--allow-reward {name}") from error
    if not callable(function):
        raise ConfigError(f"{target!r} is not a function, but {function!r}", source=f"--allow-reward {name}")
    return function
