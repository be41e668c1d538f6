"""EldenGym's observation: a frame, numbers of the game's memory, and the positions of player and boss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.errors import EnvironmentUsageError, ProfileError, did_you_mean
from soulslab.games.character import Position, from_memory
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Attribute, Profile
from soulslab.siphon.profile.validation import representable

#: Attribute of soulslab's profile for each attribute of eldengym 0.6.0 (MIT), and the index of the number in a vector.
#: ``tests/unit/games/test_profiles.py`` lists and explains the pointer chains that differ from eldengym's.
PUBLIC_ATTRIBUTES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "HeroHp": ("player.hp", 0),
        "HeroMaxHp": ("player.max_hp", 0),
        "HeroFp": ("player.fp", 0),
        "HeroMaxFp": ("player.max_fp", 0),
        "HeroSp": ("player.sp", 0),
        "HeroMaxSp": ("player.max_sp", 0),
        "HeroAnimId": ("player.animation", 0),
        "HeroAnimLength": ("player.animation_length", 0),
        "HeroAnimSpeed": ("player.animation_speed", 0),
        "HeroLocalPosX": ("player.position", 0),
        "HeroLocalPosZ": ("player.position", 1),
        "HeroLocalPosY": ("player.position", 2),
        "HeroGlobalPosX": ("player.block_position", 0),
        "HeroGlobalPosZ": ("player.block_position", 1),
        "HeroGlobalPosY": ("player.block_position", 2),
        "HeroAngle": ("player.angle", 0),
        "HeroMapId": ("world.block", 0),
        "NoGravity": ("player.no_gravity", 0),
        "gameSpeedFlag": ("game.has_speed", 0),
        "gameSpeedVal": ("game.speed", 0),
        "NpcId": ("boss.model_id", 0),
        "NpcHp": ("boss.hp", 0),
        "NpcMaxHp": ("boss.max_hp", 0),
        "NpcGlobalPosX": ("boss.position", 0),
        "NpcGlobalPosZ": ("boss.position", 1),
        "NpcGlobalPosY": ("boss.position", 2),
        "NpcGlobalPosAngle": ("boss.angle", 0),
        "NpcLocalPosX": ("boss.havok_position", 0),
        "NpcLocalPosZ": ("boss.havok_position", 1),
        "NpcLocalPosY": ("boss.havok_position", 2),
        "NpcLocalPosAngle": ("boss.havok_angle", 0),
        "NpcAnimId": ("boss.animation", 0),
        "NpcAnimLength": ("boss.animation_length", 0),
    }
)
#: Observed attributes by default.
DEFAULT_NAMES = ("HeroHp", "HeroMaxHp", "NpcHp", "NpcMaxHp", "HeroAnimId", "NpcAnimId")

_FLOATS = ("f32", "f64")
_BITS = ("bool", "flag")

FRAME = "frame"
#: Positions of both in the coordinates of the player's map block, in m: x and y are horizontal, z is the height.
COORDINATES = ("player_x", "player_y", "player_z", "boss_x", "boss_y", "boss_z", "dist_to_boss", "boss_z_relative")
PLAYER_HP, PLAYER_MAX_HP = "player.hp", "player.max_hp"
BOSS_HP, BOSS_MAX_HP = "boss.hp", "boss.max_hp"
PLAYER, BOSS, IN_BLOCK = "player.position", "boss.position", "player.block_position"
PLAYER_ANIMATION, BOSS_ANIMATION = "player.animation", "boss.animation"
#: Attributes that are always read.
NEEDED = (PLAYER_HP, PLAYER_MAX_HP, BOSS_HP, BOSS_MAX_HP, PLAYER, BOSS, IN_BLOCK, PLAYER_ANIMATION, BOSS_ANIMATION)
#: Largest coordinate of a position (its range in the profile), and largest horizontal distance of two positions.
_FAR_M = 300_000.0
_SPAN_M = 2.0 * math.sqrt(2.0) * _FAR_M


class ObservedNumber(msgspec.Struct, frozen=True):
    """One number of an observation: its name, its attribute of the profile, its index in a vector, and its space."""

    name: str
    attribute: str
    index: int
    is_vector: bool
    space: spaces.Box

    def value(self, values: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Return the number from the values of the attributes: an array of shape (), in the dtype of the space."""
        value = values[self.attribute]
        return np.array(value[self.index] if self.is_vector else value, self.space.dtype)


def observed_numbers(profile: Profile, names: Sequence[str] | None) -> tuple[ObservedNumber, ...]:
    """Return the numbers of the game's memory in an observation; None stands for `DEFAULT_NAMES`."""
    if names is None:
        names = DEFAULT_NAMES
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise EnvironmentUsageError(f"memory_attributes must be a list of names, such as ['HeroHp'], not {names!r}")
    if len(set(names)) < len(names):
        raise EnvironmentUsageError(f"memory_attributes: each name only once, not {list(names)}")
    return tuple(_observed_number(profile, name) for name in names)


