"""Byte patterns: what is written is what is searched, and what is found is what a plain search finds."""

import ctypes
import logging
import os
import re
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from soulslab.errors import ImageError, MemoryAccessError, PatternError, ProcessExitedError, ProfileError
from soulslab.siphon.code_scan import MAX_MATCHES, CodeScan
from soulslab.siphon.image import Image, Section
from soulslab.siphon.memory.fake import FakeMemory
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.pattern import Pattern, resolve_bases, scan
from soulslab.siphon.profile import Base, Process, Profile

START = 0x140001000
PAGE = 4096


def found(pattern, data, **options):
    """Search some bytes at START."""
    memory = FakeMemory()
    memory.map(START, bytearray(data))
    search = CodeScan({"x": Pattern.parse(pattern)}, memory, **options)
    search.run([(START, START + len(data))])
    return [address - START for address in search.matches["x"]]


# --- writing patterns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("48 8b 05 ?? ?? ?? ??", "48 8B 05 ?? ?? ?? ??"),
        ("488B05????????", "48 8B 05 ?? ?? ?? ??"),
        ("48 ? ? 05", "48 ?? ?? 05"),
        ("\t4? ?8 \n 0f ", "4? ?8 0F"),
        ("00", "00"),
    ],
)
def test_ways_to_write_a_pattern(text, written):
    assert str(Pattern.parse(text)) == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("48 8", "'8' has an odd number of characters"),
        ("48 G8", "'G8' is no byte"),
        ("48 +8", "'+8' is no byte"),
        ("48 ٤٨", "is no byte"),
        ("4? ??", "too weak"),
        ("", "too weak"),
        ("90 " * 257, "257 bytes; 256 at most"),
    ],
)
def test_mistakes_in_a_pattern(text, problem):
    with pytest.raises(ProfileError, match=re.escape(problem)):
        Pattern.parse(text)


_nibble = st.sampled_from([0x00, 0x0F, 0xF0, 0xFF])


@st.composite
def patterns(draw, alphabet, max_size):
    parts = draw(st.lists(st.tuples(alphabet, _nibble), max_size=max_size - 1))
    parts.insert(draw(st.integers(0, len(parts))), (draw(alphabet), 0xFF))
    return Pattern(bytes(value & mask for value, mask in parts), bytes(mask for _, mask in parts))


@given(patterns(st.integers(0, 255), max_size=40))
def test_what_is_written_is_read_again(pattern):
    assert Pattern.parse(str(pattern)) == pattern
    assert Pattern.parse(str(pattern).replace(" ", "").lower()) == pattern


@given(st.text(st.sampled_from("0489aFf? \tgG-+_x\0é")))
def test_no_text_crashes(text):
    try:
        pattern = Pattern.parse(text)
    except ProfileError:
        return
    assert Pattern.parse(str(pattern)) == pattern


# --- finding them -------------------------------------------------------------------------------------------


def oracle(pattern, data):
    """The same, written down as what it means."""
    return [
        at
        for at in range(len(data) - len(pattern) + 1)
        if all(
            data[at + i] & mask == value
            for i, (value, mask) in enumerate(zip(pattern.values, pattern.masks, strict=True))
        )
    ]


# Few different bytes, so that matches are many and overlap; some that mean something in a regular expression.
_alphabet = st.sampled_from([0x00, 0x01, 0x0A, 0x10, 0x2E, 0x5B, 0x5C, 0xFF])


@settings(max_examples=300)
@given(
    st.lists(patterns(_alphabet, 6), min_size=1, max_size=4),
    st.lists(st.lists(_alphabet, max_size=60).map(bytes), min_size=1, max_size=4),
    st.integers(1, 20),
)
@example([Pattern.parse("00 00")], [bytes(10)], 3)
@example([Pattern.parse("00"), Pattern.parse("00 ?? ?? ?? ?? 00")], [bytes(11)], 1)
def test_a_scan_finds_what_a_plain_search_finds(searched, parts, block_size):
    memory = FakeMemory()
    ranges, expected = [], {str(i): [] for i in range(len(searched))}
    for i, part in enumerate(parts):
        address = START + i * 0x1000
        memory.map(address, bytearray(b"\x01" + part + b"\x01"))
        ranges.append((address + 1, address + 1 + len(part)))
        for name, pattern in enumerate(searched):
            expected[str(name)] += [address + 1 + at for at in oracle(pattern, part)]
    search = CodeScan({str(i): pattern for i, pattern in enumerate(searched)}, memory, block_size)
    search.run(ranges[::-1])
    assert search.matches == expected
    assert search.n_unreadable == 0


