"""Search rate for ten byte patterns in machine code, in the memory of a process.

The code is that of the programs and libraries of this machine, concatenated up to the required size. Each pattern is
planted once, so every method has to find the same ten positions. Our scanner reads the memory of a process (this one)
as it does that of a game; the other methods search smaller byte strings in this process, because they are slow.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from benchmarks.result import Result
from benchmarks.timing import interleaved, seconds
from soulslab.errors import SiphonError
from soulslab.siphon.attributes.pattern_scan import scan
from soulslab.siphon.memory import CHUNK_BYTES
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.profile.pattern import Pattern

#: Patterns of Elden Ring and Dark Souls III, as published in TarnishedTool, SilkySouls3 and SoulsGym (all MIT).
PATTERNS = (
    "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F 48 39 88",
    "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 05 48 8B 40 58 C3 C3",
    "48 8B 0D ?? ?? ?? ?? 80 BB D7 00 00 00 00 0F 84 CE 00 00 00 48 85 C9 75 2E",
    "48 8B 05 ?? ?? ?? ?? 80 B8 ?? ?? ?? ?? 0D 0F 94 C0 C3",
    "48 8B 3D ?? ?? ?? ?? 49 8B D8 48 8B F2 4C 8B F1 48 85 FF",
    "44 89 7C 24 28 4C 8B 25 ?? ?? ?? ?? 4D 85 E4",
    "48 8B 48 08 49 89 8D ?? ?? ?? ?? 49 8B CE E8",
    "48 8B 1D ?? ?? ?? 04 48 8B F9 48 85 DB ?? ?? 8B 11 85 D2 ?? ?? 8D",
    "80 3D ?? ?? ?? ?? 00 0F 85 ?? ?? ?? ?? 32 C0 48",
    "E8 ?? ?? ?? ?? 84 C0 74 41 90 48",
)
#: Folders with programs, in the order in which they are read.
FOLDERS = (Path("/usr/bin"), Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib"))
MIN_PROGRAM_BYTES = 50_000
SEED = 0
#: Part of the data for the slow methods.
FIND_SHARE, RE_SHARE = 1 / 16, 1 / 256
OURS = "ours (hyperscan), reading the process"
READING = "reading the process alone"
_GB = 1e9


class ScanBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_bytes: Size of the code to search.
        n_rounds: Number of measurements.
    """

    n_bytes: int = 256 << 20
    n_rounds: int = 9

    @classmethod
    def quick(cls) -> ScanBenchSettings:
        """Return settings for a short run."""
        return cls(n_bytes=64 << 20, n_rounds=5)


def measure_scan_rate(settings: ScanBenchSettings) -> Result:
    """Measure the bytes per second of a search for ten patterns, with our scanner and with plain Python."""
    code, places = code_with_patterns(settings.n_bytes)
    ways = _ways(code)
    measured = interleaved({name: partial(_rate, way, places) for name, way in ways.items()}, settings.n_rounds)
    rates = {name: median(found) for name, found in measured.items()}
    return Result(
        title=f"{len(PATTERNS)} byte patterns at once in machine code, one core, median of {settings.n_rounds}",
        rows=[
            {
                "way": name,
                "data (MB)": ways[name][0] / 1e6,
                "GB/s": rate / _GB,
                "ours is faster by": None if name == READING else rates[OURS] / rate,
            }
            for name, rate in rates.items()
        ],
    )


Way = tuple[int, Callable[[], list[int] | None]]
"""Bytes to search, and the search: returns the offsets of each pattern, ascending."""


