"""Rewards: weighted sums of small terms, presets of them, or a function of one's own.

A term is a quantity that the fight gives at each step:

=============  =====================================================================================
boss_damage    damage to the boss, as a share of its full health
player_damage  damage to the player, as a share of its full health
win, death     1 in the step that ends so, else 0
time           decisions that the step took (more than 1 with ``skip_locked``)
centre         metres walked towards the ground's reward centre, while farther than 4 m from it
roll, attack   rolls and attacks begun
hit_streak     for each hit on the boss, its place in the row of hits since the last one taken, at most 5
=============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.state import REWARD_TERMS
from soulslab.errors import EnvironmentUsageError, UnknownRewardError

#: ``soulsgym`` is SoulsGym 1.1.0's formula, ``eldengym`` the default weights of EldenGym 0.6.0's CustomReward without
#: its bonus for being alive; both as published (MIT).
PRESETS: dict[str, dict[str, float]] = {
    "soulsgym": {"boss_damage": 1.0, "player_damage": -1.0, "win": 0.1, "death": -0.1, "centre": 0.01},
    "eldengym": {"boss_damage": 0.5, "player_damage": -1.0, "win": 100.0, "death": -100.0},
    "sparse": {"win": 1.0, "death": -1.0},
}


class Transition(msgspec.Struct, frozen=True):
    """What a reward function sees of one step of N fights.

    Attributes:
        before: (N,) record array of the `DuelState` fields before the step: ``before["boss_hp"]`` is (N,).
        after: The same after it (for a fight that ended, its last state).
        terms: Quantity of each reward term by name, (N,) float64 each.
        terminated: (N,) bool, whether the fight was won or lost with this step.
        truncated: (N,) bool, whether it ran into the limit of decisions.
    """

    before: NDArray[np.record]
    after: NDArray[np.record]
    terms: dict[str, NDArray[np.float64]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


RewardFunction: TypeAlias = Callable[[Transition], NDArray[np.float64]]
Reward: TypeAlias = str | Mapping[str, float] | RewardFunction


def reward_weights(reward: Reward) -> dict[str, float]:
    """Return the weight of each term; empty for a function, which weighs for itself.

    Raises:
        UnknownRewardError: There is no preset or no term of a given name.
        EnvironmentUsageError: ``reward`` is none of a name, a mapping or a function, or a weight is not a number.
    """
    if isinstance(reward, str):
        if reward not in PRESETS:
            raise UnknownRewardError("preset", reward, PRESETS)
        return dict(PRESETS[reward])
    if isinstance(reward, Mapping):
        for name, weight in reward.items():
            if name not in REWARD_TERMS:
                raise UnknownRewardError("term", str(name), REWARD_TERMS)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not np.isfinite(weight):
                raise EnvironmentUsageError(f"reward: the weight of {name!r} must be a finite number, not {weight!r}")
        return {name: float(weight) for name, weight in reward.items()}
    if callable(reward):
        return {}
    raise EnvironmentUsageError(
        f"reward must be a preset ({', '.join(PRESETS)}), a table of terms and weights, or a function, not {reward!r}"
    )


def call_reward(function: RewardFunction, transition: Transition, n_duels: int) -> NDArray[np.float64]:
    """Call a user's reward function and check what it returns.

    Raises:
        EnvironmentUsageError: The result is not (N,) finite numbers.
    """
    returned = function(transition)
    name = getattr(function, "__qualname__", repr(function))
    try:
        result = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EnvironmentUsageError(
            f"reward function {name} must return an array of {n_duels} numbers, one reward per fight, not {returned!r}"
        ) from error
    if result.shape != (n_duels,):
        raise EnvironmentUsageError(
            f"reward function {name} must return an array of shape ({n_duels},), one reward per fight, "
            f"not {result.shape}"
        )
    if not np.isfinite(result).all():
        place = int(np.flatnonzero(~np.isfinite(result))[0])
        raise EnvironmentUsageError(f"reward function {name} returned {result[place]} for fight {place}")
    return result
