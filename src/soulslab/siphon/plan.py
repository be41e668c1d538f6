"""Reading a set of values behind pointers: one read if the pointers still are where they were.

The values and every pointer that leads to them are read together. If all the pointers are those of the last time, the
values are true; if one differs, or something cannot be read, the chains are walked anew, one read per level for all of
them. So a value of an object that the game has given up is never returned.

The order within the read matters while the game runs: first the values, then the ids of entities, then the pointers,
the last of each chain first. A pointer that is the old one when it is read, after what it leads to, also was the old
one while that was read.
"""

from __future__ import annotations

import numpy as np

from soulslab.errors import EntityNotFoundError, MemoryAccessError, PointerError
from soulslab.siphon.chain_reads import FinalRead, LevelRead
from soulslab.siphon.chains import Cell, Chains, Listed, Part
from soulslab.siphon.entities import MAX_POINTER, MIN_POINTER, find_entity
from soulslab.siphon.memory import Memory, ReadBatch
from soulslab.siphon.packing import MAX_SHARE, MAX_SIZE, PackedRead

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
