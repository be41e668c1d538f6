"""Rewards beside the fight's own: for rolls at the right time, and for keeping off the edge.

Each adds its terms to ``info["reward_terms"]``, so that these still add up to the reward.
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
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import duel_of
from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError, did_you_mean

WindUps: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]
"""By the boss's animation: times since its start, (from, to) in s, between which a roll is well begun."""


def wind_ups_of(boss: Boss, knight: Knight | None = None) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return when a roll takes the player through each blow of a boss of the built-in fight.

    A roll cannot be hit from ``a`` to ``b`` after its start (``roll.invulnerable_s``), so one that is to be there when
    a blow begins to hurt at ``s`` has to begin between ``s - b`` and ``s - a``.
    """
    first, last = (knight or load_knight()).roll.invulnerable_s
    return {
        move.animation: tuple((max(0.0, w.start_s - last), max(0.0, w.start_s - first)) for w in move.windows)
        for move in boss.moves
    }


class DodgeRewards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What rolls are worth.

    Attributes:
        timed: For a roll that begins within a wind-up window; once for each window that the boss plays.
        panic: Taken for any other roll.
        near_m: Farther than this from the boss no roll is well timed.
    """

    timed: float = 0.05
    panic: float = 0.02
    near_m: float = 8.0


class DodgeShaping(Wrapper, RecordConstructorArgs):
    """Pays for rolls that begin while a blow is coming, and charges for all others.

    With x the boss's animation and t its time when a roll begins, W(x) the windows of that animation, d the distance::

        reward' = reward + timed * [t in a window of W(x) that has not paid yet, d <= near_m] - panic * [no such window]

    A roll within a window that has paid already is neither. A roll in an animation that is unknown (-1) is neither.
    So a fight gains at most ``timed`` for each window that the boss plays: rolling more often gains nothing.
    ``info["reward_terms"]`` gets ``dodge_timed`` and ``dodge_panic``.

    Args:
        env: Any duel.
        wind_ups: Windows by animation. None takes those of the environment's boss file, where it has one.
        rewards: What rolls are worth.

    Raises:
        EnvironmentUsageError: A number is wrong, an animation unknown, or it is no duel.
    """

    def __init__(self, env: Env, wind_ups: WindUps | None = None, rewards: DodgeRewards | None = None) -> None:
        RecordConstructorArgs.__init__(self, wind_ups=wind_ups, rewards=rewards)
        super().__init__(env)
        self._duel = duel_of(env, "DodgeShaping")
        self._rewards = rewards or DodgeRewards()
        for name in DodgeRewards.__struct_fields__:
            if not 0.0 <= getattr(self._rewards, name) < np.inf:
                raise EnvironmentUsageError(
                    f"DodgeShaping: {name} must be 0 or more, not {getattr(self._rewards, name)}"
                )
        self._windows = _numbered(_boss_wind_ups(env) if wind_ups is None else wind_ups)
        self._before = _Look(-1, 0.0, 0.0)
        self._paid: set[int] = set()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._before = _look(self._duel.duel_state)
        self._paid.clear()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, paid, terminated, truncated, info = self.env.step(action)
        reward = float(paid)
        timed, panic = 0.0, 0.0
        # A roll begins with its step, so what counts is what the boss was doing before it.
        if self._duel.reward_quantities["roll"] > 0:
            timed, panic = self._judge(self._before)
        now = _look(self._duel.duel_state)
        if now.animation != self._before.animation or now.time_s < self._before.time_s:
            self._paid.clear()
        self._before = now
        return (
            observation,
            reward + timed + panic,
            terminated,
            truncated,
            _added(info, reward, {"dodge_timed": timed, "dodge_panic": panic}),
        )

    def _judge(self, look: _Look) -> tuple[float, float]:
        """Return what a roll earns and what it is charged."""
        if look.animation < 0:
            return 0.0, 0.0
        windows = self._windows.get(look.animation, ())
        fitting = [i for i, (start, end) in enumerate(windows) if start <= look.time_s <= end]
        if not fitting or look.distance_m > self._rewards.near_m:
            return 0.0, -self._rewards.panic
        if self._paid.issuperset(fitting):
            return 0.0, 0.0
        self._paid.update(fitting)
        return self._rewards.timed, 0.0


class EdgeShaping(Wrapper, RecordConstructorArgs):
    """Makes the edge of the ground unpleasant, without changing which policy is best.

    Potential-based shaping (Ng, Harada & Russell 1999, "Policy invariance under reward transformations")::

        reward' = reward + discount * P(s') - P(s),   P(s) = -weight * min(1, max(0, 1 - distance / near_m))

    with P = 0 after the end of a fight. ``info["reward_terms"]`` gets ``edge``.

    Args:
        env: Any duel.
        boundary: The edge.
        weight: Least potential, on the edge and beyond.
        near_m: Where the potential begins to fall.
        discount: That of the learner.

    Raises:
        EnvironmentUsageError: A number is wrong, or it is no duel.
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
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, paid, terminated, truncated, info = self.env.step(action)
        reward = float(paid)
        potential = 0.0 if terminated else self.potential(self._duel.duel_state)
        edge = self._discount * potential - self._last
        self._last = potential
        return observation, reward + edge, terminated, truncated, _added(info, reward, {"edge": edge})

    def potential(self, state: Record) -> float:
        """Return P of a `DUEL_STATE` record."""
        distance_m = self._boundary.distance(np.array(state["player_pose"][:2]))
        return -self._weight * min(1.0, max(0.0, 1.0 - float(distance_m) / self._near_m))


class _Look(msgspec.Struct, frozen=True):
    """What the boss is doing: its animation, for how long, how far away."""

    animation: int
    time_s: float
    distance_m: float


def _look(state: Record) -> _Look:
    (bx, by), (px, py) = state["boss_pose"][:2], state["player_pose"][:2]
    return _Look(int(state.boss_animation), float(state.boss_animation_duration), float(np.hypot(bx - px, by - py)))


def _added(info: dict[str, Any], reward: float, terms: dict[str, float]) -> dict[str, Any]:
    """Return the info with more terms; what an environment without terms gave is one of its own."""
    return {**info, "reward_terms": {**info.get("reward_terms", {"reward": reward}), **terms}}


def _boss_wind_ups(env: Env) -> WindUps:
    boss = getattr(env.unwrapped, "boss", None)
    if not isinstance(boss, Boss):
        raise EnvironmentUsageError(
            f"DodgeShaping: {type(env.unwrapped).__name__} has no boss file, so it needs wind_ups, such as "
            f"{{'Attack3000': [(0.2, 0.6)]}}"
        )
    return wind_ups_of(boss)


def _numbered(wind_ups: WindUps) -> dict[int, tuple[tuple[float, float], ...]]:
    """Return the windows by the animation's number; the change of phase has none, and can never count."""
    for name, windows in wind_ups.items():
        if name not in MOVE_ANIMATIONS and name not in BOSS_ANIMATIONS:
            hint = did_you_mean(str(name), MOVE_ANIMATIONS)
            raise EnvironmentUsageError(f"DodgeShaping: wind_ups: unknown animation {name!r}{hint}")
        if any(not 0.0 <= start <= end for start, end in windows):
            raise EnvironmentUsageError(f"DodgeShaping: wind_ups[{name!r}] must be (from, to) with 0 <= from <= to")
    return {BOSS_ANIMATIONS.index(name): tuple(w) for name, w in wind_ups.items() if name in BOSS_ANIMATIONS}
