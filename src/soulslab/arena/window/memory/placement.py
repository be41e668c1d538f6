"""Placement of memory spaces in the program and on the heap, and the headers of the program.

The headers are those of a Windows program in memory (PE32+; source of the format: Microsoft, "PE Format").
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from soulslab.arena.window.memory.code_plan import Block, CodePlan, assemble
from soulslab.arena.window.memory.memory_space import Space
from soulslab.arena.window.memory.objects import Objects
from soulslab.errors import LayoutError
from soulslab.siphon.profile import Profile

#: Size reserved for the headers.
HEADERS_SIZE = 0x1000
#: Preferred base address of 64-bit programs (Microsoft, "/BASE").
PREFERRED_BASE = 0x140000000

_HEADER_AT = 0x80
_OPTIONAL_SIZE = 112 + 16 * 8
_SECTIONS_AT = _HEADER_AT + 24 + _OPTIONAL_SIZE
_AMD64, _EXECUTABLE = 0x8664, 0x22
_PE32_PLUS, _WINDOWS_GUI = 0x20B, 2
_RESOURCES, _RT_VERSION, _NEUTRAL = 2, 16, 0x409
_IS_TABLE = 0x80000000
_SIGNATURE = 0xFEEF04BD
#: Flags of sections: executable code, writable data, read-only data.
CODE, DATA, CONSTANTS = 0x60000020, 0xC0000040, 0x40000040
MAX_SECTIONS = (HEADERS_SIZE - _SECTIONS_AT) // 40


class ProgramSection(msgspec.Struct, frozen=True):
    """A section of the program: a name of at most 8 characters, and `CODE`, `DATA` or `CONSTANTS` as its flags."""

    name: str
    start: int
    size: int
    flags: int


def headers(base: int, size: int, sections: Sequence[ProgramSection], resources: tuple[int, int]) -> bytes:
    """Return the headers of a program of at most `MAX_SECTIONS` sections; zeros mean that it has no resources."""
    start = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", _HEADER_AT)
    file_header = struct.pack("<4sHHIIIHH", b"PE\0\0", _AMD64, len(sections), 0, 0, 0, _OPTIONAL_SIZE, _EXECUTABLE)
    code = next((section for section in sections if section.flags == CODE), None)
    optional = struct.pack(
        "<HBBIIIIIQIIHHHHHHIIIIHHQQQQII",
        *(_PE32_PLUS, 14, 0),
        *((code.size, 0, 0, 0, code.start) if code else (0, 0, 0, 0, 0)),
        *(base, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0),
        *(size, HEADERS_SIZE, 0, _WINDOWS_GUI, 0),
        *(0x100000, 0x1000, 0x100000, 0x1000, 0, 16),
    )
    directories = bytearray(16 * 8)
    struct.pack_into("<II", directories, 8 * _RESOURCES, *resources)
    table = b"".join(
        struct.pack("<8sIIII12xI", one.name.encode(), one.size, one.start, one.size, one.start, one.flags)
        for one in sections
    )
    return start.ljust(_HEADER_AT, b"\0") + file_header + optional + bytes(directories) + table


def version_resource(start: int, version: Sequence[int]) -> bytes:
    """Return resources at an offset from the program's base that contain only a file version of four numbers."""
    tables = b""
    for level, name in enumerate((_RT_VERSION, 1, _NEUTRAL)):
        behind = 24 * (level + 1)
        leads_to = behind | _IS_TABLE if level < 2 else behind
        tables += struct.pack("<12xHHII", 0, 1, name, leads_to)
    major, minor, build, revision = version
    fixed = struct.pack("<IIHHHH9I", _SIGNATURE, 0x10000, minor, major, revision, build, *(0,) * 9)
    key = "VS_VERSION_INFO\0".encode("utf-16-le")
    value = struct.pack("<HHH", 6 + len(key) + 2 + len(fixed), len(fixed), 0) + key + b"\0\0" + fixed
    data_at = start + len(tables) + 16
    return tables + struct.pack("<IIII", data_at, len(value), 0, 0) + value


PAGE = 4096
ALIGNMENT = 16
#: Upper bound of the program's size; displacements reach 2 GiB.
MAX_PROGRAM = 0x6000_0000
#: Upper bound of a heap's size; it is mapped, but only touched pages take memory.
MAX_HEAP = 1 << 30
N_ATTEMPTS = 20
_VERSION = re.compile(r"\d+(\.\d+){0,3}")


class PlacedProgram(msgspec.Struct, frozen=True):
    """The placed program: offset of the origin of each space and block, content, sections and resources."""

    size: int
    starts: dict[Space | Block, int]
    content: list[tuple[int, bytes]]
    sections: tuple[ProgramSection, ...]
    resources: tuple[int, int]


def place_heap(spaces: Sequence[Space]) -> tuple[dict[Space, int], int]:
    """Place objects one after another; return the offset of each origin, and the size in bytes.

    Raises `LayoutError` if the objects need too much space.
    """
    starts: dict[Space, int] = {}
    end = 0
    for space in spaces:
        # Leave room for the header that an allocator keeps before each object.
        origin = _aligned(end + ALIGNMENT - space.low)
        starts[space], end = origin, origin + space.high
        if end > MAX_HEAP:
            raise _too_far(space, MAX_HEAP)
    return starts, _aligned(end, PAGE)


