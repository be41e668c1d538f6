"""EldenGym's reward functions by their names, and the class that a user's own is derived from.

A reward function sees what `EldenGymEnv` gives: the observation, ``info``, and the ``info`` before the step. Formulas
and defaults are EldenGym 0.6.0's (MIT). A score that ``info`` does not have is an error here; there it pays nothing.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from soulslab.errors import EnvironmentUsageError, did_you_mean

Observation = Mapping[str, Any]
Info = Mapping[str, Any]

PLAYER = "player_hp_normalized"
BOSS = "boss_hp_normalized"


class RewardFunction(ABC):
    """What pays for a step, and may end an episode before the fight does."""

    @abstractmethod
    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """Return the reward of a step.

        Args:
            obs: What was seen after it.
            info: What `EldenGymEnv` tells with it.
            prev_info: What it told before the step; None where there was nothing before.
        """

    @abstractmethod
    def is_done(self, obs: Observation, info: Info) -> bool:
        """Tell whether the episode ends with this step. Where one of the two is dead it ends in any case."""


class _OverWithDeath(RewardFunction):
    """A reward function whose episodes are whole fights."""

    def is_done(self, obs: Observation, info: Info) -> bool:
        """Tell whether one of the two is dead."""
        del obs
        return is_over(info)


class ScoreDeltaReward(_OverWithDeath):
    """The change of a score, and something for the end of the fight.

    Args:
        score_key: Which number of ``info`` is the score.
        win_bonus: Added when the boss is dead, also where both are.
        loss_penalty: Added when only the player is.
    """

    def __init__(self, score_key: str = PLAYER, win_bonus: float = 100.0, loss_penalty: float = -100.0) -> None:
        self.score_key = score_key
        self.win_bonus = win_bonus
        self.loss_penalty = loss_penalty

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; 0 where there was nothing before.

        Raises:
            EnvironmentUsageError: ``info`` has no such score.
        """
        del obs
        if prev_info is None:
            return 0.0
        gain = _number(info, self.score_key) - _number(prev_info, self.score_key)
        return gain + _at_the_end(info, self.win_bonus, self.loss_penalty)


