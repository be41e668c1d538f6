"""Wrappers that add fields to an observation: animation timers, and the distance to the edge of the ground."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.duel_state import MAX_ANIMATION_S
from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, TICKS_PER_S, Record
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.envs.arguments import check_choice, check_names
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.duel_source import FIGHTERS, Env, Wrapper, duel_of
from soulslab.errors import EnvironmentUsageError

TIMERS = ("time", "frame", "steps", "one_hot")
RELATIVE_TO = ("player", "camera", "world")


class ExtendedObservation(Wrapper):
    """Base class of wrappers that add fields to each observation.

    Fields are added to a Dict as keys, and to a one-dimensional Box of floats at the end.

    Attributes:
        feature_names: Names of the numbers of a Box, including those of inner wrappers; empty for a Dict.

    Raises:
        EnvironmentUsageError: The observation has another type, or already has one of the keys.
    """

    def __init__(self, env: Env, fields: Mapping[str, spaces.Box]) -> None:
        super().__init__(env)
        self._fields = dict(fields)
        self.feature_names: tuple[str, ...] = ()
        space, name = env.observation_space, type(self).__name__
        if isinstance(space, spaces.Dict):
            twice = sorted(set(space.spaces) & set(fields))
            if twice:
                raise EnvironmentUsageError(f"{name}: the observation already has {', '.join(twice)}; wrap it once")
            self.observation_space = spaces.Dict({**space.spaces, **fields})
        elif isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
            boxes = (space, *self._fields.values())
            low, high = (np.concatenate([getattr(box, side) for box in boxes]) for side in ("low", "high"))
            self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
            names = [
                key if space.shape == (1,) else f"{key}[{i}]"
                for key, space in self._fields.items()
                for i in range(space.shape[0])
            ]
            self.feature_names = (*feature_names_of(env), *names)
        else:
            raise EnvironmentUsageError(
                f"{name} needs an observation that is a Dict or a one-dimensional Box of floats, not {space}; "
                f"use observation='dict', 'features' or 'pixels+state'"
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._extend(observation, self.values(is_first=True)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._extend(observation, self.values(is_first=False)), reward, terminated, truncated, info

    @abstractmethod
    def values(self, *, is_first: bool) -> dict[str, Any]:
        """Return the current values of the fields, by key; values out of bounds are clipped to the bounds."""

    def _extend(self, observation: Any, values: dict[str, Any]) -> Any:
        arrays = {
            key: np.clip(np.asarray(values[key], space.dtype).reshape(space.shape), space.low, space.high)
            for key, space in self._fields.items()
        }
        if isinstance(observation, dict):
            return {**observation, **arrays}
        return np.concatenate([observation, *(array.ravel() for array in arrays.values())], dtype=observation.dtype)


class AnimationTimers(ExtendedObservation, RecordConstructorArgs):
    """Adds the current animations of the player and the boss, and how long they have lasted.

    Each combination of fighter and timer adds a field ``{fighter}_animation_{timer}``:

    - ``time``: seconds of game time since the animation began, 0 to 10;
    - ``frame``: the same time in frames of 1/60 s, whole numbers, 0 to 600;
    - ``steps``: steps of the environment since the animation was first observed, 0 to 100;
    - ``one_hot``: the animation, one number for each known one; all 0 for an unknown one.

    Args:
        of: The fighters: ``"player"``, ``"boss"`` or both.
        timers: The timers to add.

    Raises:
        EnvironmentUsageError: A fighter or timer is unknown, or the environment has no duel.
    """

    def __init__(
        self, env: Env, of: Sequence[str] = FIGHTERS, timers: Sequence[str] = ("time", "steps", "one_hot")
    ) -> None:
        RecordConstructorArgs.__init__(self, of=of, timers=timers)
        check_names("AnimationTimers: of", of, FIGHTERS)
        check_names("AnimationTimers: timers", timers, TIMERS)
        self._n_animations = {"player": len(load_knight().animations), "boss": len(BOSS_ANIMATIONS)}
        fields = {f"{who}_animation_{timer}": self._space(who, timer) for who in of for timer in timers}
        super().__init__(env, fields)
        self._duel = duel_of(env, "AnimationTimers")
        self._of = tuple(of)
        self._last: dict[str, tuple[int, float]] = {}
        self._n_steps: dict[str, int] = {}

    def _space(self, who: str, timer: str) -> spaces.Box:
        max_frames, max_steps = MAX_ANIMATION_S * TICKS_PER_S, float(round(MAX_ANIMATION_S / DECISION_S))
        highest = {"time": MAX_ANIMATION_S, "frame": max_frames, "steps": max_steps}
        return _field_box(0.0, highest[timer]) if timer in highest else _field_box(0.0, 1.0, self._n_animations[who])

    def values(self, *, is_first: bool) -> dict[str, Any]:
        """Return the values of all timers of the chosen fighters."""
        state = self._duel.duel_state
        values: dict[str, Any] = {}
        for who in self._of:
            animation, time_s = int(state[f"{who}_animation"]), float(state[f"{who}_animation_duration"])
            last_animation, last_s = self._last.get(who, (animation, time_s))
            # If the same animation is played again, its time is smaller than before.
            is_same = not is_first and animation == last_animation and time_s >= last_s
            self._n_steps[who] = self._n_steps.get(who, 0) + 1 if is_same else 0
            self._last[who] = animation, time_s
            values[f"{who}_animation_time"] = time_s
            values[f"{who}_animation_frame"] = round(time_s * TICKS_PER_S)
            values[f"{who}_animation_steps"] = self._n_steps[who]
            one_hot = np.zeros(self._n_animations[who], np.float32)
            one_hot[animation : animation + 1] = animation >= 0
            values[f"{who}_animation_one_hot"] = one_hot
        return values


class BoundaryObservation(ExtendedObservation, RecordConstructorArgs):
    """Adds ``boundary_distance`` (1,) and ``boundary_normal`` (2,).

    The distance is that from the player to the edge in m, positive inside. The normal is a unit vector that points
    inwards from the nearest edge. Its components are ahead and right of the player or the camera; with ``"world"`` they
    are x and y.

    Args:
        relative_to: ``"player"``, ``"camera"`` (as for actions) or ``"world"``.
        most_m: Largest distance that is reported, in m.

    Raises:
        EnvironmentUsageError: An option is invalid, or the environment has no duel.
    """

    def __init__(self, env: Env, boundary: Boundary, relative_to: str = "player", most_m: float = 50.0) -> None:
        RecordConstructorArgs.__init__(self, boundary=boundary, relative_to=relative_to, most_m=most_m)
        check_choice("BoundaryObservation: relative_to: unknown", relative_to, RELATIVE_TO)
        if not most_m > 0.0:
            raise EnvironmentUsageError(f"BoundaryObservation: most_m must be greater than 0, not {most_m!r}")
        fields = {"boundary_distance": _field_box(-most_m, most_m), "boundary_normal": _field_box(-1.0, 1.0, 2)}
        super().__init__(env, fields)
        self._boundary = boundary
        self._relative_to = relative_to
        self._duel = duel_of(env, "BoundaryObservation")

    def values(self, *, is_first: bool) -> dict[str, Any]:  # noqa: ARG002 (keeps no state)
        """Return distance and normal at the position of the player."""
        state = self._duel.duel_state
        distance_m, normal = self._boundary.distance_and_normal(np.array(state["player_pose"][:2]))
        if self._relative_to != "world":
            fx, fy = _facing(state, self._relative_to)
            # Right of (fx, fy) is (fy, -fx), because angles increase to the left.
            normal = np.array([normal[0] * fx + normal[1] * fy, normal[0] * fy - normal[1] * fx])
        return {"boundary_distance": distance_m, "boundary_normal": normal}


def feature_names_of(env: Env) -> tuple[str, ...]:
    """Return the names of the numbers of a one-dimensional Box observation; empty for other observations.

    Use them instead of positions: ``names.index("boundary_distance")``.
    """
    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return ()
    known: tuple[str, ...] = (
        tuple(env.get_wrapper_attr("feature_names")) if env.has_wrapper_attr("feature_names") else FEATURE_NAMES
    )
    return known if len(known) == space.shape[0] else tuple(f"observation[{i}]" for i in range(space.shape[0]))


def _field_box(low: float, high: float, size: int = 1) -> spaces.Box:
    """Return the space of a field of ``size`` float32 numbers."""
    return spaces.Box(np.full(size, low, np.float32), np.full(size, high, np.float32), dtype=np.float32)


def _facing(state: Record, of: str) -> tuple[float, float]:
    """Return the horizontal direction in which the player or the camera faces, as a unit vector."""
    if of == "player":
        angle = float(state["player_pose"][3])
        return -math.sin(angle), -math.cos(angle)
    x, y = float(state["camera_pose"][3]), float(state["camera_pose"][4])
    length = math.hypot(x, y)
    return (x / length, y / length) if length > 0.0 else (0.0, 1.0)  # straight up or down: no direction is ahead
