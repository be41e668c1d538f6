"""Time to read 20 attributes behind chains of four pointers in the memory of another process.

The other process contains the objects in three layouts: a few chains to objects with several values, as in most games;
one chain per value and adjacent objects, as from an allocator; and the worst case, one chain per value and each object
on a separate page. Linux takes a third of a microsecond per address, which is the lower bound. On Windows the calls of
``ReadProcessMemory`` are counted as well: under Wine each takes up to 0.1 ms, on Windows a few microseconds.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TypeAlias
from unittest.mock import patch

import msgspec

from benchmarks.result import Result, Row
from benchmarks.timing import interleaved, seconds
from soulslab.errors import SiphonError
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.memory import Memory
from soulslab.siphon.memory.opening import open_memory
from soulslab.siphon.profile import Attribute, Base, Process, Profile
from soulslab.siphon.profile.facts import numbers

N_ATTRIBUTES = 20
N_POINTERS = 4
#: Offset of the pointer to the next object, after the values.
NEXT_AT = 32
PAGE = 4096
IS_WINDOWS = sys.platform == "win32"
#: Targets for the time of a snapshot (µs), on Windows under Wine, and there for its calls of ReadProcessMemory.
TARGET_CACHED_US, TARGET_WALKED_US = (8000.0, 8000.0) if IS_WINDOWS else (25.0, 80.0)
TARGET_CALLS = 40
CACHED, WALKED, ONE_BY_ONE, ONE = (
    "snapshot, pointers as before",
    "snapshot, pointers walked anew",
    f"value by value, pointer by pointer ({'ReadProcessMemory' if IS_WINDOWS else 'pread'})",
    "one attribute, pointers as before",
)
TARGETS = {CACHED: TARGET_CACHED_US, WALKED: TARGET_WALKED_US}
_LAYOUT_SIZE = N_ATTRIBUTES * (N_POINTERS + 1) * 3 * PAGE
_SIZE = 3 * _LAYOUT_SIZE + PAGE
#: Returns so many bytes at an address.
Read: TypeAlias = Callable[[int, int], bytes]
# A process that only provides memory; it ends when its standard input is closed.
_HOLDER = f"""
import ctypes, sys
memory = ctypes.create_string_buffer({_SIZE})
ctypes.memset(memory, 0, {_SIZE})
print(ctypes.addressof(memory), flush=True)
sys.stdin.read()
"""


class MemoryBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_reads: Reads per measurement.
        n_rounds: Number of measurements.
    """

    n_reads: int = 300
    n_rounds: int = 30

    @classmethod
    def quick(cls) -> MemoryBenchSettings:
        """Return settings for a short run."""
        return cls(n_reads=50, n_rounds=10)


class _Layout(msgspec.Struct, frozen=True):
    """Layout of objects in memory.

    Attributes:
        name: Name in the table.
        n_chains: Chains of pointers; each leads to one object with an equal part of the values.
        step: Distance between two objects (bytes).
    """

    name: str
    n_chains: int
    step: int


LAYOUTS = (
    _Layout("4 chains to 5 values each, far apart", 4, 3 * PAGE),
    _Layout("20 chains, side by side", N_ATTRIBUTES, 64),
    _Layout("20 chains, far apart", N_ATTRIBUTES, 3 * PAGE),
)


def measure_memory(settings: MemoryBenchSettings) -> Result:
    """Measure the time to read 20 attributes of another process, and one attribute.

    Raises:
        SiphonError: A method read wrong values.
    """
    with _counted_calls() as calls, _holder() as (memory, start), _reading(memory) as read:
        actions: dict[tuple[str, str], Callable[[], object]] = {}
        for i, layout in enumerate(LAYOUTS):
            ways = _ways(memory, read, layout, start + i * _LAYOUT_SIZE)
            actions |= {(layout.name, way): action for way, action in ways.items()}
        n_calls = {key: _count(action, calls) for key, action in actions.items()}
        timers = {key: _repeated(action, settings.n_reads) for key, action in actions.items()}
        times_us = {key: 1e6 * median(found) for key, found in interleaved(timers, settings.n_rounds).items()}
    return Result(
        title=f"{N_ATTRIBUTES} attributes behind chains of {N_POINTERS} pointers, read from another process",
        rows=[_row(layout, way, times_us, n_calls) for layout, way in times_us],
    )


def _row(layout: str, way: str, times_us: dict[tuple[str, str], float], n_calls: dict[tuple[str, str], int]) -> Row:
    us = times_us[layout, way]
    row: Row = {
        "objects": layout,
        "read": way,
        "us": us,
        "target us": TARGETS.get(way),
        "times as fast as value by value": None if way == ONE else times_us[layout, ONE_BY_ONE] / us,
    }
    if IS_WINDOWS:
        # The target is for a few chains, as in most games.
        is_target = layout == LAYOUTS[0].name and way in TARGETS
        row |= {"calls": n_calls[layout, way], "target calls": TARGET_CALLS if is_target else None}
    return row