def test_wildcards_stay_within_the_range():
    assert found("?? 48", b"\x48\x48") == [0]
    assert found("48 ??", b"\x48\x48") == [0]
    assert found("?? ?? 48 ?? ??", b"\x00\x00\x48\x00\x00", block_size=2) == [0]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_a_match_on_a_border_is_found_once(size):
    assert found("48 8B 05", b"\x90\x90\x48\x8b\x05\x90\x48\x8b\x05", block_size=size) == [2, 6]


def test_ranges_that_overlap_count_once():
    memory = FakeMemory()
    memory.map(START, bytearray(b"\x90\x48\x8b\x90"))
    ranges = [(START, START + 3), (START + 1, START + 4)]
    assert scan({"x": Pattern.parse("48 8B")}, memory, ranges) == {"x": [START + 1]}
    assert scan({}, memory, ranges) == {}
    assert scan({"x": Pattern.parse("48 8B")}, memory, []) == {"x": []}


@pytest.mark.parametrize("block_size", [PAGE, 3 * PAGE + 5, 1 << 20])
def test_pages_that_cannot_be_read_are_left_out(caplog, block_size):
    memory = FakeMemory()
    size = 2 * PAGE
    for i, byte in enumerate((0x11, 0x22, 0x33)):  # mapped, hole, mapped, hole, mapped
        memory.map(START + 2 * i * size, bytearray(b"\x48" + bytes([byte]) * (size - 2) + b"\x48"))
    search = CodeScan({"x": Pattern.parse("48"), "over a hole": Pattern.parse("48 48")}, memory, block_size)
    with caplog.at_level(logging.WARNING, "soulslab.siphon.code_scan"):
        search.run([(START + 10, START + 5 * size)])
    assert search.n_unreadable == 2 * size
    assert search.matches["over a hole"] == []
    last = START + 4 * size
    assert search.matches["x"] == [START + size - 1, START + 2 * size, START + 3 * size - 1, last, last + size - 1]
    assert f"{2 * size} bytes" in caplog.text


def test_a_pattern_that_is_everywhere_is_refused():
    with pytest.raises(PatternError, match="too weak: it was found in more than 4096 places") as caught:
        found("00", bytes(MAX_MATCHES + 1))
    assert caught.value.base == "x"
    assert caught.value.addresses[:2] == (START, START + 1)
    assert len(found("00", bytes(MAX_MATCHES))) == MAX_MATCHES


def test_the_end_of_the_process_is_no_unreadable_page():
    memory = FakeMemory()
    memory.map(START, bytearray(10))
    memory.exit()
    with pytest.raises(ProcessExitedError):
        scan({"x": Pattern.parse("00")}, memory, [(START, START + 10)])


def test_a_scan_of_a_real_process():
    data = bytearray(os.urandom(3 << 20))
    data[2 << 20 : (2 << 20) + 6] = b"\x48\x8b\x05\x90\x91\x92"
    address = ctypes.addressof(ctypes.c_char.from_buffer(data))
    memory = LinuxMemory(os.getpid())
    try:
        places = scan({"x": Pattern.parse("48 8B 05 ?? 91 92")}, memory, [(address, address + len(data))])
    finally:
        memory.close()
    assert places == {"x": [address + (2 << 20)]}


# --- bases --------------------------------------------------------------------------------------------------


def resolve(bases, code, *, size=0x3000):
    """Resolve the bases of a program that has this code at START."""
    memory = FakeMemory()
    memory.map(START, bytearray(code) + bytearray(b"\xcc" * (0x1000 - len(code))), is_executable=True)
    memory.map(START + 0x1000, bytearray(0x2000))
    sections = (
        Section(name=".text", start=START, size=size - 0x2000, is_executable=True, is_writable=False),
        Section(name=".data", start=START + 0x1000, size=0x2000, is_executable=False, is_writable=True),
    )
    image = Image(path="game.exe", kind="pe", base=START - 0x1000, size=0x4000, version="1.2", sections=sections)
    profile = Profile(name="game", process=Process(executable="game.exe"), bases=bases)
    return resolve_bases(profile, memory, image)


