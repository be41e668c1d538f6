"""Byte patterns: how places in a game's code are found again in each version of it.

::

    pattern = Pattern.parse("48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F")
    scan({"player": pattern}, memory, [(start, end)])   # {"player": [0x140123456]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from soulslab.errors import PatternError, ProfileError
from soulslab.siphon.code_scan import N_SHOWN, CodeScan
from soulslab.siphon.image import Image, module_base
from soulslab.siphon.memory import Memory
from soulslab.siphon.profile import Base, Profile

MAX_LENGTH = 256
_BYTE = re.compile(r"[0-9A-Fa-f?]{2}")


class Pattern(msgspec.Struct, frozen=True):
    """A sequence of bytes of which some, or halves of some, may be anything.

    Attributes:
        values: What each byte has to be where its mask is 1, and 0 elsewhere.
        masks: 0xFF for a byte that is fixed, 0xF0 or 0x0F where one half is, 0 where it may be anything.
    """

    values: bytes
    masks: bytes

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read a pattern.

        Args:
            text: Two characters for each byte, hex digits or ``?`` for any, as ``48 8B 4? ??``; the spaces may be
                left out. A ``?`` alone is any byte, too.

        Raises:
            ProfileError: It is malformed, longer than 256 bytes, or has no byte that is fixed.
        """
        values, masks = bytearray(), bytearray()
        for byte in _split(text):
            values.append(int(byte.replace("?", "0"), 16))
            masks.append((0 if byte[0] == "?" else 0xF0) | (0 if byte[1] == "?" else 0x0F))
        if len(values) > MAX_LENGTH:
            raise ProfileError(f"the pattern has {len(values)} bytes; {MAX_LENGTH} at most")
        if 0xFF not in masks:
            raise ProfileError("the pattern is too weak: at least one of its bytes has to be fixed")
        return cls(bytes(values), bytes(masks))

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        return " ".join(_format(*pair) for pair in zip(self.values, self.masks, strict=True))

    @property
    def expression(self) -> bytes:
        """The pattern as a regular expression over bytes, where a dot is any byte."""
        return b"".join(_expression(*pair) for pair in zip(self.values, self.masks, strict=True))


