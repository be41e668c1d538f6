"""Memory of a real process on Windows, and the number of system calls."""

import os
from ctypes import byref, c_void_p, wintypes

import numpy as np
import pytest

from soulslab.errors import AttachDeniedError, MemoryAccessError, ProcessNotFoundError
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.attributes.read_plan import N_READS_TO_PACK
from soulslab.siphon.memory import windows
from soulslab.siphon.memory.windows import WindowsMemory
from soulslab.siphon.profile import Attribute, Base, Process, Profile
from soulslab.siphon.win32 import function
from support.memory_contract import PAGE
from support.process_memory_contract import ProcessMemoryContract, player_of
from support.target import AREA

MOST_CALLS = 40


class TestWindowsMemory(ProcessMemoryContract):
    opened = WindowsMemory


@pytest.fixture
def calls(monkeypatch):
    """Address and size of each call of ``ReadProcessMemory`` by memories that are opened afterwards."""
    made = []
    original = windows.read_function

    def counted(*, is_large=False):
        read = original(is_large=is_large)

        def call(handle, address, target, size, n_read):
            made.append((address, size))
            return read(handle, address, target, size, n_read)

        return call

    monkeypatch.setattr(windows, "read_function", counted)
    return made


def test_the_first_address_that_cannot_be_read_is_named(target, memory):
    target.do(f"map {2 * PAGE}")
    end = AREA + 2 * PAGE
    for size in (PAGE + 8, 2 * PAGE + 8, 100 * PAGE):
        with pytest.raises(MemoryAccessError, match="not all of it is mapped") as caught:
            memory.read(end - PAGE, size)
        assert (caught.value.address, caught.value.size) == (end, size - PAGE)


def test_ids_that_windows_rounds_are_not_the_process(target):
    # Windows ignores the two lowest bits, and its ids are multiples of four.
    for pid in (target.pid + 1, target.pid + 3):
        with pytest.raises(ProcessNotFoundError):
            WindowsMemory(pid)


def test_a_denied_access_names_the_missing_right(target):
    target.do("hide")
    with pytest.raises(AttachDeniedError, match="Windows denies PROCESS_VM_READ, PROCESS_VM_WRITE") as caught:
        WindowsMemory(target.pid)
    assert caught.value.pid == target.pid
    assert "as administrator" in str(caught.value)


def test_a_memory_that_was_open_before_remains_open(target, memory):
    target.do("hide")
    assert len(memory.read(target.root, 8)) == 8


def test_a_guard_page_is_not_read(target, memory):
    player = player_of(target, memory)
    target.do("guard")
    for _ in range(2):
        (region,) = [region for region in memory.regions() if region.start <= player < region.end]
        assert not region.is_readable
        assert not region.is_writable
    with pytest.raises(MemoryAccessError):
        memory.write(player, b"1234")


def test_leaves_no_handle_open(target):
    count = function("kernel32", "GetProcessHandleCount", wintypes.BOOL, wintypes.HANDLE, c_void_p)

    def n_open():
        found = wintypes.DWORD()
        assert count(-1, byref(found))
        return found.value

    def use():
        memory = WindowsMemory(target.pid)
        memory.read(target.root, 8)
        memory.regions()
        memory.close()

    use()
    before = n_open()
    for _ in range(20):
        use()
    assert n_open() == before
    target.do("hide")
    for _ in range(5):
        with pytest.raises(AttachDeniedError):
            WindowsMemory(target.pid)
    assert n_open() == before


def test_a_batch_reads_adjacent_pages_by_one_call(target, calls):
    target.do(f"map {20 * PAGE}")
    memory = WindowsMemory(target.pid)
    places = [3 * PAGE + 8, 16, 2 * PAGE, PAGE - 4, 10 * PAGE, 12 * PAGE, 8]
    batch = memory.batch([8] * len(places))
    batch.addresses[:] = np.array(places) + AREA
    for _ in range(2):
        calls.clear()
        batch.read()
        # The first four pages, with the parts that cross their borders, and two pages with a page between them.
        assert calls == [(AREA + 8, 3 * PAGE + 8), (AREA + 10 * PAGE, 8), (AREA + 12 * PAGE, 8)]
    memory.close()


def test_groups_are_read_one_after_the_other(target, calls):
    target.do(f"map {20 * PAGE}")
    memory = WindowsMemory(target.pid)
    places = [5 * PAGE, 64, 5 * PAGE + 8, 0, 5 * PAGE + 16]
    batch = memory.batch([8] * len(places), [0, 0, 1, 2, 2])
    batch.addresses[:] = np.array(places) + AREA
    calls.clear()
    batch.read()
    assert [address - AREA for address, _ in calls] == [64, 5 * PAGE, 5 * PAGE + 8, 0, 5 * PAGE + 16]
    memory.close()


def test_a_snapshot_of_20_attributes_behind_4_chains_takes_at_most_40_calls(calls):
    """The objects are in this process, each on pages of its own."""
    n_chains, n_levels, n_values = 4, 4, 5
    objects = np.zeros((n_chains, n_levels + 1, 4 * PAGE), np.uint8)
    at = objects.ctypes.data + np.arange(n_chains * (n_levels + 1)).reshape(n_chains, -1) * 4 * PAGE
    attributes = {}
    for chain in range(n_chains):
        for level in range(n_levels):
            objects[chain, level, 64 * level : 64 * level + 8].view(np.uint64)[0] = at[chain, level + 1]
        # Not on one page, as the parts of a large object.
        objects[chain, n_levels].view(np.int32)[np.arange(n_values) * 300] = chain * 10 + np.arange(n_values)
        for i in range(n_values):
            attributes[f"value_{chain}_{i}"] = Attribute(
                base=f"base_{chain}", offsets=(64, 128, 192, 1200 * i), type="i32", range=(0, 100), source="this test"
            )
    bases = {f"base_{chain}": Base(offset=0, is_pointer=True, source="this test") for chain in range(n_chains)}
    profile = Profile(name="test", process=Process(executable="x.exe"), bases=bases, attributes=attributes)
    memory = WindowsMemory(os.getpid())
    addresses = {f"base_{chain}": int(at[chain, 0]) for chain in range(n_chains)}
    table = AttributeTable(profile, memory, ResolvedAddresses(bases=addresses))
    for n in range(N_READS_TO_PACK + 3):
        calls.clear()
        found = table.read_many()
        assert list(found.values()) == [10 * chain + i for chain in range(n_chains) for i in range(n_values)]
        assert len(calls) <= (MOST_CALLS if n == 0 else MOST_CALLS // 2)
    memory.close()
