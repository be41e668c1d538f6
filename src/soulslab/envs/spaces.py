"""Observation spaces of a duel, and the conversion of its records to observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.boss_file import Boss
from soulslab.arena.duel_state import DUEL_FIELDS, MAX_ANIMATION_S
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


def duel_space(
    bosses: Sequence[Boss], knight: Knight, kind: str, *, is_hp_fixed: bool = True
) -> spaces.Dict | spaces.Box:
    """Return the space of an observation in fights against any of some bosses, on their grounds.

    ``is_hp_fixed`` is false if bosses with other health are drawn from them.
    """
    limits_m = [
        (min(low for low, _ in pairs), max(high for _, high in pairs))
        for pairs in zip(*(boss.ground.limits_m for boss in bosses), strict=True)
    ]
    if kind in ROW_NAMES:
        return row_space(kind, limits_m, bosses[0].ground.floor_m)
    hp = {boss.hp for boss in bosses}
    boss_hp = hp.pop() if len(hp) == 1 and is_hp_fixed else None
    vitals = knight.vitals
    return fields_space(kind, limits_m, player_hp=vitals.hp, player_sp=vitals.sp, boss_hp=boss_hp)


def fields_space(
    kind: str,
    limits_m: Sequence[tuple[float, float]],
    *,
    player_hp: int | None,
    player_sp: int | None,
    boss_hp: int | None,
) -> spaces.Dict:
    """Return the space of the 15 `DuelState` fields, given limits of x, y and height, and full health and stamina.

    Health and stamina are None if they are not known yet, or differ between fights. With the kind ``"boxes"`` a
    Discrete space becomes a float32 Box of shape (1,) with the same bounds.
    """
    pi, ones = np.float32(np.pi), np.ones(3, np.float32)
    fields: dict[str, spaces.Space[Any]] = {
        "phase": spaces.Discrete(2, start=1),
        "player_hp": _current_space(player_hp),
        "player_max_hp": _full_space(player_hp),
        "player_sp": _current_space(player_sp),
        "player_max_sp": _full_space(player_sp),
        "boss_hp": _current_space(boss_hp),
        "boss_max_hp": _full_space(boss_hp),
        "player_pose": _pose_space(limits_m, pi),
        "boss_pose": _pose_space(limits_m, pi),
        "camera_pose": _pose_space(limits_m, ones),
        "player_animation": spaces.Discrete(len(load_knight().animations) + 1, start=-1),
        "player_animation_duration": spaces.Box(0.0, MAX_ANIMATION_S, (1,), np.float32),
        "boss_animation": spaces.Discrete(len(BOSS_ANIMATIONS) + 1, start=-1),
        "boss_animation_duration": spaces.Box(0.0, MAX_ANIMATION_S, (1,), np.float32),
        "lock_on": spaces.Discrete(2),
    }
    return spaces.Dict({name: _as_box(space) if kind == "boxes" else space for name, space in fields.items()})


def _as_box(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a Discrete space as a Box; other spaces unchanged."""
    if not isinstance(space, spaces.Discrete):
        return space
    return spaces.Box(float(space.start), float(space.start + space.n - 1), (1,), np.float32)


def _pose_space(limits_m: Sequence[tuple[float, float]], most: Any) -> spaces.Box:
    """Return the space of a position, followed by an angle or a vector of at most `most`."""
    low, high = np.array(limits_m, dtype=np.float32).T
    return spaces.Box(np.append(low, -most), np.append(high, most))


def _current_space(full: int | None) -> spaces.Box:
    return spaces.Box(0.0, float(full if full is not None else MOST_VITALS), (1,), np.float32)


def _full_space(value: int | None) -> spaces.Discrete:
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
