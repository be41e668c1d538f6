"""Wrappers that adapt ``info`` to other wrappers and libraries, such as Minari and SoulsGym."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.duel_state import DUEL_FIELDS
from soulslab.envs.wrappers.duel_source import Env, Wrapper
from soulslab.errors import EnvironmentUsageError

_FIELD_NAMES = tuple(field.name for field in DUEL_FIELDS)


class FightReport(Wrapper, RecordConstructorArgs):
    """Adds ``info["fight"]`` if another wrapper truncates an episode.

    An environment reports a fight in the step in which the fight ends, or in which Gymnasium's `TimeLimit` truncates
    it. It does not know when other wrappers truncate the episode.

    An episode that is truncated because its game failed (``info["failure"]``) has no report.

    Args:
        env: A duel environment, with all wrappers that may truncate its episodes.

    Raises:
        EnvironmentUsageError: The environment does not report fights.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        if not hasattr(env.unwrapped, "fight_report"):
            raise EnvironmentUsageError(
                f"FightReport: {env.unwrapped} does not report fights; use a duel environment of soulslab"
            )

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and "failure" not in info:
            fight = info.get("fight")
            if fight is None or not fight["n_decisions"]:  # UniformInfo reports an empty fight until its end
                info = {**info, "fight": self.get_wrapper_attr("fight_report")()}
        return observation, reward, terminated, truncated, info


class UniformInfo(Wrapper, RecordConstructorArgs):
    """Adds ``info["fight"]`` to every reset and step; until the fight has ended, it is the report of an empty fight.

    Minari's ``DataCollector(record_infos=True)`` requires that each ``info`` of an episode has the same structure.

    Raises:
        EnvironmentUsageError: The environment does not report fights.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        if not env.has_wrapper_attr("empty_fight_report"):
            raise EnvironmentUsageError(
                f"UniformInfo: {env} does not report fights; use a duel environment of soulslab"
            )
        self._empty_report = env.get_wrapper_attr("empty_fight_report")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "fight": self._empty_report()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {"fight": self._empty_report(), **info}


class SoulsGymView(Wrapper, RecordConstructorArgs):
    """Reduces the observation to the 15 fields of SoulsGym 1.1.0, in its order, and ``info`` to ``action_mask``.

    With ``observation="dict"`` the fields already have the shapes and types of SoulsGym. This wrapper removes the
    fields that other wrappers or ``"pixels+state"`` add.

    Args:
        env: A duel environment whose observation has the fields.

    Raises:
        EnvironmentUsageError: A field is missing.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        space = env.observation_space
        missing = [name for name in _FIELD_NAMES if not isinstance(space, spaces.Dict) or name not in space.spaces]
        if not isinstance(space, spaces.Dict) or missing:
            raise EnvironmentUsageError(
                f"SoulsGymView: the observation has no {', '.join(missing)}; make the environment with "
                f"observation='dict' or 'pixels+state'"
            )
        self.observation_space = spaces.Dict({name: space.spaces[name] for name in _FIELD_NAMES})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return {name: observation[name] for name in _FIELD_NAMES}, {"action_mask": info["action_mask"]}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        fields = {name: observation[name] for name in _FIELD_NAMES}
        return fields, reward, terminated, truncated, {"action_mask": info["action_mask"]}
