"""EldenGym's public surface over ours, so that what was written for EldenGym 0.6.0 moves over (docs/migrating.md).

::

    from soulslab.envs import eldengym

    env = eldengym.make("Margit-v0", reward_function=eldengym.CustomReward())
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from soulslab.envs.eldengym.env import EldenGymEnv
from soulslab.envs.eldengym.rewards import BossDefeatReward, CustomReward, RewardFunction, ScoreDeltaReward
from soulslab.envs.eldengym.scenarios import list_envs, make

__all__ = [
    "BossDefeatReward",
    "CustomReward",
    "EldenGymEnv",
    "RewardFunction",
    "ScoreDeltaReward",
    "list_envs",
    "make",
]
