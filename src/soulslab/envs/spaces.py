"""Observation spaces of a duel, and the conversion of its records to observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_state import DUEL_FIELDS, MAX_ANIMATION_S, DuelField
from soulslab.arena.features import FEATURE_NAMES, feature_bounds
from soulslab.arena.knight_file import Knight, load_knight
from soulslab.arena.relative_features import RELATIVE_NAMES, relative_bounds
from soulslab.arena.vocabulary import BOSS_ANIMATIONS

#: Observations that are a Dict of the 15 `DuelState` fields, with the types of SoulsGym or with float32 Boxes only.
FIELD_KINDS = ("dict", "boxes")

#: Observations that are a one-dimensional Box, with the names of their numbers.
ROW_NAMES = {"features": FEATURE_NAMES, "relative": RELATIVE_NAMES}

#: Upper bound of health and stamina of a character in the supported games.
MOST_VITALS = 9_999


def row_space(kind: str, limits_m: Sequence[tuple[float, float]], floor_m: float) -> spaces.Box:
    """Return the space of a one-dimensional observation, a key of `ROW_NAMES`, in limits of x, y and height."""
    if kind == "features":
        low, high = feature_bounds()
    else:
        limits = np.array(limits_m, np.float64)
        low, high = relative_bounds(limits[:, 0], limits[:, 1] - limits[:, 0], floor_m)
    return spaces.Box(low, high, dtype=np.float32)


class DuelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the fields of a duel: of x, y and height in m, and the full health and stamina.

    The full health and stamina are None for a character that is not known yet.
    """

    limits_m: Sequence[tuple[float, float]]
    player_hp: int | None
    player_sp: int | None
    boss_hp: int


def duel_space(boss: Boss, knight: Knight, kind: str = "dict") -> spaces.Dict:
    """Return the space of the 15 `DuelState` fields for a boss and its ground; see `fields_space`."""
    vitals = knight.vitals
    limits = DuelLimits(limits_m=boss.ground.limits_m, player_hp=vitals.hp, player_sp=vitals.sp, boss_hp=boss.hp)
    return fields_space(limits, kind)


def fields_space(limits: DuelLimits, kind: str = "dict") -> spaces.Dict:
    """Return the space of the 15 `DuelState` fields within limits.

    With the kind ``"boxes"`` a Discrete space becomes a float32 Box of shape (1,) with the same bounds.
    """
    fields = {field.name: _field_space(field, limits) for field in DUEL_FIELDS}
    return spaces.Dict({name: _as_box(space) if kind == "boxes" else space for name, space in fields.items()})


def _as_box(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a Discrete space as a Box; other spaces unchanged."""
    if not isinstance(space, spaces.Discrete):
        return space
    return spaces.Box(float(space.start), float(space.start + space.n - 1), (1,), np.float32)


def _field_space(field: DuelField, bounds: DuelLimits) -> spaces.Space[Any]:
    """Return the space of one field."""
    limits = np.array(bounds.limits_m, dtype=np.float32)
    if field.kind == "pose":
        return spaces.Box(np.append(limits[:, 0], -np.float32(np.pi)), np.append(limits[:, 1], np.float32(np.pi)))
    if field.kind == "camera":
        low, high = np.full(3, -1, np.float32), np.full(3, 1, np.float32)
        return spaces.Box(np.append(limits[:, 0], low), np.append(limits[:, 1], high))
    whole: dict[str, spaces.Space[Any]] = {
        "phase": spaces.Discrete(2, start=1),
        "player_max_hp": _full_space(bounds.player_hp),
        "player_max_sp": _full_space(bounds.player_sp),
        "boss_max_hp": spaces.Discrete(1, start=bounds.boss_hp),
        "player_animation": spaces.Discrete(len(load_knight().animations) + 1, start=-1),
        "boss_animation": spaces.Discrete(len(BOSS_ANIMATIONS) + 1, start=-1),
        "lock_on": spaces.Discrete(2),
    }
    if field.is_integer:
        return whole[field.name]
    most = {"player_hp": bounds.player_hp, "player_sp": bounds.player_sp, "boss_hp": bounds.boss_hp}
    if field.name not in most:
        return spaces.Box(0.0, MAX_ANIMATION_S, (1,), np.float32)
    most_hp = most[field.name]
    return spaces.Box(0.0, float(most_hp if most_hp is not None else MOST_VITALS), (1,), np.float32)


def _full_space(value: int | None) -> spaces.Discrete:
    """Return the space of full health or stamina."""
    return spaces.Discrete(1, start=value) if value is not None else spaces.Discrete(MOST_VITALS, start=1)


def duel_observation(states: NDArray[np.record], kind: str = "dict") -> dict[str, NDArray[Any]]:
    """Return (N,) `DUEL_STATE` records as a batch of observations of a kind in `FIELD_KINDS`; all arrays are new."""
    observation: dict[str, NDArray[Any]] = {}
    for field in DUEL_FIELDS:
        values = states[field.name]
        if field.is_integer and kind == "dict":
            observation[field.name] = values.copy()
        else:
            observation[field.name] = values.reshape(len(states), field.size).astype(np.float32)
    return observation


def row(observation: Any, place: int) -> Any:
    """Return a copy of the observation of one environment from a batch of observations."""
    if isinstance(observation, dict):
        return {
            key: values[place].copy() if values.ndim > 1 else np.int64(values[place])
            for key, values in observation.items()
        }
    return observation[place].copy()
