"""Value scans in synthetic memory."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.errors import MemoryAccessError, ScanError
from soulslab.siphon.scanner.conditions import DTYPES, Condition
from soulslab.siphon.scanner.searches import find_text
from soulslab.siphon.scanner.value_scan import ValueScan
from soulslab.testing.fake_memory import FakeMemory

PAGE = 4096


def addresses(scan):
    return [candidate.address for candidate in scan.candidates(10_000)]


class HolesMemory(FakeMemory):
    """Memory whose region list contains unmapped pages, as in a process that has just freed them."""

    def __init__(self):
        super().__init__()
        self.holes = set()

    def _read(self, address, size):
        for page in range(address // PAGE, (address + size - 1) // PAGE + 1):
            if page * PAGE in self.holes:
                raise MemoryAccessError("is a hole", address=address, size=size, pid=self.pid)
        return super()._read(address, size)


@pytest.fixture
def small_chunks(monkeypatch):
    """Reduce the limits so that few pages suffice for the test."""
    monkeypatch.setattr("soulslab.siphon.memory.CHUNK_BYTES", 2 * PAGE)
    monkeypatch.setattr("soulslab.siphon.scanner.value_scan.CHUNK_BYTES", 2 * PAGE)
    monkeypatch.setattr("soulslab.siphon.scanner.searches.CHUNK_BYTES", 2 * PAGE)


@pytest.mark.parametrize("alignment", [0, 1, 2])
def test_values_are_found_also_where_pieces_meet(small_chunks, alignment):
    memory = FakeMemory()
    data = memory.map(0x10000, bytearray(5 * PAGE))
    places = [0, 400, 4 * PAGE - 4, 5 * PAGE - 4]
    places += [2 * PAGE - 2] if alignment else [2 * PAGE - 4, 2 * PAGE]
    if alignment:
        places += [3 * PAGE + 6, 4 * PAGE + 2]
    if alignment == 1:
        places += [405, 4 * PAGE + 11]
    for place in places:
        struct.pack_into("<i", data, place, 123456)
    scan = ValueScan(memory, "i32", alignment=alignment)
    assert scan.first(Condition("exact", 123456)) == len(places)
    assert addresses(scan) == sorted(0x10000 + place for place in places)


def test_only_writable_memory_is_searched():
    memory = FakeMemory()
    number = struct.pack("<i", 77)
    memory.map(0x10000, bytearray(number), is_writable=False)
    memory.map(0x20000, bytearray(number))
    memory.map(0x30000, bytearray(number), path="/dev/dri/card0")
    memory.map(0x40000, bytearray(number), path="[stack]")
    memory.map(0x50000, bytearray(number), path="/dev/shm/game")  # noqa: S108
    scan = ValueScan(memory, "i32")
    scan.first(Condition("exact", 77))
    assert addresses(scan) == [0x20000, 0x50000]


@pytest.mark.parametrize("kind", ["exact", "unknown"])
def test_pages_that_cannot_be_read_are_left_out_then_and_later(small_chunks, kind):
    memory = HolesMemory()
    data = memory.map(0x10000, bytearray(6 * PAGE))
    places = [100, PAGE + 100, 3 * PAGE + 100, 5 * PAGE + 100]
    for place in places:
        struct.pack_into("<i", data, place, 9)
    memory.holes = {0x10000 + PAGE}
    scan = ValueScan(memory, "i32")
    scan.first(Condition(kind, 9))
    memory.holes.add(0x10000 + 5 * PAGE)
    scan.narrow(Condition("exact", 9))
    assert addresses(scan) == [0x10000 + 100, 0x10000 + 3 * PAGE + 100]


@pytest.mark.parametrize("n", [3, 100])
def test_an_unmapped_page_does_not_affect_its_neighbours(n):
    memory = HolesMemory()
    data = memory.map(0x10000, bytearray(3 * PAGE))
    places = [page * PAGE + 100 + 8 * i for page in range(3) for i in range(n)]
    for place in places:
        struct.pack_into("<i", data, place, 9)
    scan = ValueScan(memory, "i32")
    assert scan.first(Condition("exact", 9)) == 3 * n
    memory.holes = {0x10000 + PAGE}
    scan.narrow(Condition("unchanged"))
    assert addresses(scan) == [0x10000 + place for place in places if place // PAGE != 1]


def test_memory_that_was_given_back_drops_its_candidates():
    memory = FakeMemory()
    memory.map(0x10000, bytearray(struct.pack("<i", 5) * 2))
    memory.map(0x20000, bytearray(struct.pack("<i", 5) * 2))
    scan = ValueScan(memory, "i32")
    assert scan.first(Condition("exact", 5)) == 4
    memory.unmap(0x10000)
    assert scan.narrow(Condition("unchanged")) == 2


@settings(max_examples=60)
@given(st.data())
def test_rounds_equal_a_plain_search(data):
    value_type = data.draw(st.sampled_from(["u8", "i16", "f32"]))
    dtype = DTYPES[value_type]
    n = data.draw(st.integers(1, 200))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    memory = FakeMemory()
    game = memory.map(0x5000, bytearray(random.integers(0, 4, n).astype(dtype).tobytes()))
    values = np.frombuffer(game, dtype)
    left = np.ones(n, np.bool_)
    scan = ValueScan(memory, value_type)
    scan.first(Condition("unknown"))
    for kind in data.draw(st.lists(st.sampled_from(["changed", "unchanged", "increased", "decreased"]), max_size=4)):
        before = values.copy()
        changed = np.where(random.random(n) < 0.5, values, random.integers(0, 4, n).astype(dtype))
        game[:] = changed.astype(dtype).tobytes()
        left &= {
            "changed": values != before,
            "unchanged": values == before,
            "increased": values > before,
            "decreased": values < before,
        }[kind]
        assert scan.narrow(Condition(kind)) == left.sum()
    assert addresses(scan) == (0x5000 + np.flatnonzero(left) * dtype.itemsize).tolist()
    assert [candidate.value for candidate in scan.candidates(n)] == values[left].tolist()


def test_progress_is_completed(small_chunks):
    memory = FakeMemory()
    memory.map(0x10000, bytearray(5 * PAGE))
    told = []
    scan = ValueScan(memory, "i32")
    scan.first(Condition("unknown"), lambda done, total: told.append((done, total)))
    assert told[-1] == (5 * PAGE, 5 * PAGE)
    assert len(told) == 3
    told.clear()
    scan.narrow(Condition("unchanged"), lambda done, total: told.append((done, total)))
    assert told[-1] == (5 * PAGE // 4, 5 * PAGE // 4)


def test_too_many_candidates_are_refused_before_they_fill_our_memory():
    memory = FakeMemory()
    memory.map(0x10000, bytearray(8 * PAGE))
    with pytest.raises(ScanError, match="begin with exact or between"):
        ValueScan(memory, "i32", max_bytes=PAGE).first(Condition("unknown"))


def test_a_scan_begins_with_a_value_and_is_narrowed_after_that():
    memory = FakeMemory()
    with pytest.raises(ScanError, match="begins with"):
        ValueScan(memory, "i32").first(Condition("changed"))
    with pytest.raises(ScanError, match="nothing to narrow"):
        ValueScan(memory, "i32").narrow(Condition("changed"))
    with pytest.raises(ScanError, match="power of two"):
        ValueScan(memory, "i32", alignment=3)


def test_text_is_found_in_every_encoding_also_where_pieces_meet(small_chunks):
    memory = FakeMemory()
    data = memory.map(0x10000, bytearray(5 * PAGE))
    for place in (10, 2 * PAGE - 3, 4 * PAGE - 1):
        data[place : place + 7] = "Märgit".encode()
    data[3000:3012] = "Märgit".encode("utf-16-le")
    assert find_text(memory, "Märgit", "utf8") == [0x1000A, 0x10000 + 2 * PAGE - 3, 0x10000 + 4 * PAGE - 1]
    assert find_text(memory, "Märgit", "utf16") == [0x10000 + 3000]
    assert find_text(memory, "Märgit", "utf8", limit=1) == [0x1000A]


def test_text_among_constants_is_not_found():
    memory = FakeMemory()
    memory.map(0x10000, bytearray(b"Game Over"), is_writable=False)
    assert find_text(memory, "Game", "utf8") == []


def test_invalid_text_is_reported():
    with pytest.raises(ScanError, match="1 to"):
        find_text(FakeMemory(), "", "utf8")
    with pytest.raises(ScanError, match="cannot be stored"):
        find_text(FakeMemory(), "\ud800", "utf8")
