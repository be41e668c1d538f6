"""Pointer paths: from a place in the program, which is the same in every run, to an address that is not.

All pointers in the memory that the game may write are read once and sorted by where they point. From the target we go
backwards: who points to it, or shortly before it; who points to those; until a pointer lies in the program itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory
from soulslab.siphon.process.image import Image, file_name, read_image
from soulslab.siphon.scanner.reading import chunks, writable_regions
from soulslab.siphon.scanner.value_scan import Progress

Addresses = NDArray[np.uint64]
_POINTER_BYTES = 8
#: Most offsets between the fields of an object are smaller than this.
NEAR_OFFSET = 0x800


class Module(msgspec.Struct, frozen=True):
    """A program or library in memory: what lies in it has the same offset in every run.

    Attributes:
        name: As in `Base.module`: "" for the executable itself.
        start: Where it is loaded.
        end: Behind its last byte.
    """

    name: str
    start: int
    end: int


class PointerPath(msgspec.Struct, frozen=True, order=True):
    """A way from a module to an address. The shorter of two paths is the lesser.

    Attributes:
        n_levels: How many pointers are followed.
        offsets: After each pointer that is followed, this is added. None if the address lies in the module itself.
        module: Where it starts.
        offset: The place from there that holds the first pointer.
    """

    n_levels: int
    offsets: tuple[int, ...]
    module: str
    offset: int

    def __str__(self) -> str:
        start = f"{self.module or 'executable'}+{self.offset:#x}"
        return " -> ".join([start, *(f"+{offset:#x}" for offset in self.offsets)])


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far to search.

    Attributes:
        max_depth: Most pointers to follow.
        max_offset: Most that is added after each, in bytes.
        max_paths: Most paths to return; the shortest are. With a `max_offset` above `NEAR_OFFSET` there can be as many
            with smaller offsets in addition.
        max_holders: Most pointers to go on from at each level; those with the smallest offsets are taken.
    """

    max_depth: int = 4
    max_offset: int = 0x8000
    max_paths: int = 1000
    max_holders: int = 200_000


class _Level(msgspec.Struct, frozen=True, eq=False):
    """The pointers that lead to the level before, sorted by where they lie.

    Attributes:
        holders: (n,) where each pointer lies.
        parents: (n,) the address of the level before that it leads to.
        offsets: (n,) what is added to it for that.
    """

    holders: Addresses
    parents: Addresses
    offsets: Addresses


