"""Reading a set of values behind pointers: one read if the pointers still are where they were.

The values and every pointer that leads to them are read together. If all the pointers are those of the last time, the
values are true; if one differs, or something cannot be read, the chains are walked anew, one read per level for all of
them. So a value of an object that the game has given up is never returned.

The order within the read matters while the game runs: first the values, then the ids of entities, then the pointers,
the last of each chain first. A pointer that is the old one when it is read, after what it leads to, also was the old
one while that was read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import EntityNotFoundError, MemoryAccessError, PointerError
from soulslab.siphon.attributes.entities import MAX_POINTER, MIN_POINTER, find_entity, id_bytes
from soulslab.siphon.attributes.pointer_chains import Cell, Chains, Listed, Part
from soulslab.siphon.memory import Memory, ReadBatch

PAGE = 4096
#: Gathering takes 1 ns per byte, so long values are better read where they are.
MAX_SIZE = 4096
#: Spans per part above which packing does not pay.
MAX_SHARE = 0.75


class PackedRead:
    """Reads parts by spans (`soulslab.siphon.memory.ReadBatch` with addresses that do not change).

    Args:
        memory: Of the game.
        addresses: (n,) uint64, of the parts.
        sizes: (n,) int64, of the parts.
        groups: (n,) int64, not descending: a span only joins parts of one group, and the spans of the first group are
            read first.

    Attributes:
        n_spans: Parts that the system sees.
    """

    def __init__(
        self,
        memory: Memory,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.int64],
        groups: NDArray[np.int64],
    ) -> None:
        order = np.lexsort((addresses, groups))
        starts = addresses[order].astype(np.int64)
        ends = starts + sizes[order]
        span_of, spans = _join(starts.tolist(), ends.tolist(), groups[order].tolist())
        self.n_spans = len(spans)
        self._batch = memory.batch([end - start for start, end in spans])
        self._batch.addresses[:] = [start for start, _ in spans]
        span_at = np.cumsum([0, *(end - start for start, end in spans)])
        first = np.empty(len(order), np.int64)
        first[order] = span_at[span_of] + starts - np.array([start for start, _ in spans])[span_of]
        # Byte i of a part lies i bytes behind its first.
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._gather = np.repeat(first, sizes) + inside
        self._gathered = np.zeros(len(self._gather), np.uint8)
        self._view = self._gathered.data
        self._source: NDArray[np.uint8] | None = None

    def read(self) -> memoryview:
        """Read all parts. Raises as `ReadBatch.read`, but names a span and not a part.

        Returns:
            The bytes of each part, one behind the other; the same buffer is filled again by the next call.
        """
        spans = self._batch.read()
        if self._source is None:
            self._source = np.frombuffer(spans, np.uint8)
        # "clip" lets numpy write to `out` without a copy between; no index is out of range.
        self._source.take(self._gather, out=self._gathered, mode="clip")
        return self._view


def _join(starts: Sequence[int], ends: Sequence[int], groups: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """Join sorted parts into spans; return the span of each part, and start and end of each span."""
    span_of: list[int] = []
    spans: list[tuple[int, int]] = []
    group = -1
    for start, end, of in zip(starts, ends, groups, strict=True):
        if of == group and start // PAGE <= (spans[-1][1] - 1) // PAGE + 1:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
            group = of
        span_of.append(len(spans) - 1)
    return span_of, spans


class LevelRead:
    """Reads all pointers of one depth.

    Attributes:
        cells: Those of this depth.
        first: Place of the first among all cells.
        searched: Entities whose slots have this depth: they have to be searched before.
        parents: (n,) place of the parent of each cell.
        offsets: (n,) uint64, a view: slots get theirs from the search.
        pointers: (n,) uint64, a view: where the pointers that are read belong.
        batch: Reads them.
    """

    def __init__(
        self,
        memory: Memory,
        chains: Chains,
        depth: int,
        offsets: NDArray[np.uint64],
        pointers: NDArray[np.uint64],
    ) -> None:
        self.cells: list[Cell | Part] = [cell for cell in chains.cells if cell.depth == depth]
        self.first = sum(cell.depth < depth for cell in chains.cells)
        last = self.first + len(self.cells)
        self.searched = [listed for listed in chains.entities if listed.slot.depth == depth]
        self.parents = np.array([cell.parent.index for cell in self.cells if cell.parent], np.intp)
        self.offsets = offsets[self.first : last]
        self.pointers = pointers[self.first : last]
        self.batch = memory.batch([8] * len(self.cells))


class FinalRead:
    """Reads values, then ids of entities, then pointers, the last of each chain first.

    Attributes:
        parts: What is read, in this order.
        parents: (n,) place of the cell whose pointer each part counts from.
        offsets: (n,) uint64, added to it.
        sizes: (n,) int64, bytes of each.
        groups: (n,) int64, not descending: parts of one number may be read in any order.
        cells: (n_cells,) places of the cells among the parts.
        ids: The ids of the entities, as they have to be.
        checked_from: Where in what was read the ids begin, and behind them the pointers.
        batch: Reads them.
    """

    def __init__(self, memory: Memory, chains: Chains) -> None:
        followed = sorted((cell for cell in chains.cells if cell.depth), key=lambda cell: -cell.depth)
        values, ids = chains.values, [listed.id for listed in chains.entities]
        self.parts: list[Cell | Part] = [*values, *ids, *followed]
        deepest = followed[0].depth if followed else 0
        groups = [0] * len(values) + [1] * len(ids) + [2 + deepest - cell.depth for cell in followed]
        self.groups = np.array(groups, np.int64)
        self.parents = np.array([part.parent.index for part in self.parts if part.parent], np.intp)
        self.offsets = np.array([part.offset % 2**64 for part in self.parts], np.uint64)
        self.cells = np.array([cell.index for cell in followed], np.intp)
        sizes = [part.size for part in (*values, *ids)] + [8] * len(followed)
        self.sizes = np.array(sizes, np.int64)
        self.ids = b"".join(id_bytes(listed.entity) for listed in chains.entities)
        self.checked_from = sum(part.size for part in values)
        self.batch = memory.batch(sizes)

    def take_offsets(self, offsets: NDArray[np.uint64]) -> None:
        """Take over the offsets of slots that a search has found."""
        if len(self.cells):
            self.offsets[-len(self.cells) :] = offsets[self.cells]

    def explain_change(self, expected: bytes, found: bytes, pid: int) -> PointerError | EntityNotFoundError:
        """Return the error for what differs from what a walk has just seen.

        Args:
            expected: Ids and pointers that the walk led to.
            found: Ids and pointers that were read with the values.
            pid: The game.
        """
        at = next(i for i in range(len(expected)) if expected[i] != found[i])
        ends = np.cumsum(self.sizes) - self.checked_from
        index = int(np.searchsorted(ends, at, side="right"))
        part = self.parts[index]
        if isinstance(part, Part):
            return EntityNotFoundError(part.owner, "its id changes while it is read; pause the game", 1)
        return PointerError(
            "changes while it is read; pause the game",
            attribute=part.owner,
            level=part.level,
            address=int(self.batch.addresses[index]),
            pid=pid,
        )


#: A running game may move things while we look for them; more often in a row than this it does not.
N_ATTEMPTS = 3
#: Reads without a walk after which it pays to pack them.
N_READS_TO_PACK = 3

_MIN, _SPAN = np.uint64(MIN_POINTER), np.uint64(MAX_POINTER - MIN_POINTER)


class ReadPlan:
    """Reads the values of some attributes.

    Args:
        memory: Of the game.
        chains: What leads to them.
    """

    def __init__(self, memory: Memory, chains: Chains) -> None:
        self._memory = memory
        self._chains = chains
        cells = chains.cells
        self._n_bases = n_bases = sum(cell.depth == 0 for cell in cells)
        self._offsets = np.array([cell.offset % 2**64 for cell in cells], np.uint64)
        #: The address of each base, then the pointer in each cell.
        self._pointers = self._offsets.copy()
        self._cell_pointers = self._pointers[n_bases:]
        self._is_followed = np.array([cell.is_followed for cell in cells[n_bases:]], np.bool_)
        depths = range(1, max((cell.depth for cell in cells), default=0) + 1)
        self._levels = [LevelRead(memory, chains, depth, self._offsets, self._pointers) for depth in depths]
        self._final = FinalRead(memory, chains)
        self._is_cached = False
        self._n_cached_reads = 0
        self._fast: ReadBatch | PackedRead = self._final.batch
        self._expected = b""

    def read(self) -> memoryview:
        """Read the values.

        Returns:
            The bytes of each value, one behind the other; the same buffer may be filled again by the next call.

        Raises:
            PointerError: A chain leads nowhere.
            EntityNotFoundError: An entity is not in its list.
            ProcessExitedError: The process has ended.
        """
        if self._is_cached:
            try:
                view = self._fast.read()
            except MemoryAccessError:
                return self._read_anew()
            if view[self._final.checked_from :].tobytes() == self._expected:
                if self._n_cached_reads < N_READS_TO_PACK:
                    self._count_cached_read()
                return view
        return self._read_anew()

    def forget(self) -> None:
        """Walk all the chains at the next read."""
        self._is_cached = False

    def address_of(self, index: int) -> int:
        """Return where the value of that place was at the last read."""
        return int(self._final.batch.addresses[index])

    def _count_cached_read(self) -> None:
        """Pack the read once it has turned out that the pointers stay for a while."""
        self._n_cached_reads += 1
        final = self._final
        if self._n_cached_reads == N_READS_TO_PACK and int(final.sizes.sum()) <= MAX_SIZE:
            packed = PackedRead(self._memory, final.batch.addresses, final.sizes, final.groups)
            if packed.n_spans <= MAX_SHARE * len(final.sizes):
                self._fast = packed

    def _read_anew(self) -> memoryview:
        """Walk the chains, then read the values and look whether the pointers are still the same."""
        self._is_cached = False
        problem: MemoryAccessError | EntityNotFoundError | None = None
        for _ in range(N_ATTEMPTS):
            try:
                self._walk()
                view = self._read_final()
            except (MemoryAccessError, EntityNotFoundError) as error:
                problem = error
                continue
            checked = view[self._final.checked_from :].tobytes()
            if checked == self._expected:
                self._is_cached, self._n_cached_reads, self._fast = True, 0, self._final.batch
                return view
            problem = self._final.explain_change(self._expected, checked, self._memory.pid)
        raise problem or AssertionError("there is at least one attempt")

    def _walk(self) -> None:
        """Read all pointers, level by level."""
        pointers = self._pointers
        for level in self._levels:
            for listed in level.searched:
                self._check_pointers(level.first)
                self._search(listed)
            np.add(pointers[level.parents], level.offsets, out=level.batch.addresses)
            try:
                view = level.batch.read()
            except MemoryAccessError as error:
                self._check_pointers(level.first)
                raise self._unreadable(level.cells) from error
            level.pointers[:] = np.frombuffer(view, np.uint64)
        # Unsigned: what lies below the least pointer wraps around, and is too great as well.
        if ((self._cell_pointers - _MIN >= _SPAN) & self._is_followed).any():
            self._check_pointers(len(pointers))

    def _search(self, listed: Listed) -> None:
        """Find an entity in its list."""
        begin, end = (int(self._pointers[cell.index]) for cell in (listed.begin, listed.end))
        try:
            place = find_entity(self._memory, listed.name, listed.entity, begin, end)
        except MemoryAccessError as error:
            raise PointerError(
                "leads to a list that is not mapped; the game may be loading",
                attribute=listed.name,
                level=listed.begin.level,
                address=begin,
                pid=self._memory.pid,
            ) from error
        self._offsets[listed.slot.index] = place * listed.entity.stride

    def _read_final(self) -> memoryview:
        """Read values, ids and pointers at the addresses that the walk gave."""
        final, pointers = self._final, self._pointers
        if self._chains.entities:
            final.take_offsets(self._offsets)
        np.add(pointers[final.parents], final.offsets, out=final.batch.addresses)
        self._expected = final.ids + pointers[final.cells].tobytes()
        try:
            return final.batch.read()
        except MemoryAccessError as error:
            raise self._unreadable(final.parts) from error

    def _check_pointers(self, until: int) -> None:
        """Raise `PointerError` for the first cell before that place whose pointer is none."""
        for cell in self._chains.cells[self._n_bases : until]:
            pointer = int(self._pointers[cell.index])
            if cell.is_followed and not MIN_POINTER <= pointer < MAX_POINTER:
                is_what = f"holds {pointer:#x}, which is no address" if pointer else "is a null pointer"
                raise self._pointer_error(cell, f"{is_what}; the game may be loading", is_null=not pointer)

    def _unreadable(self, parts: list[Cell | Part]) -> PointerError:
        """Return the error for the first of some parts that cannot be read."""
        bad = parts[0]
        for part in parts:
            size = part.size if isinstance(part, Part) else 8
            try:
                self._memory.read(self._address(part), size)
            except MemoryAccessError:
                bad = part
                break
        return self._pointer_error(bad, "leads to memory that is not mapped; the game may be loading")

    def _pointer_error(self, part: Cell | Part, problem: str, *, is_null: bool = False) -> PointerError:
        address, pid = self._address(part), self._memory.pid
        return PointerError(problem, attribute=part.owner, level=part.level, address=address, pid=pid, is_null=is_null)

    def _address(self, part: Cell | Part) -> int:
        """Return the address of a cell or a part, as far as the pointers are known."""
        start = 0 if part.parent is None else int(self._pointers[part.parent.index])
        offset = int(self._offsets[part.index]) if isinstance(part, Cell) else part.offset
        return (start + offset) % 2**64