class BossDefeatReward(_OverWithDeath):
    """Something for the end of the fight, and a little for each step until then.

    Args:
        boss_defeat_reward: Added when the boss is dead, also where both are.
        player_death_penalty: Added when only the player is.
        time_penalty: Added at each step.
    """

    def __init__(
        self, boss_defeat_reward: float = 1.0, player_death_penalty: float = -1.0, time_penalty: float = -0.001
    ) -> None:
        self.boss_defeat_reward = boss_defeat_reward
        self.player_death_penalty = player_death_penalty
        self.time_penalty = time_penalty

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`."""
        del obs, prev_info
        return self.time_penalty + _at_the_end(info, self.boss_defeat_reward, self.player_death_penalty)


class CustomReward(_OverWithDeath):
    """A weighted sum of both healths' changes, of being alive, and of the end of the fight.

    Args:
        hp_delta_weight: Of what the player's health gained, as a share of the full one.
        boss_damage_weight: Of what the boss's health lost, as a share of the full one.
        survival_bonus: Added at each step that the player survives.
        win_bonus: Added when the boss is dead, also where both are.
        loss_penalty: Added when only the player is.
    """

    def __init__(
        self,
        hp_delta_weight: float = 1.0,
        boss_damage_weight: float = 0.5,
        survival_bonus: float = 0.01,
        win_bonus: float = 100.0,
        loss_penalty: float = -100.0,
    ) -> None:
        self.hp_delta_weight = hp_delta_weight
        self.boss_damage_weight = boss_damage_weight
        self.survival_bonus = survival_bonus
        self.win_bonus = win_bonus
        self.loss_penalty = loss_penalty

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; 0 where there was nothing before."""
        del obs
        if prev_info is None:
            return 0.0
        gained = _number(info, PLAYER) - _number(prev_info, PLAYER)
        dealt = _number(prev_info, BOSS) - _number(info, BOSS)
        alive = 0.0 if _is_dead(info, PLAYER) else self.survival_bonus
        shares = self.hp_delta_weight * gained + self.boss_damage_weight * dealt
        return shares + alive + _at_the_end(info, self.win_bonus, self.loss_penalty)


class PlainReward(_OverWithDeath):
    """A plain function as a reward function, as EldenGym's documentation has it.

    Args:
        function: Takes ``(obs, info, terminated, truncated)``, or ``(obs, info, prev_info)`` or ``(obs, info)`` as
            `RewardFunction.calculate` does, and returns the reward of a step.

    Raises:
        EnvironmentUsageError: It takes other arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = str(getattr(function, "__qualname__", repr(function)))
        self._function = function
        self.takes_ends = _takes(function, 4)
        self._takes_previous = _takes(function, 3)
        if not (self.takes_ends or self._takes_previous or _takes(function, 2)):
            raise EnvironmentUsageError(
                f"reward_function {self.name} must take (obs, info, terminated, truncated), (obs, info, prev_info) or "
                f"(obs, info), and return a number"
            )

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; for a function that does not take the ends of an episode."""
        result: float = self._function(obs, info, prev_info) if self._takes_previous else self._function(obs, info)
        return result

    def calculate_with_ends(self, obs: Observation, info: Info, *, terminated: bool, truncated: bool) -> float:
        """Return the reward of a step, for a function that takes whether the episode ends with it."""
        result: float = self._function(obs, info, terminated, truncated)
        return result


def _takes(function: Callable[..., Any], n_arguments: int) -> bool:
    """Return whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return n_arguments == 3
    return True


def checked(function: Any) -> Any:
    """Return a reward function: an object with both methods as it is, a plain function as `PlainReward`.

    Raises:
        EnvironmentUsageError: It is neither, or is a class.
    """
    if callable(function) and not isinstance(function, type) and not hasattr(function, "calculate"):
        return PlainReward(function)
    is_one = all(callable(getattr(function, name, None)) for name in ("calculate", "is_done"))
    if isinstance(function, type) or not is_one:
        raise EnvironmentUsageError(
            f"reward_function must be an object with calculate(obs, info, prev_info) and is_done(obs, info), such as "
            f"ScoreDeltaReward(), or a function, not {function!r}"
        )
    return function


def call(
    function: Any, obs: Observation, info: Info, prev_info: Info, *, is_last_step: bool = False
) -> tuple[float, bool]:
    """Return the reward of a step, and whether the reward function ends the episode.

    Args:
        function: A reward function that `checked` returned.
        obs: Observation after the step.
        info: ``info`` after the step.
        prev_info: ``info`` before the step.
        is_last_step: Whether the step reaches the limit of steps.

    Raises:
        EnvironmentUsageError: The reward is not a finite number.
    """
    name = f"{type(function).__name__}.calculate"
    is_done = bool(function.is_done(obs, info))
    if isinstance(function, PlainReward):
        name = f"reward_function {function.name}"
    if isinstance(function, PlainReward) and function.takes_ends:
        paid: Any = function.calculate_with_ends(obs, info, terminated=is_done, truncated=is_last_step and not is_done)
    else:
        paid = function.calculate(obs, info, prev_info)
    try:
        reward = float(paid)
    except (TypeError, ValueError) as error:
        raise EnvironmentUsageError(f"{name} must return a number, not {paid!r}") from error
    if not math.isfinite(reward):
        raise EnvironmentUsageError(f"{name} must return a finite number, not {reward}")
    return reward, is_done


def is_over(info: Info) -> bool:
    """Tell whether one of the two is dead."""
    return _is_dead(info, PLAYER) or _is_dead(info, BOSS)


def _at_the_end(info: Info, win: float, loss: float) -> float:
    if _is_dead(info, BOSS):
        return win
    return loss if _is_dead(info, PLAYER) else 0.0


def _is_dead(info: Info, who: str) -> bool:
    return _number(info, who) <= 0.0


def _number(info: Info, key: str) -> float:
    if key not in info:
        raise EnvironmentUsageError(f"info has no score {key!r}{did_you_mean(key, map(str, info))}")
    return float(info[key])
