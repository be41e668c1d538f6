"""EldenGym's observation: a frame, numbers of the game's memory, and the positions of player and boss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.compat.eldengym.eldengym_attributes import observed_numbers
from soulslab.games.character import Position, from_memory
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile

FRAME = "frame"
#: Positions of both in the coordinates of the player's map block, in m: x and y are horizontal, z is the height.
COORDINATES = (
    "player_x",
    "player_y",
    "player_z",
    "boss_x",
    "boss_y",
    "boss_z",
    "dist_to_boss",
    "boss_z_relative",
)
PLAYER_HP, PLAYER_MAX_HP = "player.hp", "player.max_hp"
BOSS_HP, BOSS_MAX_HP = "boss.hp", "boss.max_hp"
PLAYER, BOSS, IN_BLOCK = "player.position", "boss.position", "player.block_position"
PLAYER_ANIMATION, BOSS_ANIMATION = "player.animation", "boss.animation"
#: Attributes that are always read.
NEEDED = (
    PLAYER_HP,
    PLAYER_MAX_HP,
    BOSS_HP,
    BOSS_MAX_HP,
    PLAYER,
    BOSS,
    IN_BLOCK,
    PLAYER_ANIMATION,
    BOSS_ANIMATION,
)

#: Largest coordinate of a position (its range in the profile), and largest horizontal distance of two positions.
_FAR_M = 300_000.0
_SPAN_M = 2.0 * math.sqrt(2.0) * _FAR_M


class EldenGymEncoder:
    """Encodes the attributes and the frame of one read as an observation and as ``info``.

    Args:
        profile: Profile of the game.
        names: See `observed_numbers`.
        frame_px: Width and height of the frame; None for observations without a frame.

    Attributes:
        space: Observation space.
        attributes: Attributes to read.
        frame: Format of the frame to capture; None for no frame.
        names: Names of the observed numbers of the game's memory.

    Raises:
        EnvironmentUsageError: An attribute does not exist.
        ProfileError: The profile lacks a required attribute.
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
        numbers = zip(COORDINATES, coordinates(values), strict=True)
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


def coordinates(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of `COORDINATES`; the distance is horizontal."""
    player, boss = block_positions(values)
    distance = math.hypot(player[0] - boss[0], player[1] - boss[1])
    return (*player, *boss, distance, boss[2] - player[2])


def _coordinate_space(name: str) -> spaces.Box:
    if name == "dist_to_boss":
        return spaces.Box(0.0, _SPAN_M, (), np.float32)
    far_m = 2.0 * _FAR_M if name == "boss_z_relative" else _FAR_M
    return spaces.Box(-far_m, far_m, (), np.float32)
