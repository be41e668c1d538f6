"""Instructions that refer to an address: decoding, and identification by patterns."""

from __future__ import annotations

import struct

import pytest

from soulslab.errors import ScanError
from soulslab.siphon.attributes.pattern_scan import scan
from soulslab.siphon.process.image import Image, Section
from soulslab.siphon.profile.pattern import Pattern
from soulslab.siphon.scanner.signature import find_signature
from soulslab.testing.fake_memory import FakeMemory

CODE = 0x140001000
DATA = 0x140010000
PLACE = DATA + 0x120

# The instruction without its displacement ("d"), in bytes; what comes behind the displacement is its immediate.
INSTRUCTIONS = {
    "mov rax, [rip+d]": "48 8B 05 d",
    "mov [rip+d], eax": "89 05 d",
    "mov r15, [rip+d]": "4C 8B 3D d",
    "lea rax, [rip+d]": "48 8D 05 d",
    "add dword [rip+d], 1": "83 05 d 01",
    "mov dword [rip+d], 100": "C7 05 d 64 00 00 00",
    "mov word [rip+d], 100": "66 C7 05 d 64 00",
    "mov byte [rip+d], 1": "C6 05 d 01",
    "cmp dword [rip+d], 1000": "81 3D d E8 03 00 00",
    "test byte [rip+d], 4": "F6 05 d 04",
    "idiv dword [rip+d]": "F7 3D d",
    "movss xmm0, [rip+d]": "F3 0F 10 05 d",
    "movsd [rip+d], xmm1": "F2 0F 11 0D d",
    "movzx eax, byte [rip+d]": "0F B6 05 d",
    "imul eax, [rip+d], 3": "6B 05 d 03",
    "cvtsi2ss xmm0, [rip+d]": "F3 0F 2A 05 d",
}


def program(*parts, place=PLACE):
    """Place code at `CODE` after 0x100 zero bytes, and return memory and image."""
    code = bytearray(b"\x90" * 0x100)
    starts = []
    for part in parts:
        before, _, after = part.partition("d")
        before, after = bytes.fromhex(before), bytes.fromhex(after)
        starts.append(CODE + len(code))
        end = CODE + len(code) + len(before) + 4 + len(after)
        code += before + (struct.pack("<i", place - end) + after if "d" in part else b"")
    code += bytes(range(64, 128))
    memory = FakeMemory()
    memory.map(CODE, code, is_executable=True)
    memory.map(DATA, bytearray(0x1000))
    sections = (
        Section(name=".text", start=CODE, size=len(code), is_executable=True, is_writable=False),
        Section(name=".data", start=DATA, size=0x1000, is_executable=False, is_writable=True),
    )
    image = Image(path="game.exe", kind="pe", base=0x140000000, size=0x20000, version="", sections=sections)
    return memory, image, starts


@pytest.mark.parametrize("code", INSTRUCTIONS.values(), ids=[*INSTRUCTIONS])
def test_every_kind_of_operand_is_understood(code):
    memory, image, (start,) = program(code)
    signature = find_signature(memory, image, PLACE, reach=0)
    text = signature.base.pattern
    match = scan({"one": Pattern.parse(text)}, memory, [(s.start, s.start + s.size) for s in image.sections[:1]])["one"]
    assert match == [start]
    at, end = signature.base.displacement_at, signature.base.instruction_end
    assert start + end + int.from_bytes(memory.read(start + at, 4), "little", signed=True) == PLACE
    assert signature.distance == 0


def test_a_field_is_found_by_the_named_object():
    memory, image, _ = program("48 8D 05 d", place=PLACE - 0x2C)
    assert find_signature(memory, image, PLACE).distance == 0x2C
    with pytest.raises(ScanError, match="no instruction"):
        find_signature(memory, image, PLACE, reach=0x20)


def test_the_nearest_place_is_preferred():
    memory, image, (start, _, _) = program("8B 05 d", "C3", "48 8D 05 d")
    code_before = memory.read(start + 2, 4)
    # The first refers to 0x10 bytes below.
    memory.write(
        start + 2, (int.from_bytes(code_before, "little", signed=True) - 0x10).to_bytes(4, "little", signed=True)
    )
    signature = find_signature(memory, image, PLACE)
    assert signature.distance == 0
    assert signature.base.pattern.startswith("48 8D 05")


def test_bytes_that_updates_change_are_not_in_the_pattern():
    memory, image, _ = program("8B 05 d", "E8 11 22 33 44", "48 8B 0D d", "0F 84 55 66 77 08", "85 C0")
    words = find_signature(memory, image, PLACE).base.pattern.split()
    assert words[2:6] == ["??"] * 4
    assert words[6] == "E8"
    assert words[7:11] == ["??"] * 4
    assert words[11:14] == ["48", "8B", "0D"]


def test_repeated_code_is_distinguished_by_the_following_bytes():
    twice = ["8B 05 d", "90 90 90 90 90 90 90 90 90 90 90 90"]
    memory, image, _ = program(*twice, "C3", *twice, "CC")
    signature = find_signature(memory, image, PLACE)
    assert len(signature.base.pattern.split()) > 16


def test_indistinguishable_code_is_an_error():
    memory, image, _ = program(*["8B 05 d", *["90" * 70]] * 2)
    with pytest.raises(ScanError, match="more than once"):
        find_signature(memory, image, PLACE, reach=0)
