"""EldenGym's reward functions, and their base class.

A reward function receives the observation, ``info``, and the ``info`` before the step. Formulas and defaults are those
of EldenGym 0.6.0 (MIT). A score that is missing in ``info`` is an error here, and counts as 0 in EldenGym.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from soulslab.errors import EnvironmentUsageError, did_you_mean

Observation = Mapping[str, Any]
Info = Mapping[str, Any]

PLAYER = "player_hp_normalized"
BOSS = "boss_hp_normalized"


class RewardFunction(ABC):
    """Base class of reward functions, which can also end an episode before the end of the fight."""

    @abstractmethod
    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """Return the reward of a step, given observation and ``info`` after it, and the ``info`` before it."""

    @abstractmethod
    def is_done(self, obs: Observation, info: Info) -> bool:
        """Return whether the episode ends with this step. It ends in any case if the player or the boss is dead."""


class _WholeFightReward(RewardFunction):
    """Base class of reward functions that end an episode only at the end of the fight."""

    def is_done(self, obs: Observation, info: Info) -> bool:
        """Return whether the player or the boss is dead."""
        del obs
        return is_over(info)


@dataclass(eq=False)
class ScoreDeltaReward(_WholeFightReward):
    """The change of a score, and a bonus or penalty at the end of the fight.

    Args:
        score_key: Key of the score in ``info``.
        win_bonus: Added if the boss is dead, also if the player is dead, too.
        loss_penalty: Added if only the player is dead.
    """

    score_key: str = PLAYER
    win_bonus: float = 100.0
    loss_penalty: float = -100.0

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; 0 without ``prev_info``."""
        del obs
        if prev_info is None:
            return 0.0
        gain = _score(info, self.score_key) - _score(prev_info, self.score_key)
        return gain + _end_reward(info, self.win_bonus, self.loss_penalty)


@dataclass(eq=False)
class BossDefeatReward(_WholeFightReward):
    """A bonus or penalty at the end of the fight, and a penalty for each step.

    Args:
        boss_defeat_reward: Added if the boss is dead, also if the player is dead, too.
        player_death_penalty: Added if only the player is dead.
        time_penalty: Added at each step.
    """

    boss_defeat_reward: float = 1.0
    player_death_penalty: float = -1.0
    time_penalty: float = -0.001

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`."""
        del obs, prev_info
        return self.time_penalty + _end_reward(info, self.boss_defeat_reward, self.player_death_penalty)


@dataclass(eq=False)
class CustomReward(_WholeFightReward):
    """Weighted changes of both healths, a bonus for survival, and a bonus or penalty at the end of the fight.

    Args:
        hp_delta_weight: Weight of the increase of the player's health, as a fraction of its full health.
        boss_damage_weight: Weight of the decrease of the boss's health, as a fraction of its full health.
        survival_bonus: Added at each step that the player survives.
        win_bonus: Added if the boss is dead, also if the player is dead, too.
        loss_penalty: Added if only the player is dead.
    """

    hp_delta_weight: float = 1.0
    boss_damage_weight: float = 0.5
    survival_bonus: float = 0.01
    win_bonus: float = 100.0
    loss_penalty: float = -100.0

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; 0 without ``prev_info``."""
        del obs
        if prev_info is None:
            return 0.0
        gained = _score(info, PLAYER) - _score(prev_info, PLAYER)
        dealt = _score(prev_info, BOSS) - _score(info, BOSS)
        survival = 0.0 if _is_dead(info, PLAYER) else self.survival_bonus
        changes = self.hp_delta_weight * gained + self.boss_damage_weight * dealt
        return changes + survival + _end_reward(info, self.win_bonus, self.loss_penalty)


class FunctionReward(_WholeFightReward):
    """Reward function that calls a plain function, as in EldenGym's documentation.

    The function takes ``(obs, info, terminated, truncated)``, or ``(obs, info, prev_info)`` or ``(obs, info)`` as
    `RewardFunction.calculate` does, and returns the reward of a step. Other arguments raise `EnvironmentUsageError`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = str(getattr(function, "__qualname__", repr(function)))
        self._function = function
        self._n_arguments = next((n for n in (4, 3, 2) if _takes(function, n)), 0)
        self.takes_ends = self._n_arguments == 4
        if not self._n_arguments:
            raise EnvironmentUsageError(
                f"reward_function {self.name} must take (obs, info, terminated, truncated), (obs, info, prev_info) or "
                f"(obs, info), and return a number"
            )

    def calculate(self, obs: Observation, info: Info, prev_info: Info | None = None) -> float:
        """See `RewardFunction.calculate`; for a function without ``terminated`` and ``truncated``."""
        result: float = self._function(*(obs, info, prev_info)[: self._n_arguments])
        return result

    def calculate_with_ends(self, obs: Observation, info: Info, *, terminated: bool, truncated: bool) -> float:
        """Return the reward of a step; for a function with ``terminated`` and ``truncated``."""
        result: float = self._function(obs, info, terminated, truncated)
        return result


def _takes(function: Callable[..., Any], n_arguments: int) -> bool:
    """Return whether a function can be called with this number of arguments."""
    try:
        inspect.signature(function).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return n_arguments == 3
    return True


def check_reward_function(function: Any) -> Any:
    """Return the reward function of an option: the default for None; a plain function in a `FunctionReward`."""
    if function is None:
        return ScoreDeltaReward()
    if callable(function) and not isinstance(function, type) and not hasattr(function, "calculate"):
        return FunctionReward(function)
    has_methods = all(callable(getattr(function, name, None)) for name in ("calculate", "is_done"))
    if isinstance(function, type) or not has_methods:
        raise EnvironmentUsageError(
            f"reward_function must be an object with calculate(obs, info, prev_info) and is_done(obs, info), such as "
            f"ScoreDeltaReward(), or a function, not {function!r}"
        )
    return function


def evaluate_reward(
    function: Any, obs: Observation, info: Info, prev_info: Info, *, is_last_step: bool = False
) -> tuple[float, bool]:
    """Return the reward of a step, which must be a finite number, and whether the reward function ends the episode."""
    name = f"{type(function).__name__}.calculate"
    is_done = bool(function.is_done(obs, info))
    if isinstance(function, FunctionReward):
        name = f"reward_function {function.name}"
    if isinstance(function, FunctionReward) and function.takes_ends:
        value: Any = function.calculate_with_ends(obs, info, terminated=is_done, truncated=is_last_step and not is_done)
    else:
        value = function.calculate(obs, info, prev_info)
    try:
        reward = float(value)
    except (TypeError, ValueError) as error:
        raise EnvironmentUsageError(f"{name} must return a number, not {value!r}") from error
    if not math.isfinite(reward):
        raise EnvironmentUsageError(f"{name} must return a finite number, not {reward}")
    return reward, is_done


def is_over(info: Info) -> bool:
    """Return whether the player or the boss is dead."""
    return _is_dead(info, PLAYER) or _is_dead(info, BOSS)


def _end_reward(info: Info, win: float, loss: float) -> float:
    if _is_dead(info, BOSS):
        return win
    return loss if _is_dead(info, PLAYER) else 0.0


def _is_dead(info: Info, hp_key: str) -> bool:
    return _score(info, hp_key) <= 0.0


def _score(info: Info, key: str) -> float:
    if key not in info:
        raise EnvironmentUsageError(f"info has no score {key!r}{did_you_mean(key, map(str, info))}")
    return float(info[key])
