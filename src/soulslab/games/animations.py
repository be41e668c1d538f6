"""Animations of the player: when each of them accepts the next action."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.games.facts import FactFile, Text, read_game_facts, unknown

Seconds = Annotated[float, Meta(ge=0, le=60)]


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Earliest times in an animation at which the next action is accepted, in seconds of game time.

    Attributes:
        attack: An attack or a parry.
        roll: A roll.
        move: A step.
    """

    attack: Seconds
    roll: Seconds
    move: Seconds


class Animations(FactFile, frozen=True, kw_only=True):
    """The file ``animations.toml`` of a game.

    Attributes:
        critical: Animations after which the player can no longer win the fight.
        locks_s: Locks by the name of the animation; the order of the entries numbers the animations in observations.
    """

    critical: tuple[Text, ...]
    locks_s: Annotated[dict[str, Lock], Meta(min_length=1)]

    def lock_of(self, name: str) -> Lock:
        """Return the locks of an animation.

        Raises:
            ConfigError: The animation is unknown; the message suggests a similar name.
        """
        if name not in self.locks_s:
            raise unknown("animation", name, self.locks_s)
        return self.locks_s[name]


def load_animations(game: str) -> Animations:
    """Read the animations of a game.

    Raises:
        ConfigError: The game has no such file, or the file is malformed.
    """
    return read_game_facts(game, "animations", Animations)