@contextmanager
def _counted_calls() -> Iterator[list[int]]:
    """Append to a list for each call of ``ReadProcessMemory`` by memories that are opened in this context."""
    calls: list[int] = []
    with ExitStack() as undo:
        if IS_WINDOWS:
            from soulslab.siphon.memory import windows  # noqa: PLC0415  (Windows only)

            original = windows.read_function

            def counted(*, is_large: bool = False) -> Callable[..., int]:
                read = original(is_large=is_large)

                def call(*arguments: object) -> int:
                    calls.append(1)
                    return read(*arguments)

                return call

            undo.enter_context(patch.object(windows, "read_function", counted))
        yield calls


@contextmanager
def _reading(memory: Memory) -> Iterator[Read]:
    """Yield a function that reads bytes with one system call."""
    if IS_WINDOWS:
        yield memory.read
        return
    descriptor = os.open(f"/proc/{memory.pid}/mem", os.O_RDONLY)
    try:
        yield lambda address, size: os.pread(descriptor, size, address)
    finally:
        os.close(descriptor)


def _count(action: Callable[[], object], calls: list[int]) -> int:
    """Return the number of calls of an action."""
    before = len(calls)
    action()
    return len(calls) - before


@contextmanager
def _holder() -> Iterator[tuple[Memory, int]]:
    """Start a process with memory for the objects; yield it and the page-aligned start address."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            start = int(process.stdout.readline()) if process.stdout else 0
            with closing(open_memory(process.pid)) as memory:
                yield memory, -(-start // PAGE) * PAGE
        finally:
            process.kill()


def _ways(memory: Memory, read_one: Read, layout: _Layout, start: int) -> dict[str, Callable[[], object]]:
    """Write objects and return the methods of reading them; raise `SiphonError` if one reads wrong values."""
    profile, bases, expected = _lay_out(memory, layout, start)
    table, uncached = (AttributeTable(profile, memory, ResolvedAddresses(bases=bases)) for _ in range(2))
    addresses = [(bases[attribute.base], numbers(attribute.offsets)[-1]) for attribute in profile.attributes.values()]
    first = next(iter(expected))

    def walk_anew() -> dict[str, int]:
        uncached.forget()
        return uncached.read_many()

    def walk_one_by_one() -> dict[str, int]:
        return {name: _walk(read_one, *place) for name, place in zip(expected, addresses, strict=True)}

    ways: dict[str, Callable[[], object]] = {
        CACHED: table.read_many,
        WALKED: walk_anew,
        ONE_BY_ONE: walk_one_by_one,
        ONE: partial(table.read, first),
    }
    for way, read in ways.items():
        if read() != (expected[first] if way == ONE else expected):
            raise SiphonError(f"{way} reads wrong values ({layout.name})")
    return ways


def _lay_out(memory: Memory, layout: _Layout, start: int) -> tuple[Profile, dict[str, int], dict[str, int]]:
    """Write objects; return a profile for them, the addresses of its bases, and the values."""
    n_values = N_ATTRIBUTES // layout.n_chains
    attributes, bases, expected = {}, {}, {}
    for chain in range(layout.n_chains):
        objects = [start + layout.step * (chain * (N_POINTERS + 1) + i) for i in range(N_POINTERS + 1)]
        for one, following in pairwise(objects):
            memory.write(one + NEXT_AT, struct.pack("<Q", following))
        base = f"chain{chain}"
        bases[base] = objects[0]
        for i in range(n_values):
            name = f"{base}.value{i}"
            expected[name] = 1000 + n_values * chain + i
            memory.write(objects[-1] + 4 * i, struct.pack("<i", expected[name]))
            offsets = (*(NEXT_AT,) * N_POINTERS, 4 * i)
            attributes[name] = Attribute(
                base=base, offsets=offsets, type="i32", range=(0, 10_000), source="this benchmark"
            )
    profile = Profile(
        name="benchmark",
        process=Process(executable="python"),
        bases={name: Base(offset=0, source="this benchmark") for name in bases},
        attributes=attributes,
    )
    return profile, bases, expected


def _walk(read: Read, address: int, offset: int) -> int:
    """Read one value with a system call for each pointer, as most tools do."""
    for _ in range(N_POINTERS):
        (address,) = struct.unpack("<Q", read(address + NEXT_AT, 8))
    (value,) = struct.unpack("<i", read(address + offset, 4))
    return int(value)


def _repeated(action: Callable[[], object], n_reads: int) -> Callable[[], float]:
    """Return a measurement of the mean time of an action (s)."""

    def repeat() -> None:
        for _ in range(n_reads):
            action()

    return lambda: seconds(repeat) / n_reads
