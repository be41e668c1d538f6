"""The description of a run, which a machine reads from the server and checks before it plays."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from soulslab.errors import ConfigError, FleetError, did_you_mean
from soulslab.fleet.access import Access, Keys, connect
from soulslab.fleet.messages import RunDescription
from soulslab.learn.environment import function_name, is_function_name
from soulslab.learn.players import untrained_policy
from soulslab.learn.policy import Policy
from soulslab.learn.rainbow.q_policy import QPolicy
from soulslab.learn.untrusted import check_named_environment
from soulslab.version import VERSION

_RETRY_S = 0.5

_log = logging.getLogger(__name__)


def wait_for_description(access: Access, is_to_wait: Callable[[], bool]) -> RunDescription | None:
    """Return the description of the run once the learner has written it; None when it is no longer to wait.

    Raises FleetError if the server refuses the user.
    """
    shown = ""
    with closing(connect(access)) as client:
        while is_to_wait():
            try:
                data: Any = client.get(Keys(access.run).description)
                if data is not None:
                    return msgspec.json.decode(data, type=RunDescription)
                problem = "the learner has not started"
            except (AuthenticationError, NoPermissionError) as error:
                raise FleetError(access.address, f"refuses the user {access.user}: {error}") from error
            except RedisError as error:
                problem = str(error)
            if problem != shown:
                _log.info("waiting for the learner at %s: %s", access.address, problem)
                shown = problem
            time.sleep(_RETRY_S)
    return None


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
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{target!r} cannot be imported: {error}", source=f"--allow-reward {name}") from error
    if not callable(function):
        raise ConfigError(f"{target!r} is not a function, but {function!r}", source=f"--allow-reward {name}")
    return function
