"""An interactive search for a number or a text, narrowed down line by line."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from soulslab.errors import ConfigError, MemoryAccessError, ScanError
from soulslab.siphon.memory import CHUNK_BYTES, Memory, chunks
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.conditions import (
    COMPARING,
    Condition,
    check_condition,
    mask_of,
    parse_condition,
    parse_number,
)
from soulslab.siphon.scanner.reading import writable_regions
from soulslab.siphon.scanner.value_scan import Progress, ValueScan

TextType = Literal["utf8", "utf16"]
_CODECS = {"utf8": "utf-8", "utf16": "utf-16-le"}
_MAX_TEXTS = 100_000
_SHOWN_BYTES = 32


class NumberSearch(ValueScan):
    """A search for a number, that is narrowed down line by line."""

    def look(self, line: str, progress: Progress | None = None, /) -> bool:
        """Search for the value or change that a line states; return False if the line states none."""
        condition = parse_condition(line, self.type)
        if condition is None:
            return False
        if self.n_rounds:
            self.narrow(condition, progress)
        else:
            self.first(condition, progress)
        return True

    def addresses(self, limit: int) -> list[int]:
        """Return the first remaining places."""
        return [candidate.address for candidate in self.candidates(limit)]

    def before(self, limit: int) -> list[str]:
        """Return their values in the last round, as text."""
        return [_shown(candidate.value) for candidate in self.candidates(limit)]

    def now(self, address: int) -> str:
        """Return the current value of a place, as text. Raises `MemoryAccessError` for an unreadable place."""
        return _shown(self._value_at(address)[0].item())

    def fulfils(self, address: int, line: str) -> bool:
        """Return whether the value of a place fulfils a line; False for an unreadable place."""
        condition = parse_condition(line, self.type)
        if condition is None or condition.kind in COMPARING:
            raise ConfigError("states no value; give one, as 100 or 10..20", source=line)
        check_condition(condition, self.type)
        try:
            return bool(mask_of(condition, self._value_at(address), None)[0])
        except MemoryAccessError:
            return False

    def encode(self, text: str) -> bytes:
        """Return the bytes of a typed value."""
        number = parse_number(text, self.type)
        if self._dtype.kind != "f":
            check_condition(Condition("exact", number), self.type)
        return np.array([number]).astype(self._dtype).tobytes()

    def _value_at(self, address: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return np.frombuffer(self._memory.read(address, self._dtype.itemsize), self._dtype)


class TextSearch:
    """A search for a text: ``= Hero``, with the methods of `NumberSearch`."""

    def __init__(self, memory: Memory, encoding: TextType) -> None:
        self.type = encoding
        self._memory = memory
        #: Text and its addresses, for each round.
        self._rounds: list[tuple[str, list[int]]] = []

    @property
    def n_candidates(self) -> int:
        """Number of remaining places."""
        return len(self._rounds[-1][1]) if self._rounds else 0

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far."""
        return len(self._rounds)

    def look(self, line: str, _progress: Progress | None = None, /) -> bool:
        """See `NumberSearch.look`."""
        if not line.startswith("="):
            return False
        text = _text_of(line)
        if self._rounds:
            found = [address for address in self._rounds[-1][1] if self.fulfils(address, line)]
        else:
            found = find_text(self._memory, text, self.type, limit=_MAX_TEXTS)
        self._rounds.append((text, found))
        return True

    def undo(self) -> None:
        """See `NumberSearch.undo`."""
        if len(self._rounds) < 2:
            raise ScanError("no round can be undone; a first round can only be repeated")
        self._rounds.pop()

    def addresses(self, limit: int) -> list[int]:
        """See `NumberSearch.addresses`."""
        return self._rounds[-1][1][:limit] if self._rounds else []

    def before(self, limit: int) -> list[str]:
        """See `NumberSearch.before`."""
        return [repr(self._rounds[-1][0])] * len(self.addresses(limit))

    def now(self, address: int) -> str:
        """See `NumberSearch.now`."""
        size = len(self.encode(self._rounds[-1][0])) if self._rounds else _SHOWN_BYTES
        text = self._memory.read(address, size).decode(_CODECS[self.type], errors="replace")
        return repr(text.partition("\0")[0])

    def fulfils(self, address: int, line: str) -> bool:
        """See `NumberSearch.fulfils`."""
        wanted = self.encode(_text_of(line))
        try:
            return self._memory.read(address, len(wanted)) == wanted
        except MemoryAccessError:
            return False

    def encode(self, text: str) -> bytes:
        """See `NumberSearch.encode`."""
        return text.encode(_CODECS[self.type])


Search: TypeAlias = NumberSearch | TextSearch


def open_search(memory: Memory, value_type: NumberType | TextType, alignment: int = 0) -> Search:
    """Start a search for a value of a type."""
    if value_type == "utf8" or value_type == "utf16":  # noqa: PLR1714  (mypy narrows by this one)
        return TextSearch(memory, value_type)
    return NumberSearch(memory, value_type, alignment=alignment)


def _text_of(line: str) -> str:
    text = line.removeprefix("=").strip()
    if not text:
        raise ConfigError("names no text; give it, as: = Hero", source=line)
    return text


def _shown(value: float) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def find_text(memory: Memory, text: str, encoding: TextType, *, limit: int = 1000) -> list[int]:
    """Find text, case-sensitive, in the writable memory of a game; return the addresses, ascending.

    Windows programs mostly use ``utf16``. Raises `ScanError` if the text is empty, or cannot be encoded.
    """
    try:
        needle = text.encode(_CODECS[encoding])
    except UnicodeEncodeError as error:
        raise ScanError(f"{text!r} cannot be stored as {encoding}: {error.reason}") from error
    if not needle or len(needle) > CHUNK_BYTES:
        raise ScanError(f"the text to find has {len(needle)} bytes; it needs 1 to {CHUNK_BYTES}")
    found: list[int] = []
    for start, data in chunks(memory, writable_regions(memory), extra=len(needle) - 1):
        piece = data.tobytes()
        at = piece.find(needle)
        while 0 <= at < CHUNK_BYTES and len(found) < limit:
            found.append(start + at)
            at = piece.find(needle, at + 1)
        if len(found) >= limit:
            break
    return found
