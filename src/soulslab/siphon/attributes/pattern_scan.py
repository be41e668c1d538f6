"""Search the code of a process for several byte patterns in one pass.

Hyperscan reports the end of a match; the fixed length of a pattern gives its start. Blocks overlap, so that no match
across a border is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from soulslab.errors import MissingDependencyError, PatternError
from soulslab.siphon.memory import CHUNK_BYTES, Bytes, Memory, Region, chunks
from soulslab.siphon.profile.pattern import Pattern

#: Upper bound on the matches of a pattern; a pattern with more is too weak, and reporting the matches is slow.
MAX_MATCHES = 4096
N_SHOWN = 16

_log = logging.getLogger(__name__)


class CodeScan:
    """One scan of the memory of a process, in blocks.

    `matches` are the start addresses of the matches of each pattern, ascending; unreadable bytes are skipped.
    """

    def __init__(self, patterns: Mapping[str, Pattern], memory: Memory, block_size: int = CHUNK_BYTES) -> None:
        self.matches: dict[str, list[int]] = {name: [] for name in patterns}
        self.n_unreadable = 0
        self._memory = memory
        self._lengths = [len(pattern) for pattern in patterns.values()]
        self._lists = list(self.matches.values())
        self._database = compile_patterns(tuple(pattern.expression for pattern in patterns.values()))
        # One scratch space per scan, because two threads must not share one with the same database.
        self._scratch = _hyperscan().Scratch(self._database)
        self._overlap = max(self._lengths) - 1
        self._block_size = block_size
        self._address = 0  # of the current block

    def run(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Scan ranges. A match lies in one range with all of its bytes; overlapping ranges count as one.

        Raises `PatternError` if a pattern has more than 4096 matches.
        """
        for start, end in _merged(ranges):
            n_read, read_to = 0, start
            region = Region(start, end, True, False, True, "")
            for address, data in chunks(self._memory, [region], self._overlap, self._block_size):
                n_read += max(address + data.size - max(address, read_to), 0)
                read_to = max(address + data.size, read_to)
                self._scan_block(address, data)
            if n_read < end - start:
                self.n_unreadable += end - start - n_read
                _log.warning("%d bytes of %#x-%#x cannot be read", end - start - n_read, start, end)

    def _scan_block(self, address: int, data: Bytes) -> None:
        self._address = address
        try:
            self._database.scan(data.data, match_event_handler=self._on_match, scratch=self._scratch)
        except _hyperscan().ScanTerminated as stopped:
            name, found = max(self.matches.items(), key=lambda item: len(item[1]))
            raise PatternError(
                f"the pattern is too weak: it was found in more than {MAX_MATCHES} places, the first at "
                f"{', '.join(hex(place) for place in found[:N_SHOWN])}; make it longer",
                base=name,
                addresses=found,
            ) from stopped

    def _on_match(self, index: int, _start: int, end: int, _flags: int, _context: object) -> bool:
        """Record a match; return True to stop the scan."""
        found = self._lists[index]
        address = self._address + end - self._lengths[index]
        if found and address <= found[-1]:
            return False  # it lies in the overlap with the block before
        if len(found) == MAX_MATCHES:
            return True
        found.append(address)
        return False


def scan(patterns: Mapping[str, Pattern], memory: Memory, ranges: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """Return the start addresses of all matches of each pattern, ascending.

    Unreadable pages are skipped and logged. A match lies in one of the ranges (start, end) with all of its bytes.
    Raises `PatternError` if a pattern has more than 4096 matches, and `ProcessExitedError`.
    """
    if not patterns:
        return {}
    search = CodeScan(patterns, memory)
    search.run(ranges)
    return search.matches


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@lru_cache(maxsize=8)
def compile_patterns(expressions: tuple[bytes, ...]) -> Any:
    """Compile patterns into one database; cached because a scan is repeated while a game starts."""
    hyperscan = _hyperscan()
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=list(expressions), ids=list(range(len(expressions))), flags=hyperscan.HS_FLAG_DOTALL)
    return database


def _hyperscan() -> Any:
    """Return the hyperscan module; profiles can be read without it."""
    try:
        import hyperscan  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("hyperscan", "siphon") from error
    return hyperscan
