"""EldenGym's public surface over ours, so that what was written for EldenGym 0.6.0 moves over (docs/migrating.md).

::

    from soulslab.compat import eldengym

    env = eldengym.make("Margit-v0", reward_function=eldengym.CustomReward())
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from typing import TYPE_CHECKING, NoReturn

from soulslab.compat.eldengym.absent import OF_PACKAGE
from soulslab.compat.eldengym.eldengym_env import EldenGymEnv
from soulslab.compat.eldengym.eldengym_rewards import BossDefeatReward, CustomReward, RewardFunction, ScoreDeltaReward
from soulslab.compat.eldengym.scenarios import list_envs, make, register

__all__ = [
    "BossDefeatReward",
    "CustomReward",
    "EldenGymEnv",
    "RewardFunction",
    "ScoreDeltaReward",
    "list_envs",
    "make",
    "register",
]

if not TYPE_CHECKING:  # for mypy, a module with it has every name

    def __getattr__(name: str) -> NoReturn:
        """Say what does here what EldenGym has by that name."""
        if name not in OF_PACKAGE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # ``from soulslab.compat.eldengym import ...`` would put words of its own in the place of an AttributeError's.
        raise ImportError(f"{__name__} has no {name!r}; {OF_PACKAGE[name]}", name=__name__)
