"""Search for a byte pattern that identifies a place in the program: an instruction that refers to it.

An offset from a module is valid for one build of the game; the code around an instruction often survives updates. Only
x86-64 is supported: an operand relative to the instruction pointer is a ModRM byte with mod 00 and r/m 101, followed by
32 bits that count from the end of the instruction (Intel SDM, volume 2, section 2.2.1.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from soulslab.errors import PatternError, ScanError
from soulslab.siphon.attributes.pattern_scan import scan
from soulslab.siphon.memory import Bytes, Memory, Region, chunks
from soulslab.siphon.process.image import Image
from soulslab.siphon.profile import Base
from soulslab.siphon.profile.pattern import Pattern

#: Largest distance below the address that an instruction may refer to: games mostly address a struct, not its fields.
DEFAULT_REACH_BYTES = 256
_MAX_REFERENCES = 16
_LENGTHS = (16, 24, 40, 64)
_BEFORE = 8  # maximum length of an instruction before its displacement
_PREFIXES = (0x66, 0xF2, 0xF3)
# Opcodes by the size of the immediate after the displacement in bytes (Intel SDM, volume 2, appendix A).
_NO_IMMEDIATE = frozenset(
    [*(row + column for row in range(0, 0x40, 8) for column in range(4)), 0x63, *range(0x84, 0x8C), 0x8D, 0xFE, 0xFF]
)
_IMMEDIATE_8 = frozenset([0x6B, 0x80, 0x83, 0xC0, 0xC1, 0xC6])
_IMMEDIATE_32 = frozenset([0x69, 0x81, 0xC7])
_GROUP_3 = frozenset([0xF6, 0xF7])  # with an immediate only for the first of their eight operations
_OPCODES = _NO_IMMEDIATE | _IMMEDIATE_8 | _IMMEDIATE_32 | _GROUP_3
_TWO_BYTES = frozenset(
    [*range(0x10, 0x18), *range(0x28, 0x30), *range(0x40, 0x70), 0x7E, 0x7F, 0xAF, 0xB6, 0xB7, 0xBE, 0xBF, 0xD6]
)


class Signature(msgspec.Struct, frozen=True):
    """A base by pattern, and the distance in bytes from the base to the place."""

    base: Base
    distance: int


class _Reference(msgspec.Struct, frozen=True):
    """An instruction that refers to a place; `displacement_at` and `end` count from its first byte."""

    start: int
    displacement_at: int
    end: int
    place: int


def find_signature(memory: Memory, image: Image, address: int, *, reach: int = DEFAULT_REACH_BYTES) -> Signature:
    """Find a pattern for a place in the program.

    `reach` is the largest distance below the address that an instruction may refer to, in bytes. Raises `ScanError` if
    no instruction refers to it, or none has a unique pattern.
    """
    found = sorted(set(_references(memory, image, address, reach)), key=lambda one: (address - one.place, one.start))
    if not found:
        raise ScanError(
            f"no instruction was found that refers to {address:#x} or up to {reach} bytes below; use its offset from "
            f"the module, which holds for this version of the game"
        )
    for length in _LENGTHS:
        patterns = {str(i): _pattern(memory, one, length) for i, one in enumerate(found[:_MAX_REFERENCES])}
        try:
            matches = scan(patterns, memory, image.code_ranges)
        except PatternError:
            continue  # a short pattern has thousands of matches; a longer one has fewer
        for i, one in enumerate(found[:_MAX_REFERENCES]):
            if matches[str(i)] == [one.start]:
                base = Base(
                    pattern=str(patterns[str(i)]),
                    displacement_at=one.displacement_at,
                    instruction_end=one.end,
                    source=f"soulslab scan: the instruction refers to the place {address - one.place} bytes below",
                )
                return Signature(base, address - one.place)
    raise ScanError(
        f"{len(found)} instructions refer to {address:#x}, but the code around each occurs more than once; "
        f"use the offset from the module"
    )


def _references(memory: Memory, image: Image, address: int, reach: int) -> Iterator[_Reference]:
    code = [Region(*ends, True, False, True, "") for ends in image.code_ranges]
    overlap = _BEFORE + 4 + 4
    for start, data in chunks(memory, code, extra=overlap):
        if data.size < overlap:
            continue
        displacements = np.ndarray((data.size - 3,), "<i4", buffer=data.data, strides=(1,))
        # The target of each displacement without an immediate; an immediate adds up to 4 bytes.
        ends = np.arange(start + 4, start + 4 + displacements.size, dtype=np.int64) + displacements
        is_near = (ends >= address - reach - 4) & (ends <= address)
        is_operand = np.zeros(is_near.size, np.bool_)
        is_operand[1:] = (data[: is_near.size - 1] & 0xC7) == 0x05
        for at in np.flatnonzero(is_near & is_operand).tolist():
            reference = _decode(start, data, at, int(ends[at]))
            if reference is not None and address - reach <= reference.place <= address:
                yield reference


def _decode(start: int, data: Bytes, at: int, place: int) -> _Reference | None:
    """Return the instruction whose displacement lies at a position; None if it is not a known instruction."""
    if at < _BEFORE:
        return None  # the readable piece ends before its end
    opcode = int(data[at - 2])
    first = at - 2
    has_word_operand = False
    immediate = 0
    if data[at - 3] == 0x0F and opcode in _TWO_BYTES:
        first -= 1
    elif opcode in _IMMEDIATE_8 or (opcode == 0xF6 and not data[at - 1] & 0x38):
        immediate = 1
    elif opcode in _IMMEDIATE_32 or (opcode == 0xF7 and not data[at - 1] & 0x38):
        immediate = 4
    elif opcode not in _NO_IMMEDIATE | _GROUP_3:
        return None
    if data[first - 1] & 0xF0 == 0x40:  # REX
        first -= 1
    while data[first - 1] in _PREFIXES and first > at - _BEFORE:
        first -= 1
        has_word_operand |= bool(data[first] == 0x66)
    if immediate == 4 and has_word_operand:
        immediate = 2
    return _Reference(start + first, at - first, at - first + 4 + immediate, place + immediate)


def _pattern(memory: Memory, reference: _Reference, length: int) -> Pattern:
    """Return the bytes from an instruction on, without parts that an update changes: displacements and jump targets."""
    code = memory.read(reference.start, length)
    masks = bytearray(b"\xff" * length)
    for at in _moving(code, reference):
        masks[at : at + 4] = bytes(len(masks[at : at + 4]))
    while not masks[-1]:
        masks.pop()
    values = bytes(value & mask for value, mask in zip(code, masks, strict=False))
    return Pattern(values, bytes(masks))


def _moving(code: Sequence[int], reference: _Reference) -> Iterator[int]:
    yield reference.displacement_at
    for at in range(reference.end + 1, len(code)):
        before, last = code[at - 2], code[at - 1]
        is_jump = last in (0xE8, 0xE9) or (before == 0x0F and 0x80 <= last < 0x90)
        is_operand = at - 2 >= reference.end and last & 0xC7 == 0x05 and before in _OPCODES
        if is_jump or is_operand:
            yield at