def _observed_number(profile: Profile, name: str) -> ObservedNumber:
    attribute, index = PUBLIC_ATTRIBUTES.get(name, (name, 0))
    fact = profile.attributes.get(attribute)
    if fact is None:
        if name in PUBLIC_ATTRIBUTES:
            raise ProfileError(f"is missing; {name!r} needs it", path=f"attributes.{attribute}")
        hint = did_you_mean(name, (*PUBLIC_ATTRIBUTES, *profile.attributes))
        raise EnvironmentUsageError(
            f"memory_attributes: unknown attribute {name!r}{hint}; to observe another attribute, add it to "
            "a profile (docs/profiles.md) and give a session of that profile as session=..."
        )
    is_vector = fact.length > 1
    if fact.type in ("bytes", "utf8", "utf16") or (is_vector and name not in PUBLIC_ATTRIBUTES):
        raise EnvironmentUsageError(
            f"memory_attributes: {name!r} is not a single number, but {fact.type}[{fact.length}]"
        )
    return ObservedNumber(name, attribute, index, is_vector, _space(fact))


def _space(fact: Attribute) -> spaces.Box:
    """Return the space of an attribute. Integers are int64, because float32 cannot represent all animation ids."""
    if fact.type in _BITS:
        return spaces.Box(0, 1, (), np.int64)
    low, high = fact.range or representable(fact.type, fact.scale)
    if fact.type in _FLOATS or fact.scale != 1.0:
        return spaces.Box(np.float32(low), np.float32(high), (), np.float32)
    return spaces.Box(int(low), int(high), (), np.int64)


class EldenGymEncoder:
    """Encodes the attributes and the frame of one read as an observation and as ``info``.

    `attributes` and `frame` are what has to be read, `names` the names of the observed numbers (`observed_numbers`).
    """

    def __init__(self, profile: Profile, names: Sequence[str] | None, frame_px: tuple[int, int] | None) -> None:
        self._numbers = observed_numbers(profile, names)
        self.names = tuple(number.name for number in self._numbers)
        self.attributes = tuple(dict.fromkeys((*NEEDED, *(number.attribute for number in self._numbers))))
        self.frame = FrameFormat(*frame_px) if frame_px is not None else None
        parts: dict[str, spaces.Space[Any]] = {}
        if frame_px is not None:
            parts[FRAME] = spaces.Box(0, 255, (frame_px[1], frame_px[0], 3), np.uint8)
        parts |= {number.name: number.space for number in self._numbers}
        parts |= {name: _coordinate_space(name) for name in COORDINATES}
        self.space = spaces.Dict(parts)

    def observation(self, values: Mapping[str, Any], frame: NDArray[np.uint8] | None) -> dict[str, Any]:
        """Return the observation: ``frame``, (H, W, 3) RGB uint8, and an array of shape () for each number."""
        observation: dict[str, Any] = {FRAME: frame} if frame is not None else {}
        observation |= {number.name: number.value(values) for number in self._numbers}
        player, boss = block_positions(values)
        distance_m = math.hypot(player[0] - boss[0], player[1] - boss[1])
        numbers = zip(COORDINATES, (*player, *boss, distance_m, boss[2] - player[2]), strict=True)
        return observation | {name: np.array(value, np.float32) for name, value in numbers}

    def info(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of EldenGym's ``info``."""
        player, boss = block_positions(values)
        return {
            "player_hp_normalized": float(values[PLAYER_HP]) / float(values[PLAYER_MAX_HP]),
            "boss_hp_normalized": float(values[BOSS_HP]) / float(values[BOSS_MAX_HP]),
            "player_animation": int(values[PLAYER_ANIMATION]),
            "boss_animation": int(values[BOSS_ANIMATION]),
            "player_xyz": player,
            "boss_xyz": boss,
        }


def block_positions(values: Mapping[str, Any]) -> tuple[Position, Position]:
    """Return the positions of player and boss in the player's map block: x, y, height, in m.

    The game has both positions in the coordinates of its physics, and only the player's in the coordinates of the map
    block. The two coordinate systems have parallel axes and differ by a translation (eldengym 0.6.0).
    """
    player, boss, in_block = (from_memory(values[name]) for name in (PLAYER, BOSS, IN_BLOCK))
    boss_in_block = tuple(block + other - here for block, other, here in zip(in_block, boss, player, strict=True))
    return in_block, (boss_in_block[0], boss_in_block[1], boss_in_block[2])


def _coordinate_space(name: str) -> spaces.Box:
    if name == "dist_to_boss":
        return spaces.Box(0.0, _SPAN_M, (), np.float32)
    far_m = 2.0 * _FAR_M if name == "boss_z_relative" else _FAR_M
    return spaces.Box(-far_m, far_m, (), np.float32)
