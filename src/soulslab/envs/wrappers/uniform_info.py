"""The same ``info`` keys after every reset and step, for libraries that store them."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import RecordConstructorArgs

from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError


class UniformInfo(Wrapper, RecordConstructorArgs):
    """Adds ``info["fight"]`` to every reset and step; until the fight has ended, it is the report of an empty fight.

    Minari's ``DataCollector(record_infos=True)`` requires that each ``info`` of an episode has the same structure.

    Args:
        env: A duel environment of soulslab.

    Raises:
        EnvironmentUsageError: The environment has no report of a fight.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        try:
            self._empty_report = env.get_wrapper_attr("empty_fight_report")
        except AttributeError as error:
            raise EnvironmentUsageError(
                f"UniformInfo: {env} has no report of a fight; use it over a duel environment of soulslab"
            ) from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "fight": self._empty_report()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {"fight": self._empty_report(), **info}
