"""Event flags in a game's memory: what it remembers of its world, each under a number.

::

    game.event_flags[14000800]                          # Iudex Gundyr has been beaten
    game.event_flags.is_defeated("Iudex Gundyr")        # the same, by the name in event_flags.toml
"""

from __future__ import annotations

from typing import Protocol

from soulslab.games.event_flags import EventFlags
from soulslab.siphon.attributes.chain_number import ChainNumber
from soulslab.siphon.session import Session


class FlagPlaces(Protocol):
    """How a game lays out its flags."""

    def place_of(self, number: int) -> ChainNumber:
        """Return where a flag lies now.

        Raises:
            EntityNotFoundError: The game has no room for a flag of that number, or not in the part that is loaded.
            SiphonError: What `Session.read_number` raises.
        """
        ...


class FlagMemory:
    """The event flags of a game.

    Args:
        session: Of the game.
        places: How it lays them out.
        known: Those that have names.
    """

    def __init__(self, session: Session, places: FlagPlaces, known: EventFlags) -> None:
        self._session = session
        self._places = places
        self._known = known

    def __getitem__(self, number: int) -> bool:
        """Tell whether a flag is set; raises as `FlagPlaces.place_of`."""
        return bool(self._session.read_number(self._places.place_of(number)))

    def __setitem__(self, number: int, is_set: bool) -> None:
        """Set a flag or take it away; raises as `FlagPlaces.place_of` and `Session.write_number`."""
        self._session.write_number(self._places.place_of(number), is_set)

    def is_defeated(self, boss: str) -> bool:
        """Tell whether a boss has been beaten.

        Raises:
            ConfigError: No flag for it is known (did you mean ...).
            SiphonError: As `__getitem__`.
        """
        return self[self._known.defeat_of(boss)]

    def set_defeated(self, boss: str, is_defeated: bool) -> None:
        """Have the game believe that a boss has been beaten, or has not; it looks when it loads the place.

        Raises as `is_defeated`, and as `__setitem__`.
        """
        self[self._known.defeat_of(boss)] = is_defeated
