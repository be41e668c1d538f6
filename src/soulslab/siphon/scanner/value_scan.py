"""A scan for a number that is narrowed down over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MemoryAccessError, ScanError
from soulslab.siphon.memory import CHUNK_BYTES, Bytes, Memory, chunks, readable_runs
from soulslab.siphon.profile import NumberType
from soulslab.siphon.scanner.conditions import COMPARING, DTYPES, Condition, Values, check_condition, mask_of
from soulslab.siphon.scanner.reading import writable_regions

Progress: TypeAlias = Callable[[int, int], None]
"""Called regularly with the number of scanned bytes, and the total."""

#: With fewer candidates than this in one piece of memory, they are read one by one.
_FEW = 64
_DEFAULT_MAX_BYTES = 4 << 30


class Candidate(msgspec.Struct, frozen=True):
    """An address that may hold the value, with the value in the last round."""

    address: int
    value: int | float


class _Block(msgspec.Struct, frozen=True, eq=False):
    """The candidates in one piece of memory: (n,) values in the last round, at ascending (n,) uint32 byte offsets.

    Without offsets every position is a candidate.
    """

    start: int
    offsets: NDArray[np.uint32] | None
    values: Values


class ValueScan:
    """The candidates for one number.

    Args:
        memory: Memory of the game.
        value_type: Type of the stored number.
        alignment: Alignment of candidates in bytes; 0 for the size of the type, 1 for every address.
        max_bytes: Maximum size of the stored candidates.
    """

    def __init__(
        self,
        memory: Memory,
        value_type: NumberType,
        *,
        alignment: int = 0,
        max_bytes: int = _DEFAULT_MAX_BYTES,
    ) -> None:
        self._memory = memory
        self.type = value_type
        self._dtype = DTYPES[value_type]
        self._alignment = alignment or self._dtype.itemsize
        if not 1 <= self._alignment <= 4096 or self._alignment & (self._alignment - 1):
            raise ScanError(f"an alignment has to be a power of two up to 4096; {alignment} is none")
        self._max_bytes = max_bytes
        self._blocks: list[_Block] = []
        #: The candidates before each round that can be undone, the most recent last.
        self._earlier: list[list[_Block]] = []
        self.n_rounds = 0

    @property
    def n_candidates(self) -> int:
        """Number of remaining candidates."""
        return sum(block.values.size for block in self._blocks)

    def first(self, condition: Condition, progress: Progress | None = None) -> int:
        """Scan all writable memory and return the number of candidates; a scan in progress is restarted.

        Raises `ScanError` if the condition compares with an earlier round or does not fit the type, or if the
        candidates would need more than `max_bytes`.
        """
        check_condition(condition, self.type)
        if condition.kind in COMPARING:
            raise ScanError(f"a scan begins with exact, between or unknown; {condition.kind!r} compares with a round")
        regions = writable_regions(self._memory)
        n_bytes = sum(region.end - region.start for region in regions)
        self._blocks, self._earlier, self.n_rounds = [], [], 0
        pieces = chunks(self._memory, regions, extra=self._dtype.itemsize - 1)
        searched = ((self._search(start, data, condition), min(data.size, CHUNK_BYTES)) for start, data in pieces)
        return self._keep(searched, n_bytes, progress)

    def narrow(self, condition: Condition, progress: Progress | None = None) -> int:
        """Keep the candidates that fulfil a condition now, and return their number.

        Raises `ScanError` if the first round is missing, or the condition does not fit the type.
        """
        check_condition(condition, self.type)
        if not self.n_rounds:
            raise ScanError("there is nothing to narrow down; begin with a first round")
        narrowed = ((self._narrow(block, condition), block.values.size) for block in self._blocks)
        before = self._blocks
        n_left = self._keep(narrowed, self.n_candidates, progress)
        self._earlier.append(before)
        while self._earlier and sum(_size_of(block) for blocks in self._earlier for block in blocks) > self._max_bytes:
            del self._earlier[0]
        return n_left

    def undo(self) -> int:
        """Undo the last narrowing round: the candidates have their values of that time again. Return their number.

        Raises `ScanError` if no round can be undone, or it is no longer stored.
        """
        if not self._earlier:
            raise ScanError("no round can be undone; a first round can only be repeated")
        self._blocks = self._earlier.pop()
        self.n_rounds -= 1
        return self.n_candidates

    def candidates(self, limit: int = 100) -> list[Candidate]:
        """Return the first candidates, by ascending address, with their values in the last round."""
        found: list[Candidate] = []
        for block in self._blocks:
            n = min(limit - len(found), block.values.size)
            offsets = self._offsets_of(block)[:n].tolist()
            values = block.values[:n].tolist()
            found += [Candidate(block.start + at, value) for at, value in zip(offsets, values, strict=True)]
            if len(found) >= limit:
                break
        return found

    def _search(self, start: int, data: Bytes, condition: Condition) -> _Block | None:
        skip = -start % self._alignment
        start, data = start + skip, data[skip:]
        # The extra bytes are one fewer than a value, so none that begins in the next piece is found here.
        n = -(-max(0, data.size - self._dtype.itemsize + 1) // self._alignment)
        view: Values = np.ndarray((n,), self._dtype, buffer=data.data, strides=(self._alignment,))
        if condition.kind == "unknown":
            return _Block(start, None, view.copy()) if view.size else None
        indices = np.flatnonzero(mask_of(condition, view, None))
        if not indices.size:
            return None
        return _Block(start, (indices * self._alignment).astype(np.uint32), view[indices])

    def _narrow(self, block: _Block, condition: Condition) -> _Block | None:
        offsets = self._offsets_of(block)
        now, is_readable = self._read(block.start, offsets)
        mask = mask_of(condition, now, block.values) & is_readable
        if not mask.any():
            return None
        if block.offsets is None and mask.all():
            return _Block(block.start, None, now)
        return _Block(block.start, offsets[mask], now[mask])

    def _offsets_of(self, block: _Block) -> NDArray[np.uint32]:
        if block.offsets is not None:
            return block.offsets
        return np.arange(block.values.size, dtype=np.uint32) * np.uint32(self._alignment)

    def _read(self, start: int, offsets: NDArray[np.uint32]) -> tuple[Values, NDArray[np.bool_]]:
        """Return the current values at some positions, and which of them could be read."""
        size = self._dtype.itemsize
        first = int(offsets[0])
        n_bytes = int(offsets[-1]) + size - first
        data = np.zeros(n_bytes, np.uint8)
        relative = offsets - np.uint32(first)
        runs: list[tuple[int, Bytes]] | None = None
        try:
            if offsets.size > _FEW or n_bytes <= _FEW * size:
                self._memory.read_into(start + first, data.data)
            else:
                for at in relative.tolist():
                    self._memory.read_into(start + first + at, data[at : at + size].data)
        except MemoryAccessError:
            runs = list(readable_runs(self._memory, start + first, start + first + n_bytes))
        is_there = np.full(offsets.size, runs is None)
        for address, run in runs or ():
            at = address - start - first
            data[at : at + run.size] = run
            is_there |= (relative >= at) & (relative + np.uint32(size) <= at + run.size)
        shifted: Values = np.ndarray((n_bytes - size + 1,), self._dtype, buffer=data.data, strides=(1,))
        return shifted[relative], is_there

    def _keep(self, blocks: Iterable[tuple[_Block | None, int]], total: int, progress: Progress | None) -> int:
        """Keep the blocks with candidates; each comes with its share of the progress. Return their number."""
        kept: list[_Block] = []
        n_bytes = n_done = 0
        for block, n in blocks:
            if block is not None:
                kept.append(block)
                n_bytes += _size_of(block)
            if n_bytes > self._max_bytes:
                raise ScanError(
                    f"the candidates take up more than {self._max_bytes / 2**20:.0f} MiB here; "
                    f"begin with exact or between, or raise max_bytes"
                )
            n_done += n
            if progress is not None:
                progress(n_done, total)
        self._blocks = kept
        self.n_rounds += 1
        return self.n_candidates


def _size_of(block: _Block) -> int:
    return block.values.nbytes + (block.offsets.nbytes if block.offsets is not None else 0)
