"""Reads the state of a real game during an entrance: the player, the boss, and whether the player is in the arena."""

from __future__ import annotations

import math

import msgspec

from soulslab.games.boss_facts import BossFacts
from soulslab.games.character import Position
from soulslab.games.souls_game import Screen, SoulsGame
from soulslab.siphon.session import LOADING

#: Maximum distance from the fog of a position in the arena, if the limits of the arena are not known.
ARENA_M = 120.0
#: Distance beyond the fog from which a position counts as inside, if no pose behind the fog is known.
BEYOND_M = 2.0
#: Part of the distance from the fog to the pose behind it from which a position counts as inside, if that is known.
BEYOND_SHARE = 0.5


class PlayerStatus(msgspec.Struct, frozen=True):
    """State of the player. Its ``repr`` is part of error messages.

    Attributes:
        screen: Screen that the game shows.
        is_in_control: Whether the player responds to keys.
        hp: Health; 0 if no player is loaded.
    """

    screen: Screen
    is_in_control: bool
    hp: int

    @property
    def can_act(self) -> bool:
        """Whether the player is alive, in the world, and responds to keys."""
        return self.screen == "world" and self.is_in_control and self.hp > 0


class BossHealth(msgspec.Struct, frozen=True):
    """Health of the boss.

    Attributes:
        hp: Current health.
        max_hp: Full health.
    """

    hp: int
    max_hp: int


class FightObserver:
    """Reads player and boss, and compares them with the facts of the boss.

    Args:
        facts: Facts of the boss.
        game: The game.
    """

    def __init__(self, facts: BossFacts, game: SoulsGame) -> None:
        self._facts, self._game = facts, game

    def read_player(self) -> PlayerStatus:
        """Return the state of the player.

        Raises:
            SiphonError: One of `LOADING`, while the player is not loaded.
        """
        screen = self._game.screen
        if screen in ("title", "loading"):
            return PlayerStatus(screen, is_in_control=False, hp=0)
        return PlayerStatus(screen, self._game.is_in_control, self._game.player.hp)

    def read_position(self) -> tuple[bool, Position]:
        """Return whether the player is in control, and its position, rounded to 1 cm."""
        x, y, height = self._game.player.position_m
        return self._game.is_in_control, (round(x, 2), round(y, 2), round(height, 2))

    def read_boss(self) -> BossHealth:
        """Return the health of the boss.

        Raises:
            SiphonError: One of `LOADING`, while the boss is not loaded.
        """
        values = self._game.session.snapshot(("boss.hp", "boss.max_hp"))
        return BossHealth(int(values["boss.hp"]), int(values["boss.max_hp"]))

    def find_boss(self) -> BossHealth | None:
        """Return the health of the boss, or None while the boss is not loaded."""
        try:
            return self.read_boss()
        except LOADING:
            return None

    def is_expected_boss(self, boss: BossHealth | None) -> bool:
        """Return whether the boss is alive and has the full health of its facts.

        In another place the same attributes can belong to another character, which has another full health.
        """
        return boss is not None and boss.hp > 0 and boss.max_hp == (self._facts.max_hp or boss.max_hp)

    def is_defeated(self) -> bool:
        """Return whether the flag of the boss's defeat is set; False if the flag cannot be read now."""
        try:
            return self._game.event_flags[self._facts.defeat_flag or 0]
        except LOADING:
            return False

    def distance_m(self, position: Position) -> float:
        """Return the horizontal distance of a position from the fog."""
        return math.dist(position[:2], self._game.pose_of(self._facts, "fog_wall").position_m[:2])

    def is_inside(self, position: Position) -> bool:
        """Return whether a position is beyond the fog, and within the limits of the arena."""
        fog = self._game.pose_of(self._facts, "fog_wall").position_m
        x, y = position[0] - fog[0], position[1] - fog[1]
        has_pose_behind = self._facts.poses.behind_fog_wall is not None
        if has_pose_behind:
            target = self._game.pose_of(self._facts, "behind_fog_wall").position_m
        else:
            # The position of the boss, if it is loaded, is the only known direction into the arena.
            target = self._game.boss.position_m if self.is_expected_boss(self.find_boss()) else position
        inwards = (target[0] - fog[0], target[1] - fog[1])
        length_m = math.hypot(*inwards)
        needed_m = BEYOND_SHARE * length_m if has_pose_behind else BEYOND_M
        is_beyond = length_m > 0.0 and (x * inwards[0] + y * inwards[1]) / length_m >= needed_m
        return is_beyond and self._is_in_arena(position, math.hypot(x, y))

    def _is_in_arena(self, position: Position, distance_m: float) -> bool:
        """Return whether a position, at a distance from the fog, is within the known limits of the arena."""
        limits_m = self._facts.arena.limits_m
        if limits_m is None or self._facts.frame != "player.position":
            return distance_m <= ARENA_M
        return all(low <= value <= high for value, (low, high) in zip(position, limits_m, strict=True))
