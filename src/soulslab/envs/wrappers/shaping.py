"""Wrappers that shape the reward: for rolls at the right time, and for keeping away from the edge of the ground.

Each adds its terms to ``info["reward_terms"]``, whose sum is still the reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.boss_file import MOVE_ANIMATIONS, Boss
from soulslab.arena.knight_file import Knight, load_knight
from soulslab.arena.records import Record
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.envs.arguments import check_choice
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import Env, Wrapper, duel_of
from soulslab.errors import EnvironmentUsageError

WindUps: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]
"""For each animation of the boss, the intervals (from, to) in s since its start in which a roll is well timed."""


def wind_ups_of(boss: Boss, knight: Knight | None = None) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the intervals in which a roll avoids each blow of a boss of the built-in fight.

    A rolling player is invulnerable from ``a`` to ``b`` after the start of the roll (``roll.invulnerable_s``). To be
    invulnerable when a blow begins to hurt at ``s``, the roll has to begin between ``s - b`` and ``s - a``. Without a
    knight, the player is the knight of the built-in fight.
    """
    first, last = (knight or load_knight()).roll.invulnerable_s
    return {
        move.animation: tuple((max(0.0, w.start_s - last), max(0.0, w.start_s - first)) for w in move.windows)
        for move in boss.moves
    }


