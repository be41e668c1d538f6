"""Reading a set of values behind pointers, with one read while the pointers do not change.

The values and every pointer that leads to them are read together. If all pointers are unchanged since the last read,
the values are valid. If one has changed, or something cannot be read, the chains are walked again with one read per
level. A value of an object that the game has freed is never returned.

The order of the reads matters while the game runs: first the values, then the ids of entities, then the pointers, the
last pointer of each chain first. A pointer that is read after the value it leads to, and that has not changed, was also
valid while the value was read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import EntityNotFoundError, MemoryAccessError, PointerError
from soulslab.siphon.attributes.pointer_chains import (
    MAX_POINTER,
    MIN_POINTER,
    Cell,
    Chains,
    Listed,
    Part,
    find_entity,
    id_bytes,
)
from soulslab.siphon.memory import Memory, ReadBatch, join_parts

#: Gathering takes 1 ns per byte, so longer values are read in place.
MAX_SIZE = 4096
#: Spans per part above which packing is not faster.
MAX_SHARE = 0.75


class PackedRead:
    """Reads parts of memory by spans that cover several parts, with fixed addresses.

    Addresses, sizes and groups are (n,). A span joins only parts of one group; the groups ascend, and the spans of the
    first one are read first.
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
        span_of, spans = join_parts(starts.tolist(), ends.tolist(), groups[order].tolist())
        self.n_spans = len(spans)
        first_of = np.searchsorted(span_of, np.arange(len(spans)))
        span_groups = groups[order][first_of].tolist()
        self._batch = memory.batch([end - start for start, end in spans], span_groups)
        self._batch.addresses[:] = [start for start, _ in spans]
        span_at = np.cumsum([0, *(end - start for start, end in spans)])
        first = np.empty(len(order), np.int64)
        first[order] = span_at[span_of] + starts - np.array([start for start, _ in spans])[span_of]
        # Byte i of a part lies i bytes after its first byte.
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._gather = np.repeat(first, sizes) + inside
        self._gathered = np.zeros(len(self._gather), np.uint8)
        self._view = self._gathered.data
        self._source: NDArray[np.uint8] | None = None

    def read(self) -> memoryview:
        """Return the bytes of the parts, concatenated; the next call overwrites the buffer.

        Raises as `ReadBatch.read`, but the error names a span instead of a part.
        """
        spans = self._batch.read()
        if self._source is None:
            self._source = np.frombuffer(spans, np.uint8)
        # "clip" lets numpy write to `out` without a copy; no index is out of range.
        self._source.take(self._gather, out=self._gathered, mode="clip")
        return self._view


class LevelRead:
    """Reads all pointers of one depth.

    Attributes:
        first: Index of its first cell among all cells.
        searched: Entities whose slots have this depth; they are searched before the read.
        parents: (n,) index of the parent of each cell.
        offsets: (n,) uint64, a view; a search sets the offsets of slots.
        pointers: (n,) uint64, a view that receives the pointers.
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
    """Reads values, then ids of entities, then pointers, the last pointer of each chain first.

    Attributes:
        parts: Parts in the order of the read.
        parents: (n,) index of the cell whose pointer each part's offset is added to.
        offsets: (n,) uint64, offset of each part.
        sizes: (n,) int64, size of each part in bytes.
        groups: (n,) int64, ascending: parts of one group may be read in any order.
        cells: (n_cells,) indices of the cells among the parts.
        ids: Expected ids of the entities.
        checked_from: Position in the read bytes at which the ids begin; the pointers follow.
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
        self.batch = memory.batch(sizes, groups)

    def take_offsets(self, offsets: NDArray[np.uint64]) -> None:
        """Copy the offsets of slots that a search has found."""
        if len(self.cells):
            self.offsets[-len(self.cells) :] = offsets[self.cells]

    def explain_change(self, expected: bytes, found: bytes, pid: int) -> PointerError | EntityNotFoundError:
        """Return the error for ids and pointers that differ from the walk's when they are read with the values."""
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


#: A running game may move objects during a walk; it does not do so more often in succession than this.
N_ATTEMPTS = 3
#: Number of reads without a walk after which packing pays off.
N_READS_TO_PACK = 3

_MIN, _SPAN = np.uint64(MIN_POINTER), np.uint64(MAX_POINTER - MIN_POINTER)


class ReadPlan:
    """Reads the values of some attributes by their pointer chains."""

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
        """Return the bytes of the values, concatenated; the next call may overwrite the buffer.

        Raises `PointerError` if a chain cannot be followed, `EntityNotFoundError`, and `ProcessExitedError`.
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
        """Make the next read walk all chains."""
        self._is_cached = False

    def address_of(self, index: int) -> int:
        """Return the address of a value at the last read."""
        return int(self._final.batch.addresses[index])

    def _count_cached_read(self) -> None:
        """Pack the read once the pointers have not changed for some reads."""
        self._n_cached_reads += 1
        final = self._final
        if self._n_cached_reads == N_READS_TO_PACK and int(final.sizes.sum()) <= MAX_SIZE:
            packed = PackedRead(self._memory, final.batch.addresses, final.sizes, final.groups)
            if packed.n_spans <= MAX_SHARE * len(final.sizes):
                self._fast = packed

    def _read_anew(self) -> memoryview:
        """Walk the chains, read the values, and check that the pointers have not changed."""
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
        # Unsigned arithmetic: a value below the smallest pointer wraps around and is too large as well.
        if ((self._cell_pointers - _MIN >= _SPAN) & self._is_followed).any():
            self._check_pointers(len(pointers))

    def _search(self, listed: Listed) -> None:
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
        """Read values, ids and pointers at the addresses found by the walk."""
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
        for cell in self._chains.cells[self._n_bases : until]:
            pointer = int(self._pointers[cell.index])
            if cell.is_followed and not MIN_POINTER <= pointer < MAX_POINTER:
                is_what = f"holds {pointer:#x}, which is not an address" if pointer else "is a null pointer"
                raise self._pointer_error(cell, f"{is_what}; the game may be loading", is_null=not pointer)

    def _unreadable(self, parts: list[Cell | Part]) -> PointerError:
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
        start = int(self._pointers[part.parent.index]) if part.parent is not None else 0
        offset = int(self._offsets[part.index]) if isinstance(part, Cell) else part.offset
        return (start + offset) % 2**64
