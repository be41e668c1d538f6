"""The report of a fight that a wrapper truncates, as Gymnasium's `TimeLimit` does."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import RecordConstructorArgs

from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError


class FightReport(Wrapper, RecordConstructorArgs):
    """Adds ``info["fight"]`` where another wrapper ends an episode.

    An environment reports a fight in the step in which it ends. It does not know of a wrapper that truncates the
    episode, and so has no report there::

        env = FightReport(gymnasium.make("soulslab/Arena-v0", max_episode_steps=500))

    An episode that is cut off because its game failed (``info["failure"]``) has no report.

    Args:
        env: A duel, with all wrappers that may truncate its episodes.

    Raises:
        EnvironmentUsageError: It is no duel of soulslab.
    """

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        if not hasattr(env.unwrapped, "fight_report"):
            raise EnvironmentUsageError(f"FightReport: {env.unwrapped} is no duel of soulslab, and reports no fights")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and "fight" not in info and "failure" not in info:
            info["fight"] = self.get_wrapper_attr("fight_report")()
        return observation, reward, terminated, truncated, info