def code_with(*parts):
    """Code with some instructions at given places."""
    code = bytearray(b"\x90" * 0x800)
    for at, instruction in parts:
        code[at : at + len(instruction)] = instruction
    return code


def pattern_base(text, **options):
    return Base(pattern=text, source="made up", **options)


def test_displacements_count_from_the_end_of_the_instruction():
    mov = b"\x48\x8b\x05" + struct.pack("<i", 0x1234) + b"\x48\x85\xc0"
    back = b"\x48\x8d\x0d" + struct.pack("<i", -0x20) + b"\xc3"
    # cmp dword [rip+disp], imm8: an immediate follows the displacement.
    compare = b"\x83\x3d" + struct.pack("<i", 0x100) + b"\x07\x74"
    places = resolve(
        {
            "mov": pattern_base("48 8B 05 ?? ?? ?? ?? 48 85 C0", displacement_at=3, instruction_end=7, is_pointer=True),
            "back": pattern_base("48 8D 0D ?? ?? ?? ?? C3", displacement_at=3, instruction_end=7, adjust=4),
            "compare": pattern_base("83 3D ?? ?? ?? ?? 07 74", displacement_at=2, instruction_end=7),
            "match": pattern_base("85 C0"),
            "offset": Base(offset=0x2010, adjust=-0x10, is_pointer=True, source="made up"),
        },
        code_with((0x100, mov), (0x200, back), (0x300, compare)),
    )
    assert places == {
        "mov": START + 0x107 + 0x1234,
        "back": START + 0x207 - 0x20 + 4,
        "compare": START + 0x307 + 0x100,
        "match": START + 0x108,
        "offset": START - 0x1000 + 0x2000,
    }


def test_data_is_not_searched():
    with pytest.raises(PatternError, match="was found nowhere"):
        resolve({"x": pattern_base("00 00")}, code_with())


def test_pick_chooses():
    code = code_with((0x100, b"\xe8\x01"), (0x200, b"\xe8\x01"), (0x300, b"\xe8\x01"))
    assert resolve({"x": pattern_base("E8 01", pick=1)}, code) == {"x": START + 0x200}
    with pytest.raises(PatternError, match=r"found in 3 places: .*; pick counts from 0 and is 3"):
        resolve({"x": pattern_base("E8 01", pick=3)}, code)


def test_no_match_says_where_was_searched_and_what_else_is_wrong():
    bases = {"x": pattern_base("12 34 56"), "fine": pattern_base("E8 01"), "y": pattern_base("65 43 21")}
    with pytest.raises(PatternError) as caught:
        resolve(bases, code_with((0x100, b"\xe8\x01")))
    assert (caught.value.base, caught.value.addresses) == ("x", ())
    for part in ("base 'x': '12 34 56' was found nowhere", "code of game.exe, version 1.2", "wrong, too: 'y'"):
        assert part in str(caught.value)
    assert "could not be read" not in str(caught.value)


def test_no_match_says_what_could_not_be_read():
    with pytest.raises(PatternError, match=r"16384 bytes of the code could not be read"):
        resolve({"x": pattern_base("12 34 56")}, code_with(), size=0x3000 + 0x6000)


def test_several_matches_are_shown():
    code = code_with(*((0x20 * i, b"\xe8\x01") for i in range(1, 21)))
    with pytest.raises(PatternError) as caught:
        resolve({"x": pattern_base("E8 01")}, code)
    assert caught.value.addresses == tuple(START + 0x20 * i for i in range(1, 21))
    assert f"in 20 places: {START + 0x20:#x}, " in str(caught.value)
    assert str(caught.value).count("0x") == 16
    assert ", ...; make it longer, or choose one with pick" in str(caught.value)


def test_a_displacement_behind_the_code_that_is_mapped():
    base = pattern_base("E8 ??", displacement_at=0x4000, instruction_end=7)  # no profile that was loaded has this
    with pytest.raises(MemoryAccessError):
        resolve({"x": base}, code_with((0x100, b"\xe8\x01")))


def test_a_module_that_is_not_loaded():
    with pytest.raises(ImageError, match=r"libgame\.so"):
        resolve({"x": Base(module="libgame.so", offset=0, source="made up")}, code_with())
