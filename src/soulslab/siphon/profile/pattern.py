"""Byte patterns, which identify places in a game's code across versions.

::

    pattern = Pattern.parse("48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F")
    scan({"player": pattern}, memory, [(start, end)])   # {"player": [0x140123456]}
"""

from __future__ import annotations

import re

import msgspec

from soulslab.errors import ProfileError

MAX_LENGTH = 256
_BYTE = re.compile(r"[0-9A-Fa-f?]{2}")


class Pattern(msgspec.Struct, frozen=True):
    """A sequence of bytes, some of which may have any value in one half or both.

    Attributes:
        values: Expected value of each byte where the mask is 1; 0 elsewhere.
        masks: 0xFF for a fixed byte, 0xF0 or 0x0F for a byte with one fixed half, 0 for any byte.
    """

    values: bytes
    masks: bytes

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Parse a pattern: two characters for each byte, hex digits or ``?`` for any, as ``48 8B 4? ??``.

        Spaces are optional. A single ``?`` is any byte. Raises `ProfileError` if the pattern is malformed, longer than
        256 bytes, or has no fixed byte.
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
        """The pattern as a regular expression over bytes, in which a dot matches any byte."""
        return b"".join(_expression(*pair) for pair in zip(self.values, self.masks, strict=True))


def _split(text: str) -> list[str]:
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
            raise ProfileError(f"{part!r} is not a byte; a byte is two characters: hex digits or '?'")
    return parts


def _format(value: int, mask: int) -> str:
    text = f"{value:02X}"
    return (text[0] if mask & 0xF0 else "?") + (text[1] if mask & 0x0F else "?")


def _expression(value: int, mask: int) -> bytes:
    """Return a byte as a regular expression, escaped because hyperscan ends its text at a zero byte."""
    match mask:
        case 0xFF:
            return b"\\x%02x" % value
        case 0xF0:
            return b"[\\x%02x-\\x%02x]" % (value, value | 0x0F)
        case 0x0F:
            return b"[%b]" % b"".join(b"\\x%02x" % (high << 4 | value) for high in range(16))
        case _:
            return b"."
