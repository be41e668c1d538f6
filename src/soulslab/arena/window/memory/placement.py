"""Placement of memory spaces in the program and on the heap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from soulslab.arena.window.memory.code_assembly import assemble
from soulslab.arena.window.memory.code_plan import Block, CodePlan
from soulslab.arena.window.memory.memory_space import Claim, Space
from soulslab.arena.window.memory.objects import Objects
from soulslab.arena.window.memory.program_headers import (
    CODE,
    CONSTANTS,
    DATA,
    HEADERS_SIZE,
    MAX_SECTIONS,
    ProgramSection,
    version_resource,
)
from soulslab.errors import LayoutError
from soulslab.siphon.profile import Profile

PAGE = 4096
ALIGNMENT = 16
#: Upper bound of the program's size; displacements reach 2 GiB.
MAX_PROGRAM = 0x6000_0000
#: Upper bound of a heap's size; it is mapped, but only touched pages take memory.
MAX_HEAP = 1 << 30
N_ATTEMPTS = 20
_VERSION = re.compile(r"\d+(\.\d+){0,3}")


class PlacedProgram(msgspec.Struct, frozen=True):
    """The placed program.

    Attributes:
        size: Size in bytes.
        starts: Offset of each space's origin, by its ``id``.
        content: Offsets and bytes of code and resources.
        sections: Its sections.
        resources: Start and size of the resources.
    """

    size: int
    starts: dict[int, int]
    content: list[tuple[int, bytes]]
    sections: tuple[ProgramSection, ...]
    resources: tuple[int, int]


def place_heap(spaces: Sequence[Space]) -> tuple[dict[int, int], int]:
    """Place objects one after another.

    Returns:
        The offset of each origin, by the space's ``id``, and the total size in bytes.

    Raises:
        LayoutError: The objects need too much space.
    """
    starts: dict[int, int] = {}
    end = 0
    for space in spaces:
        # Leave room for the header that an allocator keeps before each object.
        origin = _aligned(end + ALIGNMENT - space.low)
        starts[id(space)], end = origin, origin + space.high
        if end > MAX_HEAP:
            raise _too_far(max(space.claims, key=lambda claim: abs(claim.offset)), MAX_HEAP)
    return starts, _aligned(end, PAGE)


def place_program(profile: Profile, plan: CodePlan, objects: Objects) -> PlacedProgram:
    """Place all parts of the program.

    Raises:
        LayoutError: A part is outside of the possible range of a program, or no code fits the patterns.
    """
    fixed = sorted((claim.offset, claim.end) for claim in objects.program.claims)
    for claim in objects.program.claims:
        if claim.offset < HEADERS_SIZE:
            raise LayoutError(
                f"lies at {claim.offset:+#x} from the program's base, in or before its headers", place=claim.owner
            )
        if claim.end > MAX_PROGRAM:
            raise _too_far(claim, MAX_PROGRAM)
    rng = np.random.default_rng(0)
    for attempt in range(N_ATTEMPTS):
        placer = _Placer(plan, objects, fixed)
        placer.place_code()
        data_at = placer.place_data(rng.integers(0, 256, 256).tolist() if attempt else [])
        try:
            code = assemble(plan, placer.starts, placer.starts, placer.runs)
        except LayoutError:
            if attempt == N_ATTEMPTS - 1:
                raise
            continue
        return _finished(profile, placer, [(run.start, bytes(run.code)) for run in code], data_at)
    raise AssertionError("there is at least one attempt")


class _Placer:
    """Places spaces one after another, around spaces with fixed positions."""

    def __init__(self, plan: CodePlan, objects: Objects, fixed: Sequence[tuple[int, int]]) -> None:
        self.starts = {id(objects.program): 0}
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
                raise _too_far(max(block.space.claims, key=lambda claim: abs(claim.offset)), MAX_PROGRAM)
            is_code_alone = (low, high) == (block.low, block.high)
            margin = gap if is_code_alone else 0
            start = self._room(low - margin, high + margin)
            self.starts[id(block.space)] = self.starts[id(block)] = start
            self._add_run(block, start, margin)
            self.end = start + high + margin

    def _add_run(self, block: Block, start: int, margin: int) -> None:
        run = (start + block.low - margin, start + block.high + margin)
        if margin and self.runs and self.runs[-1][1] == run[0]:
            run = (self.runs.pop()[0], run[1])
        self.runs.append(run)

    def place_data(self, jitter: Sequence[int]) -> int:
        """Place the memory that displacements refer to; return its start."""
        self.end = begin = _aligned(self.end, PAGE)
        operands = [space for block in self._plan.blocks for space in block.operands.values()]
        for i, space in enumerate(operands):
            self.end += ALIGNMENT * (1 + (jitter[i % len(jitter)] if jitter else 0))
            anchor = space.claims[0].offset if space.claims else 0
            if max(space.high, -space.low) > MAX_PROGRAM:
                raise _too_far(max(space.claims, key=lambda claim: abs(claim.offset)), MAX_PROGRAM)
            start = self._room(space.low, space.high + 8, anchor)
            self.starts[id(space)], self.end = start, start + max(space.high, 0)
            if self.end > MAX_PROGRAM:
                raise _too_far(max(space.claims, key=lambda claim: abs(claim.offset)), MAX_PROGRAM)
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


def _too_far(claim: Claim, limit: int) -> LayoutError:
    return LayoutError(
        f"needs {claim.what} {claim.offset:+#x} bytes from the target of its last pointer; each part of the memory "
        f"must fit into {limit:#x} bytes",
        place=claim.owner,
    )
