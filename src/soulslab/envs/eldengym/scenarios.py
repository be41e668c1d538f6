"""EldenGym's scenario names, and its way to make an environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from soulslab.envs.eldengym.env import EldenGymEnv
from soulslab.envs.eldengym.names import scenario_names


def list_envs() -> list[str]:
    """Return the names that `make` takes."""
    return list(scenario_names())


def make(id: str | Path, **options: Any) -> EldenGymEnv:
    """Return an environment by the name of its scenario.

    Args:
        id: ``"Margit-v0"``, another of `list_envs`, or the path of a boss's file.
        options: See `EldenGymEnv`.

    Raises:
        EnvironmentUsageError: There is no such scenario (did you mean ...), or an option is wrong.
        MissingFactError: Something that is needed is not known of the boss; the message says how to record it.
    """
    given: Mapping[str, Any] = {"scenario_name": id} | options
    return EldenGymEnv(**given)
