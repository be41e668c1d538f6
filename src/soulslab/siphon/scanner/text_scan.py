"""A scan for text."""

from __future__ import annotations

from typing import Literal

from soulslab.errors import ScanError
from soulslab.siphon.memory import Memory
from soulslab.siphon.scanner.reading import CHUNK_BYTES, chunks, writable_regions

Encoding = Literal["utf8", "utf16"]
_CODECS = {"utf8": "utf-8", "utf16": "utf-16-le"}


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