def place_program(profile: Profile, plan: CodePlan, objects: Objects) -> PlacedProgram:
    """Place all parts of the program.

    Raises `LayoutError` if a part is outside of the possible range of a program, or no code fits the patterns.
    """
    fixed = sorted((claim.offset, claim.end) for claim in objects.program.claims)
    for claim in objects.program.claims:
        if claim.offset < HEADERS_SIZE:
            raise LayoutError(
                f"lies at {claim.offset:+#x} from the program's base, in or before its headers", place=claim.owner
            )
        if claim.end > MAX_PROGRAM:
            raise _too_far(objects.program, MAX_PROGRAM)
    rng = np.random.default_rng(0)
    for attempt in range(N_ATTEMPTS):
        placer = _Placer(plan, objects, fixed)
        placer.place_code()
        data_at = placer.place_data(rng.integers(0, 256, 256).tolist() if attempt else [])
        try:
            code = assemble(plan, placer.starts, placer.runs)
        except LayoutError:
            if attempt == N_ATTEMPTS - 1:
                raise
            continue
        return _finished(profile, placer, [(run.start, bytes(run.code)) for run in code], data_at)
    raise AssertionError("there is at least one attempt")


class _Placer:
    """Places spaces one after another, around spaces with fixed positions."""

    def __init__(self, plan: CodePlan, objects: Objects, fixed: Sequence[tuple[int, int]]) -> None:
        self.starts: dict[Space | Block, int] = {objects.program: 0}
        self.runs: list[tuple[int, int]] = []
        self.end = HEADERS_SIZE
        self.fixed_end = max((end for _, end in fixed), default=0)
        self._plan = plan
        self._fixed = fixed

    def place_code(self) -> None:
        """Place the blocks of code, with gaps so large that no pattern reaches from one block to the next."""
        gap = max((block.high - block.low for block in self._plan.blocks), default=0)
        for block in self._plan.blocks:
            low, high = min(block.low, block.space.low), max(block.high, block.space.high)
            if high > MAX_PROGRAM or low < -MAX_PROGRAM:
                raise _too_far(block.space, MAX_PROGRAM)
            is_code_alone = (low, high) == (block.low, block.high)
            margin = gap if is_code_alone else 0
            start = self._room(low - margin, high + margin)
            self.starts[block.space] = self.starts[block] = start
            run = (start + block.low - margin, start + block.high + margin)
            if margin and self.runs and self.runs[-1][1] == run[0]:
                run = (self.runs.pop()[0], run[1])
            self.runs.append(run)
            self.end = start + high + margin

    def place_data(self, jitter: Sequence[int]) -> int:
        """Place the memory that displacements refer to; return its start."""
        self.end = begin = _aligned(self.end, PAGE)
        operands = [space for block in self._plan.blocks for space in block.operands.values()]
        for i, space in enumerate(operands):
            self.end += ALIGNMENT * (1 + (jitter[i % len(jitter)] if jitter else 0))
            anchor = space.claims[0].offset if space.claims else 0
            if max(space.high, -space.low) > MAX_PROGRAM:
                raise _too_far(space, MAX_PROGRAM)
            start = self._room(space.low, space.high + 8, anchor)
            self.starts[space], self.end = start, start + max(space.high, 0)
            if self.end > MAX_PROGRAM:
                raise _too_far(space, MAX_PROGRAM)
        return begin

    def _room(self, low: int, high: int, anchor: int | None = None) -> int:
        """Return the first origin after the end at which the space does not overlap a fixed one."""
        end = self.end
        while True:
            origin = _aligned(end - low + anchor) - anchor if anchor is not None else end - low
            hit = next((to for start, to in self._fixed if start < origin + high and origin + low < to), None)
            if hit is None:
                return origin
            end = hit


def _finished(profile: Profile, placer: _Placer, content: list[tuple[int, bytes]], data_at: int) -> PlacedProgram:
    """Add the resources and the sections."""
    end = _aligned(max(placer.end, placer.fixed_end, data_at) + 8, PAGE)
    sections = list(_sections(placer.runs, end))
    resources = (0, 0)
    if profile.process.versions:
        version = profile.process.versions[0]
        if not _VERSION.fullmatch(version) or any(int(part) > 0xFFFF for part in version.split(".")):
            raise LayoutError(
                f"is {version!r}; the version of a Windows program is four numbers up to 65535",
                place="process.versions[0]",
            )
        parts = ([int(part) for part in version.split(".")] + [0, 0, 0])[:4]
        data = version_resource(end, parts)
        resources = (end, len(data))
        content.append((end, data))
        sections.append(ProgramSection(".rsrc", end, len(data), CONSTANTS))
        end = _aligned(end + len(data), PAGE)
    if len(sections) > MAX_SECTIONS:
        raise LayoutError(
            f"needs {len(sections)} sections, but a program has at most {MAX_SECTIONS}; too many bases are relative "
            f"to their match itself",
            place="bases",
        )
    return PlacedProgram(end, placer.starts, content, tuple(sections), resources)


def _sections(runs: Sequence[tuple[int, int]], end: int) -> Iterator[ProgramSection]:
    """Yield the sections: code, and data in all gaps between."""
    at = HEADERS_SIZE
    n_code = n_data = 0
    for start, stop in [*runs, (end, end)]:
        if start > at:
            yield ProgramSection(f".data{n_data or ''}", at, start - at, DATA)
            n_data += 1
        if stop > start:
            yield ProgramSection(f".text{n_code or ''}", start, stop - start, CODE)
            n_code += 1
        at = stop


def _aligned(address: int, alignment: int = ALIGNMENT) -> int:
    return -(-address // alignment) * alignment


def _too_far(space: Space, limit: int) -> LayoutError:
    claim = max(space.claims, key=lambda claim: abs(claim.offset))
    return LayoutError(
        f"needs {claim.what} {claim.offset:+#x} bytes from the target of its last pointer; each part of the memory "
        f"must fit into {limit:#x} bytes",
        place=claim.owner,
    )
