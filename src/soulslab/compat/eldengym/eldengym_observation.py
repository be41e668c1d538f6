"""What EldenGym shows: a picture, numbers of the game's memory, and where player and boss are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.compat.eldengym.eldengym_attributes import columns_of
from soulslab.games.axes import Position, from_memory
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile

FRAME = "frame"
#: Where both are, in the frame of the block of the map that the player is in: x, y on the ground, z the height, m.
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
#: What is read at each look, whatever else is asked for.
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

#: No position of the game is farther out (the range of positions in the profile), and so no two are farther apart.
_FAR_M = 300_000.0
_SPAN_M = 2.0 * math.sqrt(2.0) * _FAR_M


class View:
    """Makes observations and ``info`` of what was read together.

    Args:
        profile: The game.
        names: See `columns_of`.
        frame_px: Width and height of the picture; None for none.

    Attributes:
        space: Of the observations.
        attributes: What is read at each look.
        frame: The picture that is taken; None for none.
        names: Of the numbers of the game's memory.

    Raises:
        EnvironmentUsageError: There is no such attribute.
        ProfileError: The profile lacks one that is needed.
    """

    def __init__(self, profile: Profile, names: Sequence[str] | None, frame_px: tuple[int, int] | None) -> None:
        self._columns = columns_of(profile, names)
        self.names = tuple(column.name for column in self._columns)
        self.attributes = tuple(dict.fromkeys((*NEEDED, *(column.attribute for column in self._columns))))
        self.frame = None if frame_px is None else FrameFormat(*frame_px)
        parts: dict[str, spaces.Space[Any]] = {}
        if frame_px is not None:
            parts[FRAME] = spaces.Box(0, 255, (frame_px[1], frame_px[0], 3), np.uint8)
        parts |= {column.name: column.space for column in self._columns}
        parts |= {name: _coordinate_space(name) for name in COORDINATES}
        self.space = spaces.Dict(parts)

    def observation(self, seen: Mapping[str, Any], frame: NDArray[np.uint8] | None) -> dict[str, Any]:
        """Return the observation: (H, W, 3) RGB uint8, and arrays of shape () with a number each."""
        observation: dict[str, Any] = {} if frame is None else {FRAME: frame}
        observation |= {column.name: column.value(seen) for column in self._columns}
        numbers = zip(COORDINATES, coordinates(seen), strict=True)
        return observation | {name: np.array(value, np.float32) for name, value in numbers}

    def info(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        """Return what EldenGym's ``info`` holds."""
        player, boss = positions(seen)
        return {
            "player_hp_normalized": float(seen[PLAYER_HP]) / float(seen[PLAYER_MAX_HP]),
            "boss_hp_normalized": float(seen[BOSS_HP]) / float(seen[BOSS_MAX_HP]),
            "player_animation": int(seen[PLAYER_ANIMATION]),
            "boss_animation": int(seen[BOSS_ANIMATION]),
            "player_xyz": player,
            "boss_xyz": boss,
        }


def positions(seen: Mapping[str, Any]) -> tuple[Position, Position]:
    """Return where player and boss are in the frame of the player's block: x, y, height, m.

    The game has both in the frame of its physics, and the player in that of the block, too; the two frames differ by a
    shift, as their axes are the same (eldengym 0.6.0).
    """
    player, boss, in_block = (from_memory(seen[name]) for name in (PLAYER, BOSS, IN_BLOCK))
    there = tuple(block + other - here for block, other, here in zip(in_block, boss, player, strict=True))
    return in_block, (there[0], there[1], there[2])


def coordinates(seen: Mapping[str, Any]) -> tuple[float, ...]:
    """Return `COORDINATES`; the distance is that on the ground."""
    player, boss = positions(seen)
    distance = math.hypot(player[0] - boss[0], player[1] - boss[1])
    return (*player, *boss, distance, boss[2] - player[2])


def _coordinate_space(name: str) -> spaces.Box:
    if name == "dist_to_boss":
        return spaces.Box(0.0, _SPAN_M, (), np.float32)
    far_m = 2.0 * _FAR_M if name == "boss_z_relative" else _FAR_M
    return spaces.Box(-far_m, far_m, (), np.float32)