def scan(patterns: Mapping[str, Pattern], memory: Memory, ranges: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """Find patterns, all in one pass. Pages that cannot be read are left out, with a line in the log.

    Args:
        patterns: By name.
        memory: Where to look.
        ranges: Start and end of each range; a match lies in one of them with all of its bytes.

    Returns:
        The addresses where each pattern starts, ascending.

    Raises:
        PatternError: A pattern has more than 4096 matches.
        ProcessExitedError: The process has ended.
    """
    if not patterns:
        return {}
    search = CodeScan(patterns, memory)
    search.run(ranges)
    return search.matches


def resolve_bases(profile: Profile, memory: Memory, image: Image) -> dict[str, int]:
    """Find all bases of a profile.

    Args:
        profile: The game as data.
        memory: Its memory.
        image: Its executable.

    Returns:
        The address of each base *before* `Base.is_pointer` is followed: a game may set that pointer later, so who
        reads follows it, as the first level of the chain.

    Raises:
        PatternError: A pattern was found nowhere, or in several places of which none is picked.
        ImageError: A module is not loaded.
        MemoryAccessError: A displacement could not be read.
        ProcessExitedError: The process has ended.
    """
    patterns = {name: Pattern.parse(base.pattern) for name, base in profile.bases.items() if base.pattern}
    ranges = [(section.start, section.start + section.size) for section in image.sections if section.is_executable]
    matches: dict[str, list[int]] = {}
    n_unreadable = 0
    if patterns:
        search = CodeScan(patterns, memory)
        search.run(ranges)
        matches, n_unreadable = search.matches, search.n_unreadable
    places: dict[str, int] = {}
    mistakes: list[PatternError] = []
    for name, base in profile.bases.items():
        try:
            start = _pick(name, base, matches[name]) if base.pattern else _start_of(base.module, memory, image)
        except PatternError as mistake:
            mistakes.append(mistake)
        else:
            places[name] = start + _within(base, start, memory) + base.adjust
    if mistakes:
        raise _explain(mistakes, image, sum(end - start for start, end in ranges), n_unreadable)
    return places


def _pick(name: str, base: Base, matches: Sequence[int]) -> int:
    """Return the match that counts."""
    if not matches:
        raise PatternError(f"{base.pattern!r} was found nowhere", base=name)
    places = ", ".join(f"{address:#x}" for address in matches[:N_SHOWN]) + (", ..." if len(matches) > N_SHOWN else "")
    if base.pick is None and len(matches) > 1:
        raise PatternError(
            f"{base.pattern!r} was found in {len(matches)} places: {places}; make it longer, or choose one with pick",
            base=name,
            addresses=matches,
        )
    if base.pick is not None and base.pick >= len(matches):
        raise PatternError(
            f"{base.pattern!r} was found in {len(matches)} places: {places}; pick counts from 0 and is {base.pick}",
            base=name,
            addresses=matches,
        )
    return matches[base.pick or 0]


def _start_of(module: str, memory: Memory, image: Image) -> int:
    """Return where a module is loaded; "" stands for the executable."""
    return module_base(memory, module) if module else image.base


def _within(base: Base, start: int, memory: Memory) -> int:
    """Return how far from the match, or from the module's base, the place is."""
    if base.offset is not None:
        return base.offset
    if base.displacement_at is None or base.instruction_end is None:
        return 0
    displacement = memory.read(start + base.displacement_at, 4)
    return base.instruction_end + int.from_bytes(displacement, "little", signed=True)


def _explain(mistakes: Sequence[PatternError], image: Image, n_bytes: int, n_unreadable: int) -> PatternError:
    """Return the first of the mistakes, with what was searched and which other bases are wrong."""
    first = mistakes[0]
    parts = [
        str(first).removeprefix(f"base {first.base!r}: "),
        f"searched {n_bytes / 1e6:.1f} MB of code of {image.path}, version {image.version or 'unknown'}",
    ]
    if not first.addresses:
        parts.append("the profile may be made for another version")
        if n_unreadable:
            parts.append(f"{n_unreadable} bytes of the code could not be read and were left out")
    if len(mistakes) > 1:
        parts.append(f"wrong, too: {', '.join(repr(mistake.base) for mistake in mistakes[1:])}")
    return PatternError("; ".join(parts), base=first.base, addresses=first.addresses)


def _split(text: str) -> list[str]:
    """Return the two characters of each byte."""
    parts: list[str] = []
    for word in text.split():
        if word == "?":
            parts.append("??")
        elif len(word) % 2:
            raise ProfileError(f"{word[:20]!r} has an odd number of characters; a byte is two: hex digits or '?'")
        else:
            parts += [word[at : at + 2] for at in range(0, len(word), 2)]
    for part in parts:
        if not _BYTE.fullmatch(part):
            raise ProfileError(f"{part!r} is no byte; a byte is two characters: hex digits or '?'")
    return parts


def _format(value: int, mask: int) -> str:
    """Return a byte as it is written in a pattern."""
    text = f"{value:02X}"
    return (text[0] if mask & 0xF0 else "?") + (text[1] if mask & 0x0F else "?")


def _expression(value: int, mask: int) -> bytes:
    """Return a byte as a regular expression; escaped, as hyperscan ends its text at a zero byte."""
    match mask:
        case 0xFF:
            return b"\\x%02x" % value
        case 0xF0:
            return b"[\\x%02x-\\x%02x]" % (value, value | 0x0F)
        case 0x0F:
            return b"[%b]" % b"".join(b"\\x%02x" % (high << 4 | value) for high in range(16))
        case _:
            return b"."