class PointerMap:
    """All pointers of a process at one moment.

    Args:
        memory: Of the game; best while its time stands.
        modules: Where a path may start.
        progress: Told how much has been read.

    Attributes:
        n_pointers: How many there are.
    """

    def __init__(self, memory: Memory, modules: Sequence[Module], progress: Progress | None = None) -> None:
        self._modules = sorted(modules, key=lambda module: module.start)
        self._holders, self._values = _read_pointers(memory, progress)
        self.n_pointers = int(self._values.size)

    def paths_to(self, target: int, limits: Limits | None = None) -> list[PointerPath]:
        """Search the paths that lead to an address now.

        Args:
            target: The address.
            limits: How far to search.

        Returns:
            The paths, none if there are none within the limits: first those with offsets up to `NEAR_OFFSET`, then the
            others, in both parts the shortest first, and among those the ones with the smallest offsets. Most are
            accidents: keep those that still work after a restart (`verify`).
        """
        limits = limits or Limits()
        near = self._search(target, msgspec.structs.replace(limits, max_offset=min(limits.max_offset, NEAR_OFFSET)))
        if limits.max_offset <= NEAR_OFFSET:
            return near
        # Large offsets find so many short accidents that they would leave no room for longer paths.
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
            # A pointer that was met before leads there on a shorter way.
            frontier = np.setdiff1d(level.holders[modules < 0], seen)
            seen = np.union1d(seen, frontier)
        return sorted(found)

    def _pointers_to(self, frontier: Addresses, limits: Limits) -> _Level:
        """Return the pointers to the addresses of a level, or to shortly before them."""
        reach = np.uint64(min(limits.max_offset, int(frontier.min())))
        low = np.searchsorted(self._values, frontier - reach, "left")
        high = np.searchsorted(self._values, frontier, "right")
        # The values are sorted, so the nearest ones are the last; more than this would be dropped below anyway.
        low = np.maximum(low, high - max(16, 4 * limits.max_holders // frontier.size))
        counts = high - low
        parents = np.repeat(frontier, counts)
        # The positions low[i] to high[i] of all i, one behind the other.
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
        """Return which module each address lies in; -1 for none."""
        starts = np.array([module.start for module in self._modules], np.uint64)
        ends = np.array([module.end for module in self._modules], np.uint64)
        if not starts.size:
            return np.full(addresses.shape, -1, np.intp)
        index = np.searchsorted(starts, addresses, "right") - 1
        is_inside = (index >= 0) & (addresses < ends[np.maximum(index, 0)])
        return np.where(is_inside, index, -1)

    def _paths_from(self, levels: list[_Level], index: int, module: Module, limit: int) -> Iterator[PointerPath]:
        """Yield the paths that start with one pointer of the last level."""
        last = levels[-1]
        offset = int(last.holders[index]) - module.start
        first = int(last.offsets[index])
        for n, rest in enumerate(_ways(levels[:-1], int(last.parents[index]))):
            if n >= limit:
                return
            yield PointerPath(len(levels), (first, *rest), module.name, offset)


def _ways(levels: list[_Level], address: int) -> Iterator[tuple[int, ...]]:
    """Yield the offsets of all ways from an address of the last level's holders to the target."""
    if not levels:
        yield ()
        return
    level = levels[-1]
    low = int(np.searchsorted(level.holders, np.uint64(address), "left"))
    high = int(np.searchsorted(level.holders, np.uint64(address), "right"))
    for index in range(low, high):
        for rest in _ways(levels[:-1], int(level.parents[index])):
            yield (int(level.offsets[index]), *rest)


def modules_of(memory: Memory, image: Image, *, with_libraries: bool = False) -> list[Module]:
    """Return where pointer paths may start.

    Args:
        memory: Of the game.
        image: Its executable.
        with_libraries: Also the libraries that are loaded from files; for games whose engine is one.
    """
    modules = [Module("", image.base, image.base + image.size)]
    if with_libraries:
        files = {region.path for region in memory.regions() if region.is_executable and region.path.startswith("/")}
        names = {file_name(path) for path in files}
        for name in sorted(names - {file_name(image.path)}):
            try:
                library = read_image(memory, name)
            except ImageError:
                continue  # a file with code that is no library, as a cache of a compiler
            modules.append(Module(name, library.base, library.base + library.size))
    return modules


def follow(path: PointerPath, memory: Memory, modules: Sequence[Module]) -> int:
    """Return the address that a path leads to now.

    Raises:
        MemoryAccessError: It leads nowhere.
        ImageError: Its module is not loaded.
    """
    starts = {module.name: module.start for module in modules}
    if path.module not in starts:
        raise ImageError(f"module {path.module!r} is not loaded in process {memory.pid}", pid=memory.pid)
    address = starts[path.module] + path.offset
    for offset in path.offsets:
        address = int.from_bytes(memory.read(address, _POINTER_BYTES), "little") + offset
    return address


def verify(paths: Sequence[PointerPath], memory: Memory, modules: Sequence[Module], target: int) -> list[PointerPath]:
    """Keep the paths that lead to the value in another run of the game.

    Args:
        paths: Found in an earlier run.
        memory: Of the game that runs now.
        modules: Of the game that runs now.
        target: Where the value is now, found by a scan anew.
    """
    return holding(paths, memory, modules, lambda address: address == target)


def holding(
    paths: Sequence[PointerPath], memory: Memory, modules: Sequence[Module], is_right: Callable[[int], bool]
) -> list[PointerPath]:
    """Keep the paths that lead somewhere now, and to the right place.

    Args:
        paths: Found in an earlier run.
        memory: Of the game that runs now.
        modules: Of the game that runs now.
        is_right: Tells whether an address is the right one.
    """
    return [path for path in paths if _leads(path, memory, modules, is_right)]


def _leads(path: PointerPath, memory: Memory, modules: Sequence[Module], is_right: Callable[[int], bool]) -> bool:
    try:
        return is_right(follow(path, memory, modules))
    except (MemoryAccessError, ImageError):
        return False  # it leads nowhere in this run


def _read_pointers(memory: Memory, progress: Progress | None) -> tuple[Addresses, Addresses]:
    """Return where pointers into memory that the game may write lie, and where they point, sorted by the latter."""
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
        # Nearly all words fall to the first test, which is cheap.
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
