"""Searches by typed lines in synthetic memory."""

from __future__ import annotations

import struct

import pytest

from soulslab.errors import ConfigError, MemoryAccessError, ScanError
from soulslab.siphon.scanner.conditions import Condition
from soulslab.siphon.scanner.searches import open_search
from soulslab.siphon.scanner.value_scan import ValueScan
from soulslab.testing.fake_memory import FakeMemory

START = 0x10000


@pytest.fixture
def memory():
    return FakeMemory()


@pytest.fixture
def data(memory):
    return memory.map(START, bytearray(4096))


def put(data, offset, code, value):
    struct.pack_into(f"<{code}", data, offset, value)


def test_a_number_is_found_in_rounds_and_a_round_can_be_undone(memory, data):
    for offset in (0, 8, 16):
        put(data, offset, "i", 77)
    search = open_search(memory, "i32")
    assert (search.n_rounds, search.n_candidates, search.addresses(9)) == (0, 0, [])
    assert search.look("= 77")
    put(data, 0, "i", 70)
    put(data, 8, "i", 78)
    assert search.look("<")
    assert search.addresses(9) == [START]
    assert search.before(9) == ["70"]
    put(data, 0, "i", 60)
    assert search.now(START) == "60"
    search.undo()
    assert (search.n_rounds, search.addresses(9)) == (1, [START, START + 8, START + 16])
    assert search.before(2) == ["77", "77"]
    assert search.look("increased")
    assert search.addresses(9) == [START + 8]
    search.undo()
    with pytest.raises(ScanError, match="no round can be undone"):
        search.undo()


def test_an_empty_condition_has_no_effect(memory, data):
    search = open_search(memory, "i32")
    assert not search.look("list")
    assert search.n_rounds == 0
    with pytest.raises(ScanError, match="begins with"):
        search.look("changed")
    with pytest.raises(ConfigError):
        search.look("= x")
    assert search.n_rounds == 0


def test_a_place_is_checked_without_a_round(memory, data):
    put(data, 4, "f", 37.6)
    search = open_search(memory, "f32")
    assert search.fulfils(START + 4, "38")
    assert search.fulfils(START + 4, "37..38")
    assert not search.fulfils(START + 4, "= 38 ~ 0")
    assert not search.fulfils(0x5000, "38")
    assert search.now(START + 4) == "37.6"
    for line in ("changed", ">", "hello"):
        with pytest.raises(ConfigError, match="states no value"):
            search.fulfils(START + 4, line)
    with pytest.raises(MemoryAccessError):
        search.now(0x5000)


def test_written_values_must_be_in_range(memory, data):
    assert open_search(memory, "i16").encode("-2") == b"\xfe\xff"
    assert open_search(memory, "f64").encode("0.5") == struct.pack("<d", 0.5)
    with pytest.raises(ScanError, match="32767"):
        open_search(memory, "i16").encode("40000")
    with pytest.raises(ConfigError):
        open_search(memory, "u8").encode("1.5")


@pytest.mark.parametrize(("kind", "codec"), [("utf8", "utf-8"), ("utf16", "utf-16-le")])
def test_text_is_found_over_rounds(memory, data, kind, codec):
    def write(offset, text):
        encoded = text.encode(codec)
        data[offset : offset + len(encoded)] = encoded

    write(100, "Königin")
    write(201, "Königin")
    search = open_search(memory, kind)
    assert not search.look("Königin")
    assert search.look("= Königin")
    assert search.addresses(9) == [START + 100, START + 201]
    write(201, "Kleiner")
    assert search.look("=Kleiner")
    assert search.addresses(9) == [START + 201]
    assert search.now(START + 201) == "'Kleiner'"
    assert search.before(1) == ["'Kleiner'"]
    search.undo()
    assert search.n_candidates == 2
    assert search.fulfils(START + 100, "= Königin")
    assert not search.fulfils(0x5000, "= Königin")
    assert search.encode("ab") == "ab".encode(codec)
    with pytest.raises(ScanError):
        search.undo()
    with pytest.raises(ConfigError, match="names no text"):
        search.look("=")


def test_rounds_that_need_too_much_memory_cannot_be_undone(memory, data):
    scan = ValueScan(memory, "i32", max_bytes=8200)
    scan.first(Condition("unknown"))
    data[0] = 1
    scan.narrow(Condition("unchanged"))  # all but one: now their addresses take up as much as their values
    data[4] = 1
    scan.narrow(Condition("unchanged"))
    assert scan.n_candidates == 1022
    assert scan.undo() == 1023
    with pytest.raises(ScanError, match="no round can be undone"):
        scan.undo()
