"""Pointer paths from a fixed place in the program to an address that differs in every run.

All pointers in the writable memory of the game are read once and sorted by their targets. The search goes backwards
from the target: pointers to it or shortly before it, pointers to those, and so on, until a pointer lies in the program
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory, chunks
from soulslab.siphon.process.image import Image, file_name, read_image
from soulslab.siphon.scanner.reading import writable_regions
from soulslab.siphon.scanner.value_scan import Progress

Addresses = NDArray[np.uint64]
_POINTER_BYTES = 8
#: Most offsets between the fields of an object are smaller than this.
NEAR_OFFSET = 0x800


class Module(msgspec.Struct, frozen=True):
    """A program or library in memory, whose contents have the same offset in every run.

    The name is as in `Base.module`: "" for the executable itself.
    """

    name: str
    start: int
    end: int


class PointerPath(msgspec.Struct, frozen=True, order=True):
    """A pointer path from a module to an address; paths are ordered by the number of pointers that are followed.

    `offset` is that of the first pointer in the module; `offsets` are added after each followed pointer, and empty if
    the address lies in the module itself.
    """

    n_levels: int
    offsets: tuple[int, ...]
    module: str
    offset: int

    def __str__(self) -> str:
        start = f"{self.module or 'executable'}+{self.offset:#x}"
        return " -> ".join([start, *(f"+{offset:#x}" for offset in self.offsets)])


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the search.

    Attributes:
        max_offset: Maximum offset after each pointer, in bytes.
        max_paths: Maximum number of paths; the shortest are returned. With a `max_offset` above `NEAR_OFFSET`, as many
            paths with smaller offsets can be returned in addition.
        max_holders: Maximum number of pointers to continue with at each level; pointers with the smallest offsets are
            used.
    """

    max_depth: int = 4
    max_offset: int = 0x8000
    max_paths: int = 1000
    max_holders: int = 200_000


class _Level(msgspec.Struct, frozen=True, eq=False):
    """The pointers that lead to the previous level, sorted by their addresses.

    Attributes:
        holders: (n,) address of each pointer.
        parents: (n,) address of the previous level that it leads to.
        offsets: (n,) offset from its target to that address.
    """

    holders: Addresses
    parents: Addresses
    offsets: Addresses


