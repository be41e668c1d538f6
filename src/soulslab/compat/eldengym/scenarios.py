"""EldenGym's functions that list, register and make environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from soulslab.compat.eldengym.eldengym_env import EldenGymEnv
from soulslab.compat.eldengym.scenario_names import scenario_names
from soulslab.errors import EnvironmentUsageError


class RegisteredEnv(msgspec.Struct, frozen=True):
    """An environment that was registered with `register`, and its arguments."""

    entry_point: Callable[..., Any]
    kwargs: Mapping[str, Any]
    max_episode_steps: int | None
    setup_hook: Callable[[Any], None] | None


_registered: dict[str, RegisteredEnv] = {}


def list_envs() -> list[str]:
    """Return the names that `make` accepts: first the bosses, then the registered environments."""
    return [*scenario_names(), *_registered]


def register(
    id: str,
    entry_point: Callable[..., Any] = EldenGymEnv,
    kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    setup_hook: Callable[[Any], None] | None = None,
    *,
    force: bool = False,
) -> None:
    """Register an environment for `make`, as EldenGym 0.6.0 does.

    Args:
        id: Name of the environment, such as ``"MyFight-v0"``.
        entry_point: Function that returns the environment.
        kwargs: Arguments of `entry_point`; arguments of `make` replace them.
        max_episode_steps: Default of ``max_steps``, the number of steps until truncation.
        setup_hook: Called with each new environment.
        force: Whether a registered environment of the same name is replaced.

    Raises:
        EnvironmentUsageError: The name already exists.
    """
    if id in scenario_names() or (id in _registered and not force):
        raise EnvironmentUsageError(
            f"register: {id!r} exists; choose another name, or give force=True to replace your own"
        )
    _registered[id] = RegisteredEnv(entry_point, dict(kwargs or {}), max_episode_steps, setup_hook)


def make(id: str | Path, **options: Any) -> Any:
    """Return an environment.

    Args:
        id: ``"Margit-v0"``, another name of `list_envs`, or the path of a boss file.
        options: See `EldenGymEnv`.

    Raises:
        EnvironmentUsageError: The scenario does not exist (the message suggests a name), or an option is wrong.
        MissingFactError: A required fact of the boss is unknown; the message says how to record it.
    """
    registered = _registered.get(str(id))
    if registered is None:
        given: Mapping[str, Any] = {"scenario_name": id} | options
        return EldenGymEnv(**given)
    limit = {"max_steps": registered.max_episode_steps} if registered.max_episode_steps is not None else {}
    env = registered.entry_point(**{**limit, **registered.kwargs, **options})
    if registered.setup_hook is not None:
        registered.setup_hook(env)
    return env
