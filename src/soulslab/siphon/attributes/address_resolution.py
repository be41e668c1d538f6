"""Resolution of the bases and code offsets of a profile in a running game, with one scan of its code."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from soulslab.config.checking import join_place
from soulslab.errors import PatternError
from soulslab.siphon.attributes.pattern_scan import N_SHOWN, CodeScan
from soulslab.siphon.memory import Memory, Region, chunks
from soulslab.siphon.process.image import Image, module_base
from soulslab.siphon.profile import Base, CodeOffset, Profile
from soulslab.siphon.profile.facts import facts_behind, is_for, variants_of
from soulslab.siphon.profile.pattern import Pattern

#: Wall time without a change after which code counts as complete.
STILL_S = 2.0

_log = logging.getLogger(__name__)


class ResolvedAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of the bases and values of the code offsets of a profile in one process.

    Attributes:
        bases: Address of each base *before* `Base.is_pointer` is followed. A game may set that pointer later, so the
            reader follows it as the first level of the chain.
        code_offsets: Value of each code offset, after `adjust`.
        missing: Error for each base or code offset that was not found and that the session does not need, by its place
            in the profile.
        version: Version of the executable; "" if it has none.
    """

    bases: dict[str, int]
    code_offsets: dict[str, int] = {}
    missing: dict[str, PatternError] = {}
    version: str = ""


def resolve_addresses(
    profile: Profile, memory: Memory, image: Image, *, allow_missing: bool = False
) -> ResolvedAddresses:
    """Find all bases and code offsets of a profile that are known for the version of the game.

    With `allow_missing`, every pattern that is not found is an error in `ResolvedAddresses.missing`.

    Raises:
        PatternError: An attribute has no other variant, and a pattern that it needs has no match, has several matches
            without `pick`, or leads to an implausible number. Not raised with `allow_missing`.
        ImageError: A module is not loaded.
        MemoryAccessError: A displacement or a number could not be read.
        ProcessExitedError: The process has ended.
    """
    sought = {one.place: one for one in _sought(profile, image.version)}
    ranges = image.code_ranges
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
    if missing and not allow_missing:
        may_miss = _dispensable(profile, image.version)
        mistakes = [mistake for place, mistake in missing.items() if place not in may_miss]
        if mistakes:
            raise _explain(mistakes, image, sum(end - start for start, end in ranges), n_unreadable)
    bases, code_offsets = (
        {one.name: found[place] for place, one in sought.items() if place in found and isinstance(one.fact, kind)}
        for kind in (Base, CodeOffset)
    )
    return ResolvedAddresses(bases=bases, code_offsets=code_offsets, missing=missing, version=image.version)


class CompleteCode:
    """Detects when the code of a started game is complete, so that a missing pattern is an error.

    The code of a native program is mapped at once. A Windows program may unpack or decrypt its code, in some games for
    seconds. The code counts as complete if it has not changed for `STILL_S` and the program is native or some patterns
    match.
    """

    def __init__(self, profile: Profile, memory: Memory) -> None:
        self._profile = profile
        self._memory = memory
        self._seen: tuple[int, int] | None = None
        self._since_s = 0.0

    def is_complete(self, image: Image) -> bool:
        """Return whether the code is complete; call it each time a pattern has no match."""
        seen, now_s = (image.base, self._checksum(image)), time.monotonic()
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        return now_s - self._since_s >= STILL_S and (image.kind == "elf" or self._has_some(image))

    def _checksum(self, image: Image) -> int:
        checksum = 0
        for _, data in chunks(self._memory, [Region(*ends, True, False, True, "") for ends in image.code_ranges]):
            checksum = zlib.crc32(data.data, checksum)
        return checksum

    def _has_some(self, image: Image) -> bool:
        """Return whether some patterns match, so that the code is not packed."""
        bases = resolve_addresses(self._profile, self._memory, image, allow_missing=True).bases
        return any(self._profile.bases[name].pattern for name in bases)


class _Sought(msgspec.Struct, frozen=True):
    """A base or a code offset to resolve: its place in the profile, its name in its table, and its definition."""

    place: str
    name: str
    fact: Base | CodeOffset

    def error(self, problem: str, addresses: Sequence[int] = (), field: str = "pattern") -> PatternError:
        """Return an error about this base or code offset."""
        place = f"{self.place}.{field}" if isinstance(self.fact, CodeOffset) else ""
        return PatternError(problem, base=self.name, addresses=addresses, place=place)


def _sought(profile: Profile, version: str) -> Iterator[_Sought]:
    for table in ("bases", "code_offsets"):
        facts: Mapping[str, Base | CodeOffset] = getattr(profile, table)
        for name, fact in facts.items():
            if is_for(profile, fact, version):
                yield _Sought(join_place(table, name), name, fact)


def _dispensable(profile: Profile, version: str) -> set[str]:
    """Return the places that are not required: attributes have other variants, or the version is unknown."""
    is_needed: dict[str, bool] = {}
    for attribute in profile.attributes.values():
        variants = [variant for variant in variants_of(attribute) if is_for(profile, variant, version)]
        for place in {place for variant in variants for place, _ in facts_behind(profile, variant)}:
            is_needed[place] = is_needed.get(place, False) or len(variants) == 1
    tried = {one.place for one in _sought(profile, version) if one.fact.versions and version not in one.fact.versions}
    return tried | {place for place, needed in is_needed.items() if not needed}


def _scan(
    sought: Mapping[str, _Sought],
    memory: Memory,
    ranges: Sequence[tuple[int, int]],
    missing: dict[str, PatternError],
) -> tuple[dict[str, list[int]], int]:
    """Return the matches of all patterns, by their places in the profile, and the number of unreadable bytes.

    `missing` receives the errors for patterns with too many matches.
    """
    patterns = {place: Pattern.parse(one.fact.pattern) for place, one in sought.items() if one.fact.pattern}
    while patterns:
        search = CodeScan(patterns, memory)
        try:
            search.run(ranges)
        except PatternError as error:  # names the place; the other patterns are searched again
            missing[error.base] = sought[error.base].error(error.problem, error.addresses)
            del patterns[error.base]
        else:
            return search.matches, search.n_unreadable
    return {}, 0


def _resolve(one: _Sought, matches: Sequence[int], memory: Memory, image: Image) -> int:
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
    data = memory.read(start + fact.at, int(fact.type[1:]) // 8)
    offset = int.from_bytes(data, "little", signed=fact.type[0] == "i") + fact.adjust
    low, high = fact.range
    if not low <= offset <= high:
        problem = (
            f"the code at {start:#x} gives {offset:#x}, which is outside its plausible range {low:#x} to {high:#x}"
        )
        raise one.error(f"{problem}; the pattern matches other code than it was made for", (start,), "range")
    return offset


def _explain(mistakes: Sequence[PatternError], image: Image, n_bytes: int, n_unreadable: int) -> PatternError:
    """Return the first error, with the searched code and the names of the other errors."""
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