class PointerMap:
    """All pointers of a process at one moment, preferably read while the time of the game is held.

    Paths may start in `modules`; `progress` is called with the number of bytes read.
    """

    def __init__(self, memory: Memory, modules: Sequence[Module], progress: Progress | None = None) -> None:
        self._modules = sorted(modules, key=lambda module: module.start)
        self._holders, self._values = _read_pointers(memory, progress)
        self.n_pointers = int(self._values.size)

    def paths_to(self, target: int, limits: Limits | None = None) -> list[PointerPath]:
        """Return the paths that lead to an address now, within limits.

        Paths with offsets up to `NEAR_OFFSET` come first, then the others; in both parts the shortest first, and among
        those the ones with the smallest offsets. Most are accidental: keep the paths that still work after a restart
        (`verify`).
        """
        limits = limits or Limits()
        near = self._search(target, msgspec.structs.replace(limits, max_offset=min(limits.max_offset, NEAR_OFFSET)))
        if limits.max_offset <= NEAR_OFFSET:
            return near
        # Large offsets give so many short accidental paths that longer paths would not fit into the limit.
        return list(dict.fromkeys([*near, *self._search(target, limits)]))

    def _search(self, target: int, limits: Limits) -> list[PointerPath]:
        """Return the paths within the limits, the shortest first."""
        own = self._locate(np.array([target], np.uint64))
        if own[0] >= 0:
            module = self._modules[own[0]]
            return [PointerPath(0, (), module.name, target - module.start)]
        levels: list[_Level] = []
        found: list[PointerPath] = []
        frontier = np.array([target], np.uint64)
        seen = frontier
        while frontier.size and len(levels) < limits.max_depth and len(found) < limits.max_paths:
            level = self._pointers_to(frontier, limits)
            levels.append(level)
            modules = self._locate(level.holders)
            static = np.flatnonzero(modules >= 0)
            for index in static[np.argsort(level.offsets[static], kind="stable")].tolist():
                found += self._paths_from(levels, index, self._modules[modules[index]], limits.max_paths - len(found))
                if len(found) >= limits.max_paths:
                    break
            # A pointer that was found before leads there by a shorter path.
            frontier = np.setdiff1d(level.holders[modules < 0], seen)
            seen = np.union1d(seen, frontier)
        return sorted(found)

    def _pointers_to(self, frontier: Addresses, limits: Limits) -> _Level:
        """Return the pointers to the addresses of a level, or to shortly before them."""
        reach = np.uint64(min(limits.max_offset, int(frontier.min())))
        low = np.searchsorted(self._values, frontier - reach, "left")
        high = np.searchsorted(self._values, frontier, "right")
        # The values are sorted, so the nearest ones are the last; more would be dropped below anyway.
        low = np.maximum(low, high - max(16, 4 * limits.max_holders // frontier.size))
        counts = high - low
        parents = np.repeat(frontier, counts)
        # The positions low[i] to high[i] of all i, concatenated.
        firsts = np.cumsum(counts) - counts
        indices = np.arange(counts.sum()) - np.repeat(firsts, counts) + np.repeat(low, counts)
        offsets = parents - self._values[indices]
        holders = self._holders[indices]
        if holders.size > limits.max_holders:
            nearest = np.argpartition(offsets, limits.max_holders)[: limits.max_holders]
            holders, parents, offsets = holders[nearest], parents[nearest], offsets[nearest]
        order = np.lexsort((offsets, holders))
        return _Level(holders[order], parents[order], offsets[order])

    def _locate(self, addresses: Addresses) -> NDArray[np.intp]:
        starts = np.array([module.start for module in self._modules], np.uint64)
        ends = np.array([module.end for module in self._modules], np.uint64)
        if not starts.size:
            return np.full(addresses.shape, -1, np.intp)
        index = np.searchsorted(starts, addresses, "right") - 1
        is_inside = (index >= 0) & (addresses < ends[np.maximum(index, 0)])
        return np.where(is_inside, index, -1)

    def _paths_from(self, levels: list[_Level], index: int, module: Module, limit: int) -> Iterator[PointerPath]:
        """Yield the paths that start with one pointer of the last level."""
        offset = int(levels[-1].holders[index]) - module.start
        for offsets in islice(_ways(levels, range(index, index + 1)), limit):
            yield PointerPath(len(levels), offsets, module.name, offset)


def _ways(levels: list[_Level], indices: range) -> Iterator[tuple[int, ...]]:
    """Yield the offsets of all paths from some pointers of the last level to the target."""
    *before, level = levels
    for index in indices:
        offset, address = int(level.offsets[index]), level.parents[index]
        if not before:
            yield (offset,)
            continue
        low, high = (int(np.searchsorted(before[-1].holders, address, side)) for side in ("left", "right"))
        for rest in _ways(before, range(low, high)):
            yield (offset, *rest)


def modules_of(memory: Memory, image: Image, *, with_libraries: bool = False) -> list[Module]:
    """Return the modules in which pointer paths may start.

    `with_libraries` includes libraries loaded from files, for games whose engine is a library.
    """
    modules = [Module("", image.base, image.base + image.size)]
    if with_libraries:
        regions = memory.regions()
        files = {region.path for region in regions if region.is_executable and region.path.startswith("/")}
        names = {file_name(path) for path in files}
        for name in sorted(names - {file_name(image.path)}):
            try:
                library = read_image(memory, name, regions)
            except ImageError:
                continue  # a file with code that is not a library, such as a compiler cache
            modules.append(Module(name, library.base, library.base + library.size))
    return modules


def follow(path: PointerPath, memory: Memory, modules: Sequence[Module]) -> int:
    """Return the address that a path leads to now.

    Raises `MemoryAccessError` if it cannot be followed, and `ImageError` if its module is not loaded.
    """
    starts = {module.name: module.start for module in modules}
    if path.module not in starts:
        raise ImageError(f"module {path.module!r} is not loaded in process {memory.pid}", pid=memory.pid)
    address = starts[path.module] + path.offset
    for offset in path.offsets:
        address = int.from_bytes(memory.read(address, _POINTER_BYTES), "little") + offset
    return address


def verify(paths: Sequence[PointerPath], memory: Memory, modules: Sequence[Module], target: int) -> list[PointerPath]:
    """Return the paths of an earlier run that lead to the value now, whose address was found by a new scan."""
    return holding(paths, memory, modules, lambda address: address == target)


def holding(
    paths: Sequence[PointerPath], memory: Memory, modules: Sequence[Module], is_right: Callable[[int], bool]
) -> list[PointerPath]:
    """Return the paths of an earlier run that lead to a correct address now."""
    kept = []
    for path in paths:
        with suppress(MemoryAccessError, ImageError):  # it cannot be followed in this run
            if is_right(follow(path, memory, modules)):
                kept.append(path)
    return kept


def _read_pointers(memory: Memory, progress: Progress | None) -> tuple[Addresses, Addresses]:
    """Return the addresses of all pointers into writable memory, and their targets, sorted by target."""
    regions = writable_regions(memory)
    starts = np.array([region.start for region in regions], np.uint64)
    ends = np.array([region.end for region in regions], np.uint64)
    total = sum(region.end - region.start for region in regions)
    done = 0
    holders, values = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for start, data in chunks(memory, regions):
        skip = -start % _POINTER_BYTES
        n = max(0, data.size - skip) // _POINTER_BYTES
        words: Addresses = np.ndarray((n,), "<u8", buffer=data.data, offset=min(skip, data.size))
        # The first test is cheap and excludes nearly all words.
        indices = np.flatnonzero((words >= starts[0]) & (words < ends[-1]))
        pointers = words[indices]
        is_inside = pointers < ends[np.searchsorted(starts, pointers, "right") - 1]
        values.append(pointers[is_inside])
        holders.append(indices[is_inside].astype(np.uint64) * np.uint64(_POINTER_BYTES) + np.uint64(start + skip))
        done += data.size
        if progress is not None:
            progress(done, total)
    all_holders, all_values = np.concatenate(holders), np.concatenate(values)
    order = np.argsort(all_values, kind="stable")
    return all_holders[order], all_values[order]
