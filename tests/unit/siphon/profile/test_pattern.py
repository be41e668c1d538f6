"""Byte patterns: parsing, and searches compared with a plain search."""

import ctypes
import logging
import os
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from soulslab.errors import PatternError, ProcessExitedError, ProfileError
from soulslab.siphon.attributes.pattern_scan import MAX_MATCHES, CodeScan, scan
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.profile.pattern import Pattern
from soulslab.testing.fake_memory import FakeMemory
from support.long_form import examples

START = 0x140001000
PAGE = 4096


def found(pattern, data, **options):
    """Search bytes at address START."""
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
        ("48 G8", "'G8' is not a byte"),
        ("48 +8", "'+8' is not a byte"),
        ("48 ٤٨", "is not a byte"),
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
def test_written_values_are_read_back(pattern):
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
    """Plain implementation of the pattern search."""
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


@settings(max_examples=examples(200, in_long_form=2000))
@given(
    st.lists(patterns(_alphabet, 6), min_size=1, max_size=4),
    st.lists(st.lists(_alphabet, max_size=60).map(bytes), min_size=1, max_size=4),
    st.integers(1, 20),
)
@example([Pattern.parse("00 00")], [bytes(10)], 3)
@example([Pattern.parse("00"), Pattern.parse("00 ?? ?? ?? ?? 00")], [bytes(11)], 1)
def test_a_scan_equals_a_plain_search(searched, parts, block_size):
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
    with caplog.at_level(logging.WARNING, "soulslab.siphon.attributes.pattern_scan"):
        search.run([(START + 10, START + 5 * size)])
    assert search.n_unreadable == 2 * size
    assert search.matches["over a hole"] == []
    last = START + 4 * size
    assert search.matches["x"] == [START + size - 1, START + 2 * size, START + 3 * size - 1, last, last + size - 1]
    assert f"{2 * size} bytes" in caplog.text


def test_a_pattern_with_too_many_matches_is_refused():
    with pytest.raises(PatternError, match="too weak: it was found in more than 4096 places") as caught:
        found("00", bytes(MAX_MATCHES + 1))
    assert caught.value.base == "x"
    assert caught.value.addresses[:2] == (START, START + 1)
    assert len(found("00", bytes(MAX_MATCHES))) == MAX_MATCHES


def test_an_exited_process_is_not_reported_as_an_unreadable_page():
    memory = FakeMemory()
    memory.map(START, bytearray(10))
    memory.has_ended = True
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