class DodgeRewards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rewards and penalties for rolls.

    Attributes:
        timed: Reward for a roll that begins within a wind-up window; paid once for each window.
        panic: Penalty for any other roll.
        near_m: Largest distance from the boss at which a roll can be well timed.
    """

    timed: float = 0.05
    panic: float = 0.02
    near_m: float = 8.0


class DodgeShaping(Wrapper, RecordConstructorArgs):
    """Rewards rolls that begin in the wind-up of a blow, and penalises all others.

    Let x be the boss's animation and t its time when a roll begins, W(x) the windows of this animation, and d the
    distance to the boss::

        reward' = reward + timed * [t in a window of W(x) that is not rewarded yet, d <= near_m] - panic * [no window]

    A roll within a window that is rewarded already changes nothing, as does a roll during an unknown animation (-1).
    So each window adds at most ``timed``, however often the player rolls. ``info["reward_terms"]`` gets ``dodge_timed``
    and ``dodge_panic``.

    Args:
        wind_ups: Windows by animation. None uses the boss file of the environment.
        rewards: Rewards and penalties; None uses the defaults.

    Raises:
        EnvironmentUsageError: A number is out of range, an animation is unknown, the environment has no boss file and
            ``wind_ups`` is None, or the environment has no duel.
    """

    def __init__(self, env: Env, wind_ups: WindUps | None = None, rewards: DodgeRewards | None = None) -> None:
        RecordConstructorArgs.__init__(self, wind_ups=wind_ups, rewards=rewards)
        super().__init__(env)
        self._duel = duel_of(env, "DodgeShaping")
        self._rewards = rewards or DodgeRewards()
        for name, value in msgspec.structs.asdict(self._rewards).items():
            if not 0.0 <= value < np.inf:
                raise EnvironmentUsageError(f"DodgeShaping: {name} must be 0 or more, not {value}")
        self._wind_ups = wind_ups
        self._windows = self._find_windows()
        self._before: Any = None
        self._rewarded: set[int] = set()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._windows = self._find_windows()  # of the boss of this fight
        self._before = self._duel.duel_state.copy()
        self._rewarded.clear()
        return observation, _add_terms(info, 0.0, {"dodge_timed": 0.0, "dodge_panic": 0.0})

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, paid, terminated, truncated, info = self.env.step(action)
        reward = float(paid)
        timed, panic = 0.0, 0.0
        # A roll begins at the start of its step, so the state before the step counts.
        if self._duel.reward_quantities["roll"] > 0:
            timed, panic = self._rate_roll(self._before)
        before, now = self._before, self._duel.duel_state.copy()
        has_restarted = now.boss_animation_duration < before.boss_animation_duration
        if now.boss_animation != before.boss_animation or has_restarted:
            self._rewarded.clear()
        self._before = now
        info = _add_terms(info, reward, {"dodge_timed": timed, "dodge_panic": panic})
        return observation, reward + timed + panic, terminated, truncated, info

    def _find_windows(self) -> dict[int, tuple[tuple[float, float], ...]]:
        if self._wind_ups is not None:
            return _numbered(self._wind_ups)
        boss = getattr(self.env.unwrapped, "boss", None)
        if not isinstance(boss, Boss):
            raise EnvironmentUsageError(
                f"DodgeShaping: {type(self.env.unwrapped).__name__} has no boss file, so it needs wind_ups, such as "
                f"{{'Attack3000': [(0.2, 0.6)]}}"
            )
        return _numbered(wind_ups_of(boss))

    def _rate_roll(self, state: Record) -> tuple[float, float]:
        """Return the reward and the penalty of a roll."""
        animation = int(state.boss_animation)
        if animation < 0:
            return 0.0, 0.0
        windows = self._windows.get(animation, ())
        fitting = [i for i, (start, end) in enumerate(windows) if start <= state.boss_animation_duration <= end]
        distance_m = np.hypot(*(state["boss_pose"][:2] - state["player_pose"][:2]))
        if not fitting or distance_m > self._rewards.near_m:
            return 0.0, -self._rewards.panic
        if self._rewarded.issuperset(fitting):
            return 0.0, 0.0
        self._rewarded.update(fitting)
        return self._rewards.timed, 0.0


class EdgeShaping(Wrapper, RecordConstructorArgs):
    """Penalises the edge of the ground, without changing the optimal policy.

    Potential-based shaping (Ng, Harada & Russell 1999, "Policy invariance under reward transformations")::

        reward' = reward + discount * P(s') - P(s),   P(s) = -weight * min(1, max(0, 1 - distance / near_m))

    with P = 0 after the end of a fight. ``info["reward_terms"]`` gets ``edge``.

    Args:
        weight: Potential on the edge and outside is ``-weight``.
        near_m: Distance from the edge at which the potential begins to fall.
        discount: Discount factor of the learner.

    Raises:
        EnvironmentUsageError: A number is out of range, or the environment has no duel.
    """

    def __init__(
        self, env: Env, boundary: Boundary, weight: float = 0.1, near_m: float = 3.0, discount: float = 0.99
    ) -> None:
        RecordConstructorArgs.__init__(self, boundary=boundary, weight=weight, near_m=near_m, discount=discount)
        super().__init__(env)
        if not (0.0 <= weight < np.inf and near_m > 0.0 and 0.0 <= discount <= 1.0):
            raise EnvironmentUsageError(
                f"EdgeShaping: weight must be 0 or more, near_m greater than 0 and discount from 0 to 1, not "
                f"{weight!r}, {near_m!r} and {discount!r}"
            )
        self._boundary, self._weight, self._near_m, self._discount = boundary, weight, near_m, discount
        self._duel = duel_of(env, "EdgeShaping")
        self._last = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._last = self.potential(self._duel.duel_state)
        return observation, _add_terms(info, 0.0, {"edge": 0.0})

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, paid, terminated, truncated, info = self.env.step(action)
        reward = float(paid)
        potential = 0.0 if terminated else self.potential(self._duel.duel_state)
        edge = self._discount * potential - self._last
        self._last = potential
        return observation, reward + edge, terminated, truncated, _add_terms(info, reward, {"edge": edge})

    def potential(self, state: Record) -> float:
        """Return the potential P of a `DUEL_STATE` record."""
        distance_m = self._boundary.distance(np.array(state["player_pose"][:2]))
        return -self._weight * min(1.0, max(0.0, 1.0 - float(distance_m) / self._near_m))


def _add_terms(info: dict[str, Any], reward: float, terms: dict[str, float]) -> dict[str, Any]:
    """Return the info with more reward terms; an environment without terms gets the term ``reward``."""
    return {**info, "reward_terms": {**info.get("reward_terms", {"reward": reward}), **terms}}


def _numbered(wind_ups: WindUps) -> dict[int, tuple[tuple[float, float], ...]]:
    """Return the windows by animation number, without the change of phase, which has no number."""
    for name, windows in wind_ups.items():
        check_choice("DodgeShaping: wind_ups: unknown animation", name, {*MOVE_ANIMATIONS, *BOSS_ANIMATIONS})
        if any(not 0.0 <= start <= end for start, end in windows):
            raise EnvironmentUsageError(f"DodgeShaping: wind_ups[{name!r}] must be (from, to) with 0 <= from <= to")
    return {BOSS_ANIMATIONS.index(name): tuple(w) for name, w in wind_ups.items() if name in BOSS_ANIMATIONS}
