"""EldenGym's scenario names, and its functions to register and make an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from soulslab.compat.eldengym.eldengym_env import EldenGymEnv
from soulslab.compat.eldengym.scenario_names import scenario_names
from soulslab.errors import EnvironmentUsageError


class Scenario(msgspec.Struct, frozen=True):
    """An environment that a user has registered; see `register`."""

    entry_point: Callable[..., Any]
    kwargs: Mapping[str, Any]
    max_episode_steps: int | None
    setup_hook: Callable[[Any], None] | None


_registered: dict[str, Scenario] = {}


def list_envs() -> list[str]:
    """Return the names that `make` takes: those of the bosses, then those that were registered."""
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
        id: Its name, such as ``"MyFight-v0"``.
        entry_point: Makes the environment.
        kwargs: Arguments of `entry_point`; those given to `make` replace them.
        max_episode_steps: Default of ``max_steps``, the number of steps until truncation.
        setup_hook: Called with each environment that was made.
        force: Whether a name that exists already is replaced.

    Raises:
        EnvironmentUsageError: There is such a name already.
    """
    if id in scenario_names() or (id in _registered and not force):
        raise EnvironmentUsageError(f"register: {id!r} exists; take another name, or force=True for your own")
    _registered[id] = Scenario(entry_point, dict(kwargs or {}), max_episode_steps, setup_hook)


def make(id: str | Path, **options: Any) -> Any:
    """Return an environment by the name of its scenario.

    Args:
        id: ``"Margit-v0"``, another of `list_envs`, or the path of a boss's file.
        options: See `EldenGymEnv`.

    Raises:
        EnvironmentUsageError: There is no such scenario (did you mean ...), or an option is wrong.
        MissingFactError: Something that is needed is not known of the boss; the message says how to record it.
    """
    scenario = _registered.get(str(id))
    if scenario is None:
        given: Mapping[str, Any] = {"scenario_name": id} | options
        return EldenGymEnv(**given)
    limit = {} if scenario.max_episode_steps is None else {"max_steps": scenario.max_episode_steps}
    env = scenario.entry_point(**{**limit, **scenario.kwargs, **options})
    if scenario.setup_hook is not None:
        scenario.setup_hook(env)
    return env
