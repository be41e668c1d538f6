"""Event flags of a game: numbered booleans in which it stores the state of the world.

::

    game.event_flags[14000800]                          # Iudex Gundyr is defeated
    game.event_flags.is_defeated("Iudex Gundyr")        # the same, by the name in event_flags.toml
"""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from soulslab.games.facts import FactFile, Id, read_game_facts, unknown
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.session import Session


class EventFlags(FactFile, frozen=True, kw_only=True):
    """The file ``event_flags.toml`` of a game.

    Attributes:
        defeated: Number of the flag that is set when a boss is defeated, by the name of the boss.
        rested: Number of the flag that is set when a bonfire or site of grace is found, by its name.
    """

    defeated: Annotated[dict[str, Id], Meta(min_length=1)]
    rested: dict[str, Id] = msgspec.field(default_factory=dict)

    def defeat_of(self, boss: str) -> int:
        """Return the number of the flag for the defeat of a boss.

        Raises:
            ConfigError: The file has no flag for this boss; the message suggests a similar name.
        """
        if boss not in self.defeated:
            raise unknown("flag for the defeat of", boss, self.defeated)
        return self.defeated[boss]


def load_event_flags(game: str) -> EventFlags:
    """Read the event flags of a game.

    Raises:
        ConfigError: The game has no such file, or the file is malformed.
    """
    return read_game_facts(game, "event_flags", EventFlags)


class FlagLocator(Protocol):
    """Finds event flags in the memory layout of a game."""

    def locate(self, number: int) -> ChainNumber:
        """Return the current memory location of a flag.

        Raises:
            EntityNotFoundError: The game has no storage for a flag of this number, or has not loaded that part.
            SiphonError: Errors of `Session.read_number`.
        """
        ...


class FlagMemory:
    """Event flags in the memory of a running game.

    Args:
        session: Session of the game.
        locator: Finds the flags in memory.
        known: Flags with names.
    """

    def __init__(self, session: Session, locator: FlagLocator, known: EventFlags) -> None:
        self._session = session
        self._locator = locator
        self._known = known

    def __getitem__(self, number: int) -> bool:
        """Return whether a flag is set; raises the errors of `FlagLocator.locate`."""
        return bool(self._session.read_number(self._locator.locate(number)))

    def __setitem__(self, number: int, is_set: bool) -> None:
        """Set or clear a flag; raises the errors of `FlagLocator.locate` and `Session.write_number`."""
        self._session.write_number(self._locator.locate(number), is_set)

    def is_defeated(self, boss: str) -> bool:
        """Return whether a boss is marked as defeated.

        Raises:
            ConfigError: No flag is known for this boss; the message suggests a similar name.
            SiphonError: As in `__getitem__`.
        """
        return self[self._known.defeat_of(boss)]

    def set_defeated(self, boss: str, is_defeated: bool) -> None:
        """Mark a boss as defeated or not defeated; the game reads the flag when it loads the place.

        Raises the errors of `is_defeated` and `__setitem__`.
        """
        self[self._known.defeat_of(boss)] = is_defeated
