"""What is seen of a real game on the way to a fight: player, boss, and whether they are where the fight is."""

from __future__ import annotations

import math

import msgspec

from soulslab.games.axes import Position
from soulslab.games.boss_facts import BossFacts
from soulslab.games.souls_game import Screen, SoulsGame
from soulslab.siphon.session import LOADING

#: Nobody who is further from the fog than this is in the arena, where its limits are not known.
ARENA_M = 120.0
#: So far beyond the fog one is inside, where nobody has published the place behind it.
BEYOND_M = 2.0
#: And so much of the way to that place where it is known.
BEYOND_SHARE = 0.5


class Player(msgspec.Struct, frozen=True):
    """What is seen of the player; errors show it as it is.

    Attributes:
        screen: What the game shows.
        is_in_control: The player does what the keys say.
        hp: Its health; 0 where there is none.
    """

    screen: Screen
    is_in_control: bool
    hp: int

    @property
    def can_act(self) -> bool:
        """Whether it is alive, in the world, and does what the keys say."""
        return self.screen == "world" and self.is_in_control and self.hp > 0


class Health(msgspec.Struct, frozen=True):
    """What is seen of the boss.

    Attributes:
        hp: Its health.
        max_hp: The most of it.
    """

    hp: int
    max_hp: int


class Sight:
    """Looks at a game, with what is known of a boss in mind; what has no object yet raises one of `LOADING`.

    Args:
        facts: What is known of the boss.
        game: The game.
    """

    def __init__(self, facts: BossFacts, game: SoulsGame) -> None:
        self._facts, self._game = facts, game

    def player(self) -> Player:
        """Return what is seen of the player; raises one of `LOADING` where there is none."""
        screen = self._game.screen
        if screen in ("title", "loading"):
            return Player(screen, is_in_control=False, hp=0)
        return Player(screen, self._game.is_in_control, self._game.player.hp)

    def boss(self) -> Health | None:
        """Return what is seen of the boss; None while it is not there."""
        try:
            return self.read_boss()
        except LOADING:
            return None

    def read_boss(self) -> Health:
        """Return what is seen of the boss; raises one of `LOADING` while it is not there."""
        seen = self._game.session.snapshot(("boss.hp", "boss.max_hp"))
        return Health(int(seen["boss.hp"]), int(seen["boss.max_hp"]))

    def is_it(self, boss: Health | None) -> bool:
        """Tell whether that is the boss, alive: another place has others where this one is found."""
        return boss is not None and boss.hp > 0 and boss.max_hp == (self._facts.max_hp or boss.max_hp)

    def is_beaten(self) -> bool:
        """Tell whether the game has taken down the boss's defeat, as far as that can be seen."""
        try:
            return self._game.event_flags[self._facts.defeat_flag or 0]
        except LOADING:
            return False

    def distance_m(self, position: Position) -> float:
        """Return how far someone is from the fog, on the ground."""
        return math.dist(position[:2], self._game.pose_of(self._facts, "fog_wall").position_m[:2])

    def is_inside(self, position: Position) -> bool:
        """Tell whether someone is beyond the fog, and in the arena as far as that is known."""
        fog = self._game.pose_of(self._facts, "fog_wall").position_m
        x, y = position[0] - fog[0], position[1] - fog[1]
        if self._facts.poses.behind_fog_wall is not None:
            behind = self._game.pose_of(self._facts, "behind_fog_wall").position_m
            way = (behind[0] - fog[0], behind[1] - fog[1])
            needed_m = BEYOND_SHARE * math.hypot(*way)
        else:
            # All that is known of the direction is where the boss is, if it is there already.
            other = self._game.boss.position_m if self.is_it(self.boss()) else position
            way, needed_m = (other[0] - fog[0], other[1] - fog[1]), BEYOND_M
        length_m = math.hypot(*way)
        is_beyond = length_m > 0.0 and (x * way[0] + y * way[1]) / length_m >= needed_m
        return is_beyond and _is_in_arena(self._facts, position, math.hypot(x, y))

    def place(self) -> tuple[bool, Position]:
        """Return whether the player is in control, and where it is, to the centimetre."""
        x, y, height = self._game.player.position_m
        return self._game.is_in_control, (round(x, 2), round(y, 2), round(height, 2))


def _is_in_arena(facts: BossFacts, position: Position, distance_m: float) -> bool:
    """Tell whether a position, so far from the fog, is within the limits of the arena, as far as they are known."""
    limits_m = facts.arena.limits_m
    if limits_m is None or facts.frame != "player.position":
        return distance_m <= ARENA_M
    return all(low <= value <= high for value, (low, high) in zip(position, limits_m, strict=True))
