"""The search that a person leads from line to line: for a number, or for a text."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from soulslab.errors import ConfigError, MemoryAccessError, ScanError
from soulslab.siphon.memory import Memory
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.conditions import COMPARING, DTYPES, Condition, check_condition, mask_of
from soulslab.siphon.scanner.phrases import parse_condition, parse_number
from soulslab.siphon.scanner.reading import CHUNK_BYTES, chunks, writable_regions
from soulslab.siphon.scanner.value_scan import Progress, ValueScan

TextType = Literal["utf8", "utf16"]
_CODECS = {"utf8": "utf-8", "utf16": "utf-16-le"}
_MAX_TEXTS = 100_000
_SHOWN_BYTES = 32


class Search(Protocol):
    """A search that narrows down from line to line.

    Attributes:
        type: Of the value, as in a profile.
    """

    type: NumberType | TextType

    @property
    def n_candidates(self) -> int:
        """How many places are left."""
        ...

    @property
    def n_rounds(self) -> int:
        """How many lines have been looked for."""
        ...

    def look(self, line: str, progress: Progress | None = None, /) -> bool:
        """Look for what a line states; False if the line states nothing that one could look for."""
        ...

    def undo(self) -> None:
        """Take the last line back. Raises `ScanError` if there is none."""
        ...

    def addresses(self, limit: int) -> list[int]:
        """Return the first places that are left."""
        ...

    def before(self, limit: int) -> list[str]:
        """Return what they held in the last round, as text."""
        ...

    def now(self, address: int) -> str:
        """Return what a place holds now, as text.

        Raises:
            MemoryAccessError: It cannot be read.
        """
        ...

    def fulfils(self, address: int, line: str) -> bool:
        """Return whether a place holds what a line states; never of one that cannot be read."""
        ...

    def encode(self, text: str) -> bytes:
        """Return the bytes of a value that was typed."""
        ...


class NumberSearch:
    """A search for a number.

    Args:
        memory: Of the game.
        value_type: How the game stores it.
        alignment: As in `ValueScan`.
    """

    def __init__(self, memory: Memory, value_type: NumberType, alignment: int = 0) -> None:
        self.type: NumberType | TextType = value_type
        self._number_type = value_type
        self._memory = memory
        self._dtype = DTYPES[value_type]
        self._scan = ValueScan(memory, value_type, alignment=alignment)

    @property
    def n_candidates(self) -> int:
        """How many places are left."""
        return self._scan.n_candidates

    @property
    def n_rounds(self) -> int:
        """How many lines have been looked for."""
        return self._scan.n_rounds

    def look(self, line: str, progress: Progress | None = None, /) -> bool:
        """See `Search.look`."""
        condition = parse_condition(line, self._number_type)
        if condition is None:
            return False
        if self._scan.n_rounds:
            self._scan.narrow(condition, progress)
        else:
            self._scan.first(condition, progress)
        return True

    def undo(self) -> None:
        """See `Search.undo`."""
        self._scan.undo()

    def addresses(self, limit: int) -> list[int]:
        """See `Search.addresses`."""
        return [candidate.address for candidate in self._scan.candidates(limit)]

    def before(self, limit: int) -> list[str]:
        """See `Search.before`."""
        return [_shown(candidate.value) for candidate in self._scan.candidates(limit)]

    def now(self, address: int) -> str:
        """See `Search.now`."""
        return _shown(self._read(address)[0].item())

    def fulfils(self, address: int, line: str) -> bool:
        """See `Search.fulfils`."""
        condition = _condition(line, self._number_type)
        try:
            return bool(mask_of(condition, self._read(address), None)[0])
        except MemoryAccessError:
            return False

    def encode(self, text: str) -> bytes:
        """See `Search.encode`."""
        number = parse_number(text, self._number_type)
        if self._dtype.kind != "f":
            check_condition(Condition("exact", number), self._number_type)
        return np.array([number]).astype(self._dtype).tobytes()

    def _read(self, address: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return np.frombuffer(self._memory.read(address, self._dtype.itemsize), self._dtype)


class TextSearch:
    """A search for a text: ``= Hero``.

    Args:
        memory: Of the game.
        encoding: How the game stores it.
    """

    def __init__(self, memory: Memory, encoding: TextType) -> None:
        self.type: NumberType | TextType = encoding
        self._encoding = encoding
        self._memory = memory
        #: What was looked for, and where it is, round by round.
        self._rounds: list[tuple[str, list[int]]] = []

    @property
    def n_candidates(self) -> int:
        """How many places are left."""
        return len(self._rounds[-1][1]) if self._rounds else 0

    @property
    def n_rounds(self) -> int:
        """How many lines have been looked for."""
        return len(self._rounds)

    def look(self, line: str, _progress: Progress | None = None, /) -> bool:
        """See `Search.look`."""
        if not line.startswith("="):
            return False
        text = _text_of(line)
        if self._rounds:
            found = [address for address in self._rounds[-1][1] if self.fulfils(address, line)]
        else:
            found = find_text(self._memory, text, self._encoding, limit=_MAX_TEXTS)
        self._rounds.append((text, found))
        return True

    def undo(self) -> None:
        """See `Search.undo`."""
        if len(self._rounds) < 2:
            raise ScanError("there is no round to take back; a first round can only be done anew")
        self._rounds.pop()

    def addresses(self, limit: int) -> list[int]:
        """See `Search.addresses`."""
        return self._rounds[-1][1][:limit] if self._rounds else []

    def before(self, limit: int) -> list[str]:
        """See `Search.before`."""
        return [repr(self._rounds[-1][0])] * len(self.addresses(limit))

    def now(self, address: int) -> str:
        """See `Search.now`."""
        size = len(self.encode(self._rounds[-1][0])) if self._rounds else _SHOWN_BYTES
        text = self._memory.read(address, size).decode(_CODECS[self._encoding], errors="replace")
        return repr(text.partition("\0")[0])

    def fulfils(self, address: int, line: str) -> bool:
        """See `Search.fulfils`."""
        wanted = self.encode(_text_of(line))
        try:
            return self._memory.read(address, len(wanted)) == wanted
        except MemoryAccessError:
            return False

    def encode(self, text: str) -> bytes:
        """See `Search.encode`."""
        return text.encode(_CODECS[self._encoding])


def open_search(memory: Memory, value_type: NumberType | TextType, alignment: int = 0) -> Search:
    """Begin a search for a value of a type."""
    if value_type == "utf8" or value_type == "utf16":  # noqa: PLR1714  (mypy narrows by this one)
        return TextSearch(memory, value_type)
    return NumberSearch(memory, value_type, alignment)


def _condition(line: str, value_type: NumberType) -> Condition:
    """Return a condition that can be checked without an earlier round."""
    condition = parse_condition(line, value_type)
    if condition is None or condition.kind in COMPARING:
        raise ConfigError("states no value; give one, as 100 or 10..20", source=line)
    check_condition(condition, value_type)
    return condition


def _text_of(line: str) -> str:
    text = line.removeprefix("=").strip()
    if not text:
        raise ConfigError("names no text; give it, as: = Hero", source=line)
    return text


def _shown(value: float) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


Encoding = Literal["utf8", "utf16"]


def find_text(
    memory: Memory, text: str, encoding: Encoding, *, read_only: bool = False, limit: int = 1000
) -> list[int]:
    """Find text in the memory of a game.

    Args:
        memory: Of the game.
        text: What to find, letter by letter.
        encoding: How the game stores it; Windows programs mostly use ``utf16``.
        read_only: Look also where the game cannot write: its code and constants.
        limit: Most places to return.

    Returns:
        The addresses, ascending.

    Raises:
        ScanError: The text is empty, or cannot be stored in that way.
        ProcessExitedError: The game has ended.
    """
    try:
        needle = text.encode(_CODECS[encoding])
    except UnicodeEncodeError as error:
        raise ScanError(f"{text!r} cannot be stored as {encoding}: {error.reason}") from error
    if not needle or len(needle) > CHUNK_BYTES:
        raise ScanError(f"the text to find has {len(needle)} bytes; it needs 1 to {CHUNK_BYTES}")
    regions = writable_regions(memory)
    if read_only:
        regions = sorted(
            [*regions, *(region for region in memory.regions() if region.is_readable and not region.is_writable)],
            key=lambda region: region.start,
        )
    found: list[int] = []
    for start, data in chunks(memory, regions, extra=len(needle) - 1):
        piece = data.tobytes()
        at = piece.find(needle)
        while 0 <= at < CHUNK_BYTES and len(found) < limit:
            found.append(start + at)
            at = piece.find(needle, at + 1)
        if len(found) >= limit:
            break
    return found
