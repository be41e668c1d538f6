"""The places that a profile names, found in a running game: all patterns in one pass over its code.

::

    places = resolve_places(profile, memory, read_image(memory, profile.process.executable))
    places.bases["world"], places.code_offsets["last_frame"]
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from soulslab.config.checking import join_place
from soulslab.errors import PatternError
from soulslab.siphon.code_scan import N_SHOWN, CodeScan
from soulslab.siphon.facts import facts_behind, is_for, ways_of
from soulslab.siphon.image import Image, module_base
from soulslab.siphon.memory import Memory
from soulslab.siphon.pattern import Pattern
from soulslab.siphon.profile import Base, CodeOffset, Profile

N_BYTES = {"u8": 1, "i8": 1, "u32": 4, "i32": 4}

_log = logging.getLogger(__name__)


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the facts of a profile lead in one process.

    Attributes:
        bases: Address of each base *before* `Base.is_pointer` is followed: a game may set that pointer later, so who
            reads follows it, as the first level of the chain.
        code_offsets: Each offset that the code holds, adjusted.
        missing: Why one was not found that only some of several ways lead through, by its place in the profile.
        version: Of the executable.
    """

    bases: dict[str, int]
    code_offsets: dict[str, int] = {}
    missing: dict[str, PatternError] = {}
    version: str = ""


def resolve_places(profile: Profile, memory: Memory, image: Image) -> Places:
    """Find all bases and code offsets of a profile that are known for the version of the game.

    Args:
        profile: The game as data.
        memory: Its memory.
        image: Its executable.

    Raises:
        PatternError: A pattern was found nowhere, in several places of which none is picked, or with a number that is
            not plausible; and a value that needs it has no other way.
        ImageError: A module is not loaded.
        MemoryAccessError: A displacement or a number could not be read.
        ProcessExitedError: The process has ended.
    """
    sought = {one.place: one for one in _sought(profile, image.version)}
    ranges = [(section.start, section.start + section.size) for section in image.sections if section.is_executable]
    matches, n_unreadable = _scan(sought, memory, ranges)
    found: dict[str, int] = {}
    missing: dict[str, PatternError] = {}
    for place, one in sought.items():
        try:
            found[place] = _resolve(one, matches.get(place, ()), memory, image)
        except PatternError as mistake:
            missing[place] = mistake
    may_miss = _dispensable(profile, image.version)
    mistakes = [mistake for place, mistake in missing.items() if place not in may_miss]
    if mistakes:
        raise _explain(mistakes, image, sum(end - start for start, end in ranges), n_unreadable)
    return Places(
        bases={sought[place].name: found[place] for place in found if isinstance(sought[place].fact, Base)},
        code_offsets={
            sought[place].name: found[place] for place in found if isinstance(sought[place].fact, CodeOffset)
        },
        missing=missing,
        version=image.version,
    )


class _Sought(msgspec.Struct, frozen=True):
    """A base or a code offset that is to be found.

    Attributes:
        place: In the profile.
        name: In its table.
        fact: What the profile says.
    """

    place: str
    name: str
    fact: Base | CodeOffset

    def error(self, problem: str, addresses: Sequence[int] = (), field: str = "pattern") -> PatternError:
        """Return the error about it."""
        place = f"{self.place}.{field}" if isinstance(self.fact, CodeOffset) else ""
        return PatternError(problem, base=self.name, addresses=addresses, place=place)


def _sought(profile: Profile, version: str) -> Iterator[_Sought]:
    """Yield what is to be found in a version."""
    for table in ("bases", "code_offsets"):
        facts: Mapping[str, Base | CodeOffset] = getattr(profile, table)
        for name, fact in facts.items():
            if is_for(profile, fact, version):
                yield _Sought(join_place(table, name), name, fact)


