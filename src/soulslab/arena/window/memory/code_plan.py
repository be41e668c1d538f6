"""The program's code: each pattern of a profile has as many matches as its facts require, and no others.

A *block* is the code that is generated for one pattern. A pattern whose fixed bits are all fixed inside another block
matches there, and gets no block. For the offsets that a profile reads from the code, numbers are chosen that the ranges
and the patterns of the profile allow. `assemble` chooses the bytes that patterns leave open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from soulslab.arena.window.memory.memory_space import Claim, Space
from soulslab.config.checking import join_place
from soulslab.errors import LayoutError
from soulslab.siphon.profile import Base, CodeOffset, Profile
from soulslab.siphon.profile.pattern import Pattern

DISPLACEMENT_SIZE = 4
#: Upper bound of the matches of a pattern; the scan rejects patterns with more.
MAX_COPIES = 256
N_BYTES = {"u8": 1, "i8": 1, "u32": 4, "i32": 4}
#: Preferred alignment of the offsets, as of the fields of objects.
ALIGNMENT = 4
#: Number of candidates that are tried from the least one on; objects of games are smaller.
MAX_TRIED = 2**16

Sought = tuple[str, CodeOffset]
"""Name and fact of a code offset."""


@dataclass(frozen=True, slots=True)
class Seeker:
    """A base or a code offset that is found by a pattern.

    It uses the match with index ``pick``; ``lead`` is the number of wildcards before the core of its pattern.
    """

    place: str
    pick: int
    lead: int
    length: int


@dataclass(eq=False, slots=True)
class Wanted:
    """A pattern without the wildcards at its ends, and the facts that use it.

    ``only`` is the place of a fact that allows only one match, or "". ``matches`` has block and position in it of each
    match of the core, in ascending order.
    """

    core: Pattern
    seekers: list[Seeker] = field(default_factory=list)
    n_copies: int = 1
    only: str = ""
    matches: list[tuple[Block, int]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Block:
    """Code for one pattern, from ``low`` to ``high``. Positions are relative to the start of its core.

    Attributes:
        owner: Place in the profile of the base that it was generated for.
        space: The memory around it, for bases that are relative to the match itself.
        operands: Memory that the displacement at a position refers to. Its origin is the position at which a
            displacement of 0 would have to end for the instruction to refer to it.
        numbers: Bytes of the code offset at a position.
    """

    owner: str
    core: Pattern
    low: int
    high: int
    space: Space
    operands: dict[int, Space] = field(default_factory=dict)
    numbers: dict[int, bytes] = field(default_factory=dict)

    def operand(self, position: int, owner: str) -> Space:
        """Return the memory that a displacement refers to.

        Raises `LayoutError` if its bytes are fixed, or overlap another displacement.
        """
        if position not in self.operands:
            masks = [self.core.masks[i] for i in range(position, position + 4) if 0 <= i < len(self.core)]
            near = [other for other in self.operands if abs(other - position) < DISPLACEMENT_SIZE]
            near += [at for at, data in self.numbers.items() if -len(data) < at - position < DISPLACEMENT_SIZE]
            if any(masks) or near:
                raise LayoutError(
                    f"has its displacement where {self.owner} fixes the bytes; make one of the patterns longer",
                    place=owner,
                    other=self.owner,
                )
            self.operands[position] = Space(owner)
        return self.operands[position]

    def fits(self, position: int, data: bytes) -> bool:
        """Return whether these bytes are possible: they have to equal all bits that the pattern or a number fixes."""
        for i, byte in enumerate(data, start=position):
            mask, value = (self.core.masks[i], self.core.values[i]) if 0 <= i < len(self.core) else (0, 0)
            others = [other[i - at] for at, other in self.numbers.items() if at <= i < at + len(other)]
            if byte & mask != value or any(other != byte for other in others):
                return False
        return True


class CodePlan:
    """The blocks, and the match in them for each base and each code offset.

    ``wanted`` has the patterns; a pattern that may contain others comes before them. ``blocks`` are in ascending order
    of their addresses. ``matches`` has block and position of the match of each fact, by its place in the profile. A
    pattern that must match once but also matches inside several others raises `LayoutError`.
    """

    def __init__(self, profile: Profile) -> None:
        self.blocks: list[Block] = []
        self.matches: dict[str, tuple[Block, int]] = {}
        self.wanted = sorted(
            _wanted(profile), key=lambda one: (-len(one.core), -sum(mask.bit_count() for mask in one.core.masks))
        )
        for one in self.wanted:
            self._place(one)
        order = {block: index for index, block in enumerate(self.blocks)}
        for one in self.wanted:
            one.matches.sort(key=lambda match: (order[match[0]], match[1]))
            for seeker in one.seekers:
                # The matches before the picked one count only if the whole pattern is in the code, with its wildcards.
                for block, position in one.matches[: seeker.pick + 1]:
                    start = position - seeker.lead
                    block.low, block.high = min(block.low, start), max(block.high, start + seeker.length)
                self.matches[seeker.place] = (block, start)
        for block in self.blocks:
            block.space.claim(Claim(block.low, block.high - block.low, "code", "its code", block.owner))

    def _place(self, one: Wanted) -> None:
        """Find the matches of a pattern in the existing blocks; add blocks for the missing ones."""
        one.matches = [(block, shift) for block in self.blocks for shift in _forced(one.core, block.core)]
        place = one.seekers[0].place
        if one.only and len(one.matches) > 1:
            holders = [block.owner for block, _ in one.matches]
            raise LayoutError(
                f"must match once, but the code of {' and '.join(holders)} also matches it; give it a pick, "
                f"or make its pattern longer",
                place=one.only,
                other=holders[0],
            )
        for _ in range(one.n_copies - len(one.matches)):
            block = Block(place, one.core, 0, len(one.core), Space(f"the code of {place}"))
            self.blocks.append(block)
            one.matches.append((block, 0))


def _wanted(profile: Profile) -> list[Wanted]:
    """Return the patterns of a profile; patterns that differ only by wildcards at their ends are merged."""
    found: dict[Pattern, Wanted] = {}
    picked: dict[Pattern, str] = {}
    facts: dict[str, Base | CodeOffset] = {
        join_place("bases", name): base for name, base in profile.bases.items() if base.pattern
    }
    facts |= {join_place("code_offsets", name): one for name, one in profile.code_offsets.items()}
    for place, fact in facts.items():
        pattern, pick = Pattern.parse(fact.pattern), fact.pick or 0
        core, lead = _trimmed(pattern)
        one = found.setdefault(core, Wanted(core))
        one.seekers.append(Seeker(place, pick, lead, len(pattern)))
        if pick >= MAX_COPIES:
            raise LayoutError(f"is {pick}; the maximum is {MAX_COPIES - 1}", place=f"{place}.pick")
        one.n_copies = max(one.n_copies, pick + 1)
        if fact.pick is None:
            one.only = one.only or place
        elif pick:
            picked[core] = place
        if one.only and core in picked:
            raise LayoutError(
                f"must match once, but {picked[core]} picks a later match of the same pattern",
                place=one.only,
                other=picked[core],
            )
    return list(found.values())


def _trimmed(pattern: Pattern) -> tuple[Pattern, int]:
    """Return a pattern without the wildcards at its ends, and the number of those at its start."""
    fixed = [i for i, mask in enumerate(pattern.masks) if mask]
    first, last = fixed[0], fixed[-1] + 1
    return Pattern(pattern.values[first:last], pattern.masks[first:last]), first


def _forced(inner: Pattern, outer: Pattern) -> Iterator[int]:
    """Yield the positions in one pattern at which each of its matches necessarily contains a match of another."""
    for shift in range(len(outer) - len(inner) + 1):
        values, masks = outer.values[shift : shift + len(inner)], outer.masks[shift : shift + len(inner)]
        if all(
            mask & have == mask and value == bits & mask
            for value, mask, bits, have in zip(inner.values, inner.masks, values, masks, strict=True)
        ):
            yield shift


def put_numbers(plan: CodePlan, profile: Profile, given: Mapping[str, int], attempt: int) -> dict[str, int]:
    """Choose a number for each code offset, and make it part of its block; return the values as they will be found.

    ``given`` has the required values of some code offsets. ``attempt`` is the index into the possible numbers, because
    some of them conflict with other facts. Raises `LayoutError` if no number is possible.
    """
    places: dict[tuple[Block, int], list[Sought]] = {}
    for name, fact in profile.code_offsets.items():
        block, start = plan.matches[join_place("code_offsets", name)]
        places.setdefault((block, start + fact.at), []).append((name, fact))
    found: dict[str, int] = {}
    for (block, at), sought in places.items():
        possible = _possible(block, at, sought, given)
        number = possible[attempt % len(possible)]
        # The longest number contains the bytes of the others.
        block.numbers[at] = max((_stored(number, fact) for _, fact in sought), key=len)
        found |= {name: number + fact.adjust for name, fact in sought}
    return found


def _possible(block: Block, at: int, sought: Sequence[Sought], given: Mapping[str, int]) -> list[int]:
    """Return the numbers that are possible at a position, multiples of the alignment first."""
    low = max(max(fact.range[0], given.get(name, fact.range[0])) - fact.adjust for name, fact in sought)
    high = min(min(fact.range[1], given.get(name, fact.range[1])) - fact.adjust for name, fact in sought)
    fit = [number for number in range(low, min(high, low + MAX_TRIED) + 1) if _fits(number, block, at, sought)]
    if not fit:
        name, others = sought[0][0], [join_place("code_offsets", name) for name, _ in sought[1:]]
        raise LayoutError(
            f"no number in its range{' and in that of ' + others[0] if others else ''} fits the code around it",
            place=f"{join_place('code_offsets', name)}.range",
            other=others[0] if others else block.owner,
        )
    return sorted(fit, key=lambda number: number % ALIGNMENT != 0)


def _fits(number: int, block: Block, at: int, sought: Sequence[Sought]) -> bool:
    """Return whether the code can contain a number such that all its readers read it."""
    try:
        stored = [_stored(number, fact) for _, fact in sought]
    except OverflowError:
        return False
    longest = max(stored, key=len)
    return all(longest.startswith(data) for data in stored) and block.fits(at, longest)


def _stored(number: int, fact: CodeOffset) -> bytes:
    return number.to_bytes(N_BYTES[fact.type], "little", signed=fact.type[0] == "i")


#: Each round redraws one byte of each extra match. Patterns of a single byte need several rounds.
N_ROUNDS = 400


@dataclass(eq=False, slots=True)
class Run:
    """Contiguous code: a section of the program, with a mask of the fixed bits. Addresses are relative to its base."""

    start: int
    code: bytearray
    masks: bytearray

    def fix(self, address: int, data: bytes, masks: bytes) -> None:
        """Set the bits of the code that masks select."""
        for at, (value, mask) in enumerate(zip(data, masks, strict=True), start=address - self.start):
            self.code[at] = value | (self.code[at] & ~mask)
            self.masks[at] = mask


def assemble(plan: CodePlan, starts: Mapping[Block | Space, int], ranges: Sequence[tuple[int, int]]) -> list[Run]:
    """Generate the code of ``ranges``, (start, end) each; each block is inside one of them.

    ``starts`` has the address of each block, and of the memory that each displacement refers to. Raises `LayoutError`
    if no code was found for these addresses.
    """
    rng = np.random.default_rng(len(ranges))
    runs = [Run(start, bytearray(rng.bytes(end - start)), bytearray(end - start)) for start, end in ranges]
    for block in plan.blocks:
        _write(block, starts, runs)
    expressions = [re.compile(b"(?=%b)" % one.core.expression, re.DOTALL) for one in plan.wanted]
    wanted = [{starts[block] + position for block, position in one.matches} for one in plan.wanted]
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


def _write(block: Block, starts: Mapping[Block | Space, int], runs: Sequence[Run]) -> None:
    """Write the fixed bytes of a block, its numbers, and its displacements."""
    start = starts[block]
    run = next(run for run in runs if run.start <= start + block.low < run.start + len(run.code))
    run.fix(start, block.core.values, block.core.masks)
    written = dict(block.numbers)
    for position, target in block.operands.items():
        displacement = starts[target] - (start + position + DISPLACEMENT_SIZE)
        written[position] = displacement.to_bytes(DISPLACEMENT_SIZE, "little", signed=True)
    for position, data in written.items():
        run.fix(start + position, data, b"\xff" * len(data))


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
