"""A scattered read of fixed addresses with fewer, longer parts.

The kernel takes 0.37 us for each part of a read, whatever its size, as it looks up the page anew; that is the time
for copying 4000 bytes. So parts that lie in one page, or in pages side by side, are read as one span, and what was
asked for is then gathered from the spans. No page is read that none of the parts touches, so a span can be read
whenever its parts can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from soulslab.siphon.memory import Memory

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
