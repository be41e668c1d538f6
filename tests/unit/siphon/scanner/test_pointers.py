"""Pointer paths in synthetic memory."""

from __future__ import annotations

import struct

import pytest

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.scanner.pointers import Limits, Module, PointerMap, PointerPath, follow, verify
from soulslab.testing.fake_memory import FakeMemory

PROGRAM = 0x400000
HEAP = 0x7F0000000000


def world(heap=HEAP, program=PROGRAM):
    """A static pointer at +0x20, an object with a pointer at +0x10, and the value at +0x8; all can be moved."""
    memory = FakeMemory()
    static = memory.map(program, bytearray(0x1000))
    objects = memory.map(heap, bytearray(0x20000))
    struct.pack_into("<Q", static, 0x20, heap + 0x100)
    struct.pack_into("<Q", objects, 0x110, heap + 0x14000)
    return memory, [Module("", program, program + 0x1000)], heap + 0x14008, static, objects


def test_the_path_is_found_and_leads_there():
    memory, modules, target, *_ = world()
    (path,) = PointerMap(memory, modules).paths_to(target)
    assert path == PointerPath(2, (0x10, 0x8), "", 0x20)
    assert follow(path, memory, modules) == target
    assert str(path) == "executable+0x20 -> +0x10 -> +0x8"


def test_paths_that_survive_are_kept():
    memory, modules, target, static, _ = world()
    struct.pack_into("<Q", static, 0x40, HEAP + 0x14000 - 0x30)  # an accident of this run
    paths = PointerMap(memory, modules).paths_to(target)
    assert [path.n_levels for path in paths] == [1, 2]
    again, modules, target, *_ = world(heap=0x7E1111110000, program=0x550000)
    assert verify(paths, again, modules, target) == [paths[1]]


def test_a_path_that_leads_nowhere_is_reported():
    memory, modules, *_ = world()
    with pytest.raises(MemoryAccessError):
        follow(PointerPath(1, (0,), "", 0x48), memory, [Module("", 0x1, 0x2)])
    with pytest.raises(ImageError):
        follow(PointerPath(1, (0,), "libgame.so", 0), memory, modules)
    assert verify([PointerPath(2, (0, 0), "", 0x48)], memory, modules, 1) == []


def test_values_in_the_module_need_no_pointer():
    memory, modules, *_ = world()
    assert PointerMap(memory, modules).paths_to(PROGRAM + 0x88) == [PointerPath(0, (), "", 0x88)]


def test_limits_are_kept():
    memory, modules, target, *_ = world()
    pointers = PointerMap(memory, modules)
    assert pointers.paths_to(target, Limits(max_depth=1)) == []
    assert pointers.paths_to(target, Limits(max_offset=0xF)) == []
    assert len(pointers.paths_to(target, Limits(max_offset=0x10))) == 1
    assert pointers.paths_to(target + 0x9000) == []
    assert pointers.paths_to(target, Limits(max_holders=1)) != []


def test_lists_that_go_round_come_to_an_end():
    memory, modules, target, _, objects = world()
    for i in range(0x200, 0x400, 8):
        struct.pack_into("<Q", objects, i, HEAP + (i * 7) % 0x300)
    struct.pack_into("<Q", objects, 0x14010, HEAP + 0x100)
    paths = PointerMap(memory, modules).paths_to(target, Limits(max_depth=7, max_paths=50))
    assert PointerPath(2, (0x10, 0x8), "", 0x20) in paths
    assert len(paths) <= 50
    assert all(follow(path, memory, modules) == target for path in paths)


def test_every_route_through_a_shared_address_is_a_path():
    memory, modules, target, static, objects = world()
    struct.pack_into("<Q", objects, 0x118, HEAP + 0x14000)
    struct.pack_into("<Q", static, 0x28, HEAP + 0x118)
    paths = PointerMap(memory, modules).paths_to(target)
    assert {(path.offset, path.offsets) for path in paths} == {
        (0x20, (0x10, 0x8)),
        (0x20, (0x18, 0x8)),
        (0x28, (0x0, 0x8)),
    }


def test_an_empty_memory_has_no_paths():
    assert PointerMap(FakeMemory(), []).paths_to(0x1234) == []
