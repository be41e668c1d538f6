"""Copies of the records as plain Python objects, for code that reads many of their fields in each tick or picture.

Reading a field of a numpy record takes a microsecond or more, reading an attribute of a plain object a thirtieth of
that. The copies have the same names, so that code for records also works with them.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.records import DUEL, Record

_CODES = {"i": "q", "u": "Q", "f": "d"}


def plain_rules(record: Record) -> Record:
    """Return a copy of a record whose tables become lists of copies."""
    copy = SimpleNamespace()
    # `item` converts all numbers at once; only arrays and tables remain.
    for name, value in zip(record.dtype.names, record.item(), strict=True):
        if isinstance(value, np.ndarray):
            is_table = value.dtype.names is not None
            copy.__dict__[name] = [plain_rules(row) for row in value] if is_table else value.tolist()
        else:
            copy.__dict__[name] = value
    return copy


class RecordCopier:
    """Copies the records of a game for consecutive pictures. The rules are copied once for each game."""

    def __init__(self) -> None:
        self._record: Record = None
        self._rules: Record = None

    def copy(self, game: LiveFight) -> tuple[Record, Record]:
        """Return copies of the present duel and fight records; arrays become lists, (n, m) arrays lists of lists."""
        if game.fight is not self._record:
            self._record, self._rules = game.fight, plain_rules(game.fight)
        fields = zip(DUEL.names or (), game.duel.item(), strict=True)
        duel = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields}
        return SimpleNamespace(**duel), self._rules


#: The scalar fields of a duel; arrays are skipped.
_TYPES = {name: DUEL[name] for name in DUEL.names or ()}
_SCALAR_STRUCT = struct.Struct(
    "=" + "".join(f"{one.itemsize}x" if one.shape else _CODES[one.kind] for one in _TYPES.values())
)
_DuelScalars = namedtuple("_DuelScalars", [name for name, one in _TYPES.items() if not one.shape])  # type: ignore[misc]


class FightView:
    """A view of a running game, with all its attributes as of the last `refresh`, for code that publishes it each tick.

    ``duel`` has the scalar fields of the duel's record.
    """

    def __init__(self, game: LiveFight) -> None:
        self.game = game
        self._rules = plain_rules(game.fight)
        self._buffer = memoryview(game.duel).cast("B")
        self.refresh()

    def refresh(self) -> None:
        """Read the present state of the game."""
        fields = self.__dict__
        fields.update(vars(self.game))
        fields["duel"] = _DuelScalars._make(_SCALAR_STRUCT.unpack_from(self._buffer))
        fields["fight"] = self._rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self.game, name)
