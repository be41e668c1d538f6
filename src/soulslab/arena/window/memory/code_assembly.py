"""Assembly of the program's code: chooses the bytes that patterns leave open so that no pattern has extra matches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from soulslab.arena.window.memory.code_plan import DISPLACEMENT_SIZE, Block, CodePlan, Wanted
from soulslab.errors import LayoutError

#: Each round redraws one byte of each extra match. Patterns of a single byte need several rounds.
N_ROUNDS = 400


@dataclass(eq=False, slots=True)
class Run:
    """Contiguous code: a section of the program.

    Attributes:
        start: Its address, relative to the program's base like all addresses here.
        code: Its bytes.
        masks: Mask of the bits that are fixed.
    """

    start: int
    code: bytearray
    masks: bytearray


def assemble(
    plan: CodePlan, starts: Mapping[int, int], operands: Mapping[int, int], ranges: Sequence[tuple[int, int]]
) -> list[Run]:
    """Generate the code.

    Args:
        plan: Blocks and patterns of the code.
        starts: Address of each block, by its ``id``.
        operands: Address of the memory that each displacement refers to, by its ``id``.
        ranges: Start and end of each run; each block is inside one of them.

    Raises:
        LayoutError: No code was found for these addresses.
    """
    rng = np.random.default_rng(len(ranges))
    runs = [Run(start, bytearray(rng.bytes(end - start)), bytearray(end - start)) for start, end in ranges]
    for block in plan.blocks:
        _write(block, starts[id(block)], operands, runs)
    expressions = [re.compile(b"(?=%b)" % one.core.expression, re.DOTALL) for one in plan.wanted]
    wanted = [{starts[id(block)] + position for block, position in one.matches} for one in plan.wanted]
    for _ in range(N_ROUNDS):
        is_clean = True
        for one, expression, places in zip(plan.wanted, expressions, wanted, strict=True):
            for run in runs:
                for match in expression.finditer(bytes(run.code)):
                    if run.start + match.start() not in places:
                        _redraw_byte(run, match.start(), one, rng)
                        is_clean = False
        if is_clean:
            return runs
    raise _extra_match_error(plan.wanted[0])


def _write(block: Block, start: int, operands: Mapping[int, int], runs: Sequence[Run]) -> None:
    """Write the fixed bytes of a block, its numbers, and its displacements."""
    run = next(run for run in runs if run.start <= start + block.low < run.start + len(run.code))
    for i, (value, mask) in enumerate(zip(block.core.values, block.core.masks, strict=True)):
        at = start + i - run.start
        run.code[at] = value | (run.code[at] & ~mask)
        run.masks[at] = mask
    for position, data in block.numbers.items():
        at = start + position - run.start
        run.code[at : at + len(data)] = data
        run.masks[at : at + len(data)] = b"\xff" * len(data)
    for position, target in block.operands.items():
        at = start + position - run.start
        displacement = operands[id(target)] - (start + position + DISPLACEMENT_SIZE)
        run.code[at : at + DISPLACEMENT_SIZE] = displacement.to_bytes(DISPLACEMENT_SIZE, "little", signed=True)
        run.masks[at : at + DISPLACEMENT_SIZE] = b"\xff" * DISPLACEMENT_SIZE


def _redraw_byte(run: Run, at: int, one: Wanted, rng: np.random.Generator) -> None:
    """Redraw a byte of a match."""
    free = [i for i, mask in enumerate(one.core.masks) if mask & ~run.masks[at + i]]
    if not free:
        raise _extra_match_error(one)
    i = at + int(rng.choice(free))
    fixed = run.masks[i]
    run.code[i] = (run.code[i] & fixed) | (int(rng.integers(256)) & ~fixed)


def _extra_match_error(one: Wanted) -> LayoutError:
    return LayoutError(
        "its pattern is too weak: no code was found in which it has no extra matches; make it longer",
        place=one.seekers[0].place,
    )
