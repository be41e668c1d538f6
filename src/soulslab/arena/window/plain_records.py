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


def _layout(dtype: np.dtype[Any]) -> tuple[struct.Struct, list[tuple[str, int, int, tuple[int, ...]]]]:
    """Return the format of a flat record, and (name, first, number, shape) of the values of each field."""
    codes, fields, first = "", [], 0
    for name in dtype.names or ():
        base, shape = dtype[name].base, dtype[name].shape
        number = int(np.prod(shape, dtype=int))
        codes += f"{number}{_CODES[base.kind]}"
        fields.append((name, first, number, shape))
        first += number
    return struct.Struct(f"={codes}"), fields


_UNPACK, _FIELDS = _layout(DUEL)
_SCALARS = [(name, first) for name, first, _, shape in _FIELDS if not shape]
_ARRAYS = [(name, first, number, shape) for name, first, number, shape in _FIELDS if shape]


def plain_duel(duel: Record) -> Record:
    """Return a copy of a `DUEL` record; arrays become lists, and (n, m) arrays lists of lists."""
    values = _UNPACK.unpack(duel.tobytes())
    copy = SimpleNamespace()
    fields = copy.__dict__
    for name, first in _SCALARS:
        fields[name] = values[first]
    for name, first, number, shape in _ARRAYS:
        row = list(values[first : first + number])
        fields[name] = row if len(shape) == 1 else [row[i : i + shape[1]] for i in range(0, number, shape[1])]
    return copy


def plain_rules(record: Record) -> Record:
    """Return a copy of a record whose tables become lists of copies."""
    copy = SimpleNamespace()
    for name in record.dtype.names:
        value = record[name]
        if isinstance(value, np.ndarray):
            is_table = value.dtype.names is not None
            copy.__dict__[name] = [plain_rules(row) for row in value] if is_table else value.tolist()
        else:
            copy.__dict__[name] = value.item()
    return copy


class RecordCopier:
    """Copies the records of a game for consecutive pictures. The rules are copied once for each game."""

    def __init__(self) -> None:
        self._record: Record = None
        self._rules: Record = None

    def copy(self, game: LiveFight) -> tuple[Record, Record]:
        """Return copies of the present duel and fight records."""
        if game.fight is not self._record:
            self._record, self._rules = game.fight, plain_rules(game.fight)
        return plain_duel(game.duel), self._rules


#: The scalar fields of a duel; arrays are skipped.
_SCALAR_STRUCT = struct.Struct(
    "=" + "".join(f"{8 * number}x" if shape else _CODES[DUEL[name].kind] for name, _, number, shape in _FIELDS)
)
_DuelScalars = namedtuple("_DuelScalars", [name for name, _ in _SCALARS])  # type: ignore[misc]  # names of the record


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
