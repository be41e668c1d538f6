"""What is known of the player's animations: from when on in each of them the game takes another action."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.games.facts import FactFile, Text, facts_of, unknown

Seconds = Annotated[float, Meta(ge=0, le=60)]


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The earliest times in an animation at which something else is taken, in seconds of game time.

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
        critical: Animations after which the fight is over for the player.
        locks_s: Locks of each animation that is known, in the order that numbers them.
    """

    critical: tuple[Text, ...]
    locks_s: Annotated[dict[str, Lock], Meta(min_length=1)]

    def lock_of(self, name: str) -> Lock:
        """Return the locks of an animation.

        Raises:
            ConfigError: It is not known (did you mean ...).
        """
        if name not in self.locks_s:
            raise unknown("animation", name, self.locks_s)
        return self.locks_s[name]


def load_animations(game: str) -> Animations:
    """Read the animations of a game.

    Raises:
        ConfigError: None are known of it, or the file is malformed.
    """
    return facts_of(game, "animations", Animations)
