"""Rewards: weighted sums of terms, presets of weights, or a function of the user.

A term is a quantity of each step of a fight:

=============  =====================================================================================
boss_damage    damage to the boss, as a share of its full health
player_damage  damage to the player, as a share of its full health
win, death     1 in the step in which the fight ends so, otherwise 0
time           number of decisions in the step (more than 1 with ``skip_locked``)
centre         metres walked towards the reward centre of the ground, while more than 4 m away from it
roll, attack   number of rolls and attacks that began
hit_streak     for each hit on the boss, its number since the player was last hit, at most 5
=============  =====================================================================================

A new term needs its name in `soulslab.arena.records.REWARD_TERMS`, and its value in the simulator
(`soulslab.arena.simulator._play`) and in a game (`soulslab.envs.tasks.duel.fight_score.FightScore`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import REWARD_TERMS
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import NOTHING
from soulslab.errors import EnvironmentUsageError, UnknownRewardError, did_you_mean

#: ``soulsgym`` is the formula of SoulsGym 1.1.0. ``eldengym`` has the default weights of CustomReward in EldenGym
#: 0.6.0, without its bonus for each step. Both libraries have the MIT licence.
PRESETS: dict[str, dict[str, float]] = {
    "soulsgym": {"boss_damage": 1.0, "player_damage": -1.0, "win": 0.1, "death": -0.1, "centre": 0.01},
    "eldengym": {"boss_damage": 0.5, "player_damage": -1.0, "win": 100.0, "death": -100.0},
    "sparse": {"win": 1.0, "death": -1.0},
}

#: Start of numpy's error message for a field that a record does not have.
_NO_FIELD = "no field of name "


class Transition(msgspec.Struct, frozen=True):
    """One step of N fights, the argument of a reward function.

    Attributes:
        before: (N,) record array of the `DuelState` fields before the step: ``before["boss_hp"]`` is (N,).
        after: The same after the step; for a fight that ended, its last state.
        terms: Quantity of each reward term, (N,) float64 by name.
        terminated: (N,) bool, whether the fight was won or lost in this step.
        truncated: (N,) bool, whether the fight reached the limit of decisions in this step.
    """

    before: NDArray[np.record]
    after: NDArray[np.record]
    terms: dict[str, NDArray[np.float64]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


RewardFunction: TypeAlias = Callable[[Transition], NDArray[np.float64]]
Reward: TypeAlias = str | Mapping[str, float] | RewardFunction


def reward_weights(reward: Reward | object) -> dict[str, float]:
    """Return the weight of each term of a preset or a mapping; empty for a reward function."""
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
    if callable(getattr(reward, "calculate", None)):
        raise EnvironmentUsageError(
            f"reward {type(reward).__name__} is a reward object of EldenGym; pass it to "
            f"soulslab.compat.eldengym.make(reward_function=...), or use reward='eldengym'"
        )
    raise EnvironmentUsageError(
        f"reward must be a preset ({', '.join(PRESETS)}), a mapping of terms to weights, or a function, not {reward!r}"
    )


def check_reward_function(reward: Reward, n_fights: int) -> None:
    """Call a reward function with the first step of example fights, to detect mistakes at construction.

    Other types of reward are checked by `reward_weights`.
    """
    if not callable(reward):
        return
    name = _name_of(reward)
    try:
        inspect.signature(reward).bind(None)
    except TypeError as error:
        raise EnvironmentUsageError(
            f"reward function {name}{inspect.signature(reward)} must take one argument, a Transition of N fights, and "
            f"return N rewards; pass a function of EldenGym to soulslab.compat.eldengym.make(reward_function=...)"
        ) from error
    except ValueError:  # a builtin without a signature; the call below checks it
        pass
    transition = _example_transition(n_fights)
    try:
        call_reward(reward, transition, n_fights)
    except EnvironmentUsageError:
        raise
    except Exception as error:
        raise EnvironmentUsageError(
            f"reward function {name} failed with the first step of an example fight: {type(error).__name__}: "
            f"{error}{_field_hint(error, transition)}"
        ) from error


def _example_transition(n_fights: int) -> Transition:
    """Return the first step of N fights against the boss ``judge``."""
    boss = load_boss("judge", list(load_knight().knock_backs))
    simulator = Simulator(boss, n_fights, FightOptions(states=True, features=False))
    everyone = np.ones(n_fights, np.bool_)
    simulator.seed(np.arange(n_fights, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    before = simulator.states.copy()
    simulator.step(np.full(n_fights, NOTHING, np.int64))
    terms = {name: simulator.results["terms"][:, i].copy() for i, name in enumerate(REWARD_TERMS)}
    never = np.zeros(n_fights, np.bool_)
    return Transition(before, simulator.states.copy(), terms, never, never.copy())


def _field_hint(error: Exception, transition: Transition) -> str:
    """Return a suggestion for the error message if an unknown name caused the error; otherwise ""."""
    states = transition.before.dtype.names or ()
    if isinstance(error, KeyError) and error.args:
        return did_you_mean(str(error.args[0]), transition.terms)
    if isinstance(error, AttributeError) and error.obj is transition:
        return did_you_mean(error.name or "", Transition.__struct_fields__)
    if isinstance(error, ValueError) and str(error).startswith(_NO_FIELD):
        return did_you_mean(str(error).removeprefix(_NO_FIELD), states)
    return ""


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def call_reward(function: RewardFunction, transition: Transition, n_duels: int) -> NDArray[np.float64]:
    """Return the (N,) float64 rewards of a function of the user for one step of N fights; they must be finite."""
    returned = function(transition)
    name = _name_of(function)
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
