"""Offsets that a profile reads from the game's code: numbers are chosen that its ranges and its patterns allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from soulslab.arena.window.memory.code import Block, CodePlan
from soulslab.config.checking import join_place
from soulslab.errors import LayoutError
from soulslab.siphon.profile import CodeOffset, Profile

N_BYTES = {"u8": 1, "i8": 1, "u32": 4, "i32": 4}
#: Preferred alignment of the offsets, as of the fields of objects.
ALIGNMENT = 4
#: Number of candidates that are tried from the least one on; objects of games are smaller.
MAX_TRIED = 2**16

Sought = tuple[str, CodeOffset]
"""Name and fact of a code offset."""


def put_numbers(plan: CodePlan, profile: Profile, given: Mapping[str, int], attempt: int) -> dict[str, int]:
    """Choose a number for each code offset.

    Args:
        plan: The code; the numbers become part of its blocks.
        profile: The profile with the code offsets.
        given: Required values of some code offsets.
        attempt: Index into the possible numbers, because some of them conflict with other facts.

    Returns:
        The value of each code offset as it will be found.

    Raises:
        LayoutError: No number is possible.
    """
    places: dict[tuple[int, int], tuple[Block, int, list[Sought]]] = {}
    for name, fact in profile.code_offsets.items():
        block, start = plan.matches[join_place("code_offsets", name)]
        at = start + fact.at
        places.setdefault((id(block), at), (block, at, []))[2].append((name, fact))
    found: dict[str, int] = {}
    for block, at, sought in places.values():
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
