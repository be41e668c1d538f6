"""A view of a fight for fast reading: the same names as `soulslab.arena.live_fight.LiveFight`, as plain Python values.

Reading a field of a numpy record takes 2.7 us, and publishing a game reads forty of them in each tick. Here all numbers
of the duel are unpacked at once, and the rules, which do not change, are read once.
"""

from __future__ import annotations

from collections import namedtuple
from struct import Struct
from typing import Any

import numpy as np

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.state import DUEL, Record

_CODES = {"i": "q", "u": "Q", "f": "d"}


def _plan() -> tuple[Struct, tuple[str, ...]]:
    """Return the format of the scalar fields of a duel, and their names; arrays are skipped."""
    codes, names = [], []
    for name in DUEL.names or ():
        dtype = DUEL.fields[name][0] if DUEL.fields else DUEL
        if dtype.shape:
            codes.append(f"{dtype.itemsize}x")
        else:
            codes.append(_CODES[dtype.kind])
            names.append(name)
    return Struct("<" + "".join(codes)), tuple(names)


_STRUCT, _NAMES = _plan()
_Duel = namedtuple("_Duel", _NAMES)  # type: ignore[misc]  # the names are those of the record


class _Kept:
    """A record of rules; each field is read at its first use."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._record, name)
        if isinstance(value, np.ndarray) and value.dtype.names:
            value = tuple(_Kept(one) for one in value)
        elif isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        self.__dict__[name] = value
        return value


class FightView:
    """A view of a fight, with all attributes of the game as of the last `refresh`.

    Args:
        game: The game.

    Attributes:
        game: The game.
        duel: Scalar fields of the duel's record.
        fight: Rules of the fight.
    """

    def __init__(self, game: LiveFight) -> None:
        self.game = game
        self._rules = _Kept(game.fight)
        self._buffer = memoryview(game.duel).cast("B")
        self.refresh()

    def refresh(self) -> None:
        """Read the present state of the game."""
        fields = self.__dict__
        fields.update(vars(self.game))
        fields["duel"] = _Duel._make(_STRUCT.unpack_from(self._buffer))
        fields["fight"] = self._rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self.game, name)