def _ways(code: bytearray) -> Mapping[str, Way]:
    """Return the methods of searching, ours first."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    memory = LinuxMemory(os.getpid())
    patterns = {text: Pattern.parse(text) for text in PATTERNS}
    for_find = bytes(code[: int(len(code) * FIND_SHARE)])
    for_re = for_find[: int(len(code) * RE_SHARE)]
    expression = re.compile(b"|".join(pattern.expression for pattern in patterns.values()), re.DOTALL)
    literals = [(pattern, *_longest_literal(pattern)) for pattern in patterns.values()]
    buffer = memoryview(bytearray(CHUNK_BYTES))

    def read_only() -> None:
        for at in range(0, len(code) - CHUNK_BYTES + 1, CHUNK_BYTES):
            memory.read_into(address + at, buffer)

    def ours() -> list[int]:
        found = scan(patterns, memory, [(address, address + len(code))])
        return sorted(place - address for places in found.values() for place in places)

    def with_find() -> list[int]:
        return sorted(place for literal in literals for place in _find(for_find, *literal))

    return {
        OURS: (len(code), ours),
        READING: (len(code), read_only),
        "bytes.find of the longest fixed part, then a comparison": (len(for_find), with_find),
        "re, all patterns in one expression": (len(for_re), lambda: [m.start() for m in expression.finditer(for_re)]),
    }


def _rate(way: Way, places: list[int]) -> float:
    """Return the bytes per second of one search, after checking its results."""
    n_bytes, search = way
    found: list[list[int] | None] = []
    duration_s = seconds(lambda: found.append(search()))
    expected = [place for place in places if place < n_bytes - len(PATTERNS) * 32]
    if found[0] is not None and not set(expected) <= set(found[0]):
        raise SiphonError(
            f"a search found {len(found[0])} positions; some of the {len(expected)} planted ones are missing"
        )
    return n_bytes / duration_s


def code_with_patterns(n_bytes: int) -> tuple[bytearray, list[int]]:
    """Return machine code with each pattern planted once.

    Args:
        n_bytes: Size of the code.

    Returns:
        The code, and the positions of the patterns, ascending; the first four are also in the data of the slow methods.

    Raises:
        SiphonError: This machine has no programs to take code from.
    """
    code = bytearray()
    parts = list(_programs(n_bytes))
    if not parts:
        raise SiphonError(f"found no programs to take machine code from in {', '.join(map(str, FOLDERS))}")
    for part in cycle(parts):
        code += part
        if len(code) >= n_bytes:
            break
    del code[n_bytes:]
    rng = np.random.default_rng(SEED)
    limits = [n_bytes * RE_SHARE] * 2 + [n_bytes * FIND_SHARE] * 2 + [float(n_bytes)] * (len(PATTERNS) - 4)
    places = []
    for text, limit in zip(PATTERNS, limits, strict=True):
        pattern = Pattern.parse(text)
        place = int(rng.integers(0, int(limit) - len(pattern)))
        filler = rng.integers(0, 256, len(pattern), np.uint8).tobytes()
        code[place : place + len(pattern)] = bytes(
            value | (byte & ~mask) for value, mask, byte in zip(pattern.values, pattern.masks, filler, strict=True)
        )
        places.append(place)
    return code, sorted(places)


def _programs(n_bytes: int) -> Iterator[bytes]:
    """Yield the code of programs and libraries until the size is reached."""
    found = 0
    for folder in FOLDERS:
        for path in sorted(folder.glob("*")):
            if path.is_symlink() or not path.is_file() or path.stat().st_size < MIN_PROGRAM_BYTES:
                continue
            for part in _code_of(path):
                yield part
                found += len(part)
                if found >= n_bytes:
                    return


def _code_of(path: Path) -> Iterator[bytes]:
    """Yield the executable segments of a 64-bit ELF file; nothing for other files."""
    data = path.read_bytes() if os.access(path, os.R_OK) else b""
    if data[:5] != b"\x7fELF\x02":
        return
    headers_at, n_headers = int.from_bytes(data[32:40], "little"), int.from_bytes(data[56:58], "little")
    for at in range(headers_at, headers_at + 56 * n_headers, 56):
        kind, flags, offset, _, _, size = np.frombuffer(data[at : at + 40], "<u4,<u4,<u8,<u8,<u8,<u8")[0].tolist()
        if kind == 1 and flags & 1:  # PT_LOAD, PF_X
            yield data[offset : offset + size]


def _longest_literal(pattern: Pattern) -> tuple[int, bytes]:
    """Return the longest fixed part of a pattern and its offset."""
    runs = [match.span() for match in re.finditer(rb"\xff+", pattern.masks)]
    start, end = max(runs, key=lambda run: run[1] - run[0])
    return start, pattern.values[start:end]


def _find(data: bytes, pattern: Pattern, literal_at: int, literal: bytes) -> Iterator[int]:
    """Yield the offsets of a pattern in some bytes."""
    at = data.find(literal)
    while at >= 0:
        start = at - literal_at
        part = data[max(start, 0) : start + len(pattern)]
        if len(part) == len(pattern) and all(
            byte & mask == value for byte, mask, value in zip(part, pattern.masks, pattern.values, strict=True)
        ):
            yield start
        at = data.find(literal, at + 1)
