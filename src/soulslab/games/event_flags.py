"""Event flags in the memory of a game: numbered booleans in which it stores the state of the world."""

from __future__ import annotations

from abc import ABC, abstractmethod

from soulslab.games.facts import EventFlags
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.profile import NumberType
from soulslab.siphon.session import Session


class FlagMemory(ABC):
    """Event flags of a running game, by number or by the boss's name in ``event_flags.toml``.

    A subclass knows where a game stores them.
    """

    def __init__(self, session: Session, known: EventFlags) -> None:
        self._session = session
        self._known = known

    @abstractmethod
    def locate(self, number: int) -> ChainNumber:
        """Return the current memory location of a flag.

        Raises:
            EntityNotFoundError: The game has no storage for a flag of this number, or has not loaded that part.
            SiphonError: Errors of `Session.read_number`.
        """

    def __getitem__(self, number: int) -> bool:
        """Return whether a flag is set; raises the errors of `locate`."""
        return bool(self._session.read_number(self.locate(number)))

    def __setitem__(self, number: int, is_set: bool) -> None:
        """Set or clear a flag; raises the errors of `locate` and `Session.write_number`."""
        self._session.write_number(self.locate(number), is_set)

    def is_defeated(self, boss: str) -> bool:
        """Return whether a boss is marked as defeated; raises `ConfigError` if no flag is known for it."""
        return self[self._known.defeat_of(boss)]

    def set_defeated(self, boss: str, is_defeated: bool) -> None:
        """Mark a boss as defeated or not defeated; the game reads the flag when it loads the place."""
        self[self._known.defeat_of(boss)] = is_defeated

    def _read_integer(self, base: str, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=base, offsets=offsets, type=kind)))