def _dispensable(profile: Profile, version: str) -> set[str]:
    """Return the places that values have another way than through, or that are tried on an unknown version."""
    is_needed: dict[str, bool] = {}
    for attribute in profile.attributes.values():
        ways = [way for way in ways_of(attribute) if is_for(profile, way, version)]
        for place in {place for way in ways for place, _ in facts_behind(profile, way)}:
            is_needed[place] = is_needed.get(place, False) or len(ways) == 1
    tried = {one.place for one in _sought(profile, version) if one.fact.versions and version not in one.fact.versions}
    return tried | {place for place, needed in is_needed.items() if not needed}


def _scan(
    sought: Mapping[str, _Sought], memory: Memory, ranges: Sequence[tuple[int, int]]
) -> tuple[dict[str, list[int]], int]:
    """Search for all patterns in one pass; return the matches of each, and how many bytes could not be read."""
    patterns = {place: Pattern.parse(one.fact.pattern) for place, one in sought.items() if one.fact.pattern}
    if not patterns:
        return {}, 0
    search = CodeScan(patterns, memory)
    try:
        search.run(ranges)
    except PatternError as error:  # it knows the place for the name
        raise sought[error.base].error(error.problem, error.addresses) from error
    return search.matches, search.n_unreadable


def _resolve(one: _Sought, matches: Sequence[int], memory: Memory, image: Image) -> int:
    """Return the address of a base, or the number of a code offset."""
    fact = one.fact
    start = _pick(one, matches) if fact.pattern else 0
    if isinstance(fact, CodeOffset):
        return _number(one, fact, start, memory)
    if fact.offset is not None:
        start = (module_base(memory, fact.module) if fact.module else image.base) + fact.offset
    elif fact.displacement_at is not None and fact.instruction_end is not None:
        displacement = memory.read(start + fact.displacement_at, 4)
        start += fact.instruction_end + int.from_bytes(displacement, "little", signed=True)
    return start + fact.adjust


def _pick(one: _Sought, matches: Sequence[int]) -> int:
    """Return the match that counts."""
    pattern, pick = one.fact.pattern, one.fact.pick
    if not matches:
        raise one.error(f"{pattern!r} was found nowhere")
    listed = ", ".join(f"{address:#x}" for address in matches[:N_SHOWN]) + (", ..." if len(matches) > N_SHOWN else "")
    where = f"{pattern!r} was found in {len(matches)} places: {listed}"
    if pick is None and len(matches) > 1:
        raise one.error(f"{where}; make it longer, or choose one with pick", matches)
    if pick is not None and pick >= len(matches):
        raise one.error(f"{where}; pick counts from 0 and is {pick}", matches, "pick")
    if len(matches) > 1:
        _log.info("%s: %s; number %d is taken, counted from 0", one.place, where, pick)
    return matches[pick or 0]


def _number(one: _Sought, fact: CodeOffset, start: int, memory: Memory) -> int:
    """Return the offset that the code holds."""
    data = memory.read(start + fact.at, N_BYTES[fact.type])
    offset = int.from_bytes(data, "little", signed=fact.type[0] == "i") + fact.adjust
    low, high = fact.range
    if not low <= offset <= high:
        problem = (
            f"the code at {start:#x} gives {offset:#x}, which is outside its plausible range {low:#x} to {high:#x}"
        )
        raise one.error(f"{problem}; the pattern matches other code than it was made for", (start,), "range")
    return offset


def _explain(mistakes: Sequence[PatternError], image: Image, n_bytes: int, n_unreadable: int) -> PatternError:
    """Return the first of the mistakes, with what was searched and what else is wrong."""
    first = mistakes[0]
    parts = [
        first.problem,
        f"searched {n_bytes / 1e6:.1f} MB of code of {image.path}, version {image.version or 'unknown'}",
    ]
    if not first.addresses:
        parts.append("the profile may be made for another version")
        if n_unreadable:
            parts.append(f"{n_unreadable} bytes of the code could not be read and were left out")
    if len(mistakes) > 1:
        parts.append(f"wrong, too: {', '.join(repr(mistake.base) for mistake in mistakes[1:])}")
    return PatternError("; ".join(parts), base=first.base, addresses=first.addresses, place=first.place)
