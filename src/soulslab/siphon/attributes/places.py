"""The places that a profile names, found in a running game: all patterns in one pass over its code.

::

    places = resolve_places(profile, memory, read_image(memory, profile.process.executable))
    places.bases["world"], places.code_offsets["last_frame"]
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from soulslab.config.checking import join_place
from soulslab.errors import MemoryAccessError, PatternError
from soulslab.siphon.attributes.pattern_scan import BLOCK_SIZE, N_SHOWN, CodeScan
from soulslab.siphon.memory import Memory
from soulslab.siphon.process.image import Image, module_base
from soulslab.siphon.profile import Base, CodeOffset, Profile
from soulslab.siphon.profile.facts import facts_behind, is_for, ways_of
from soulslab.siphon.profile.pattern import Pattern

#: Wall time for which complete code stays the same.
STILL_S = 2.0
N_BYTES = {"u8": 1, "i8": 1, "u32": 4, "i32": 4}

_log = logging.getLogger(__name__)


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the facts of a profile lead in one process.

    Attributes:
        bases: Address of each base *before* `Base.is_pointer` is followed: a game may set that pointer later, so who
            reads follows it, as the first level of the chain.
        code_offsets: Each offset that the code holds, adjusted.
        missing: Why one was not found that the session can do without, by its place in the profile.
        version: Of the executable.
    """

    bases: dict[str, int]
    code_offsets: dict[str, int] = {}
    missing: dict[str, PatternError] = {}
    version: str = ""


def resolve_places(profile: Profile, memory: Memory, image: Image, *, allow_missing: bool = False) -> Places:
    """Find all bases and code offsets of a profile that are known for the version of the game.

    Args:
        profile: The game as data.
        memory: Its memory.
        image: Its executable.
        allow_missing: Note what is not found in `Places.missing`, whatever needs it.

    Raises:
        PatternError: A pattern was found nowhere, in several places of which none is picked, or with a number that is
            not plausible; and a value that needs it has no other way. Only without `allow_missing`.
        ImageError: A module is not loaded.
        MemoryAccessError: A displacement or a number could not be read.
        ProcessExitedError: The process has ended.
    """
    sought = {one.place: one for one in _sought(profile, image.version)}
    ranges = _code_ranges(image)
    missing: dict[str, PatternError] = {}
    matches, n_unreadable = _scan(sought, memory, ranges, missing)
    found: dict[str, int] = {}
    for place, one in sought.items():
        if place in missing:
            continue
        try:
            found[place] = _resolve(one, matches.get(place, ()), memory, image)
        except PatternError as mistake:
            missing[place] = mistake
    may_miss = set(sought) if allow_missing else _dispensable(profile, image.version)
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


class CompleteCode:
    """Whether the code of a game that was started is all there, so that a pattern that is not in it never will be.

    Native programs are mapped at once, and those of Windows may unpack or decrypt themselves, some of them after
    seconds. So the code of a native program, or code in which some patterns are found, counts as complete once it has
    stayed the same for `STILL_S`.

    Args:
        profile: The game as data.
        memory: Its memory.
    """

    def __init__(self, profile: Profile, memory: Memory) -> None:
        self._profile = profile
        self._memory = memory
        self._seen: tuple[int, int] | None = None
        self._since_s = 0.0

    def is_complete(self, image: Image) -> bool:
        """Return whether the code is complete; to be asked each time a pattern was not found.

        Raises:
            ProcessExitedError: The process has ended.
        """
        seen, now_s = (image.base, self._checksum(image)), time.monotonic()
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        return now_s - self._since_s >= STILL_S and (image.kind == "elf" or self._has_some(image))

    def _checksum(self, image: Image) -> int:
        """Return a checksum of the code; pages that cannot be read count as absent."""
        checksum, page = 0, bytearray(BLOCK_SIZE)
        for start, end in _code_ranges(image):
            for address in range(start, end, BLOCK_SIZE):
                part = memoryview(page)[: min(BLOCK_SIZE, end - address)]
                try:
                    self._memory.read_into(address, part)
                except MemoryAccessError:
                    continue
                checksum = zlib.crc32(part, checksum)
        return checksum

    def _has_some(self, image: Image) -> bool:
        """Return whether some patterns are found, so that the code is not packed."""
        bases = resolve_places(self._profile, self._memory, image, allow_missing=True).bases
        return any(self._profile.bases[name].pattern for name in bases)


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


def _code_ranges(image: Image) -> list[tuple[int, int]]:
    """Return start and end of each part of the code."""
    return [(section.start, section.start + section.size) for section in image.sections if section.is_executable]


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
    sought: Mapping[str, _Sought],
    memory: Memory,
    ranges: Sequence[tuple[int, int]],
    missing: dict[str, PatternError],
) -> tuple[dict[str, list[int]], int]:
    """Search for all patterns in one pass.

    Args:
        sought: What is to be found, by its place in the profile.
        memory: Of the game.
        ranges: Start and end of each part of its code.
        missing: Takes the patterns that are found in too many places.

    Returns:
        The matches of each, and how many bytes could not be read.
    """
    patterns = {place: Pattern.parse(one.fact.pattern) for place, one in sought.items() if one.fact.pattern}
    while patterns:
        search = CodeScan(patterns, memory)
        try:
            search.run(ranges)
        except PatternError as error:  # it knows the place for the name; the others are searched without it
            missing[error.base] = sought[error.base].error(error.problem, error.addresses)
            del patterns[error.base]
        else:
            return search.matches, search.n_unreadable
    return {}, 0


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
