"""Self-check of a profile on a running game: can every attribute be read, and does its value match its facts?

The check prevents an agent from writing to wrong addresses of a game version that the profile does not support.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from soulslab.arena.binding import Binding
from soulslab.errors import AttributeVersionError, ConfigError, SelfCheckError, UnknownAttributeError
from soulslab.siphon.attributes.alternatives import Finding
from soulslab.siphon.profile import Attribute, Profile, Value
from soulslab.siphon.profile.facts import variants_of, versions_of
from soulslab.siphon.session import Session

#: Relative tolerance when comparing two sources of an attribute; one may be stored with lower precision.
TOLERANCE = 1e-5


class Verdict(enum.Enum):
    """Result for an attribute."""

    OK = "ok"
    OUT_OF_RANGE = "out of range"
    NOT_LOADED = "not loaded"
    UNREADABLE = "cannot be read"
    STANDS = "does not move"
    CHANGES = "does not hold"
    DISAGREE = "two sources disagree"
    OTHER_VERSION = "unknown for this version"


class AlternativeCheck(msgspec.Struct, frozen=True, eq=False):
    """Result for an alternative source of an attribute; the detail is the value, or the reason for the failure."""

    source: str
    outcome: Literal["agrees", "disagrees", "fails"]
    detail: str


class AttributeCheck(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Result for one attribute.

    Attributes:
        name: Name of the attribute.
        verdict: ``OK``, or the first problem. ``NOT_LOADED`` means that a pointer is null or an entity does not exist,
            as before a character is loaded; ``UNREADABLE`` means that the pointer chain is broken.
        reason: The reason, with the pointer, the values or the sources; "" for ``OK``.
        is_needed: The caller named it, or the fight of the profile needs it.
        address: Address at the last read; 0 if the chain could not be followed.
        value: Last value; None if it could not be read.
        unit: Unit of the value; "" for a pure number.
        source: Source of the alternative in use, or of the first one.
        others: Results for the other alternatives.
        versions: Game versions that have this attribute; empty if the profile lists no versions.
        is_writable: The profile allows writes. The check does not write.
    """

    name: str
    verdict: Verdict
    reason: str = ""
    is_needed: bool
    address: int = 0
    value: Value = None
    unit: str = ""
    source: str = ""
    others: tuple[AlternativeCheck, ...] = ()
    versions: tuple[str, ...] = ()
    is_writable: bool = False


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Result of a self-check of a profile on a running game.

    Attributes:
        game: Name of the profile.
        version: Version of the executable; "" if it has none.
        is_known_version: The profile lists the version, or lists no versions.
        span_s: Game time between the first and the last read.
        n_looks: Number of times that all attributes were read.
        rows: One for each attribute, in the order of the profile.
    """

    game: str
    version: str
    is_known_version: bool
    span_s: float
    n_looks: int
    rows: tuple[AttributeCheck, ...]

    @property
    def is_ok(self) -> bool:
        """Whether all needed attributes are OK."""
        return not any(row.is_needed and row.verdict is not Verdict.OK for row in self.rows)

    def require(self, *names: str, may_be_loading: bool = False) -> None:
        """Raise `SelfCheckError` if attributes failed; without names, those with ``is_needed``.

        With `may_be_loading`, attributes that are not loaded yet are accepted, too.
        """
        rows = {row.name: row for row in self.rows}
        wanted = names or tuple(row.name for row in self.rows if row.is_needed)
        passing = {Verdict.OK, Verdict.NOT_LOADED} if may_be_loading else {Verdict.OK}
        for name in wanted:
            if name not in rows:
                raise UnknownAttributeError(name, rows)
        failed = [rows[name] for name in dict.fromkeys(wanted) if rows[name].verdict not in passing]
        if failed:
            raise SelfCheckError(self.game, {row.name: f"{row.verdict.value} ({row.reason})" for row in failed})


def needed_by(profile: Profile) -> tuple[str, ...]:
    """Return the attributes that a fight and its clock need; all attributes if the profile has no ``[duel]`` table.

    Raises `ProfileError` if the ``[duel]`` table is malformed.
    """
    if profile.duel is None:
        return tuple(profile.attributes)
    clock = profile.clock
    of_frames = (clock.frame_rate_attribute, clock.frame_rate_flag, clock.frame_time_attribute)
    of_clock = (clock.tick_attribute, clock.speed_attribute, clock.game_time_attribute, *of_frames)
    of_duel = Binding(profile.duel, profile.attributes).attributes.values()
    return tuple(dict.fromkeys((*of_duel, *(name for name in of_clock if name))))


def check_session(
    session: Session,
    needed: Sequence[str] | None = None,
    *,
    span_s: float = 1.0,
    n_looks: int = 5,
    only_needed: bool = False,
) -> SelfCheck:
    """Check every attribute of a profile on a running game, without writing to its memory.

    A lockstep clock is advanced between the reads; afterwards it runs or is stopped as before. Games with other clocks,
    and games of read-only sessions, keep running.

    Args:
        session: The session.
        needed: Attributes that have to be OK; None uses `needed_by`.
        span_s: Game time from the first to the last read, more than 0.
        n_looks: Number of reads, at least 2.
        only_needed: Check only the attributes that have to be OK.

    Raises:
        ConfigError: ``span_s`` or ``n_looks`` is too small.
        SiphonError: The session failed: the game has exited, its clock stalled, or the server cannot be reached.
    """
    if not span_s > 0 or n_looks < 2:
        raise ConfigError(f"the self-check needs n_looks >= 2 and span_s > 0, not {n_looks} and {span_s:g}")
    profile = session.profile
    wanted = tuple(needed) if needed is not None else needed_by(profile)
    for name in wanted:
        if name not in profile.attributes:
            raise UnknownAttributeError(name, profile.attributes)
    names = wanted if only_needed else None
    try:
        looks = [session.examine(names)]
    except AttributeVersionError:  # the row of that attribute states its versions
        names, looks = None, [session.examine()]
    passed_s = 0.0
    for _ in range(n_looks - 1):
        passed_s += _pass_time(session, span_s / (n_looks - 1))
        looks.append(session.examine(names))
    info = session.info
    readings = [
        _Readings(profile, name, tuple(look.get(name, ()) for look in looks), info.version, passed_s)
        for name in (profile.attributes if names is None else names)
    ]
    rows = tuple(
        _check_attribute(seen, is_needed=seen.name in wanted, held=info.sources.get(seen.name, "")) for seen in readings
    )
    return SelfCheck(
        game=profile.name,
        version=info.version,
        is_known_version=not profile.process.versions or info.version in profile.process.versions,
        span_s=passed_s,
        n_looks=n_looks,
        rows=rows,
    )


def _pass_time(session: Session, seconds: float) -> float:
    """Let game time pass without writing to memory; return the elapsed game time."""
    clock = session.clock
    speed = clock.speed
    if clock.grade == "lockstep" and not session.info.is_read_only:
        elapsed_s = clock.advance(seconds).elapsed_s
        if speed > 0:
            clock.run(speed)
        return elapsed_s
    # Stepping a scaled clock would write the game's speed; realtime clocks and read-only sessions can only wait.
    time.sleep(seconds)
    return seconds * speed


# --- verdicts -----------------------------------------------------------------------------------------------


class _Readings(msgspec.Struct, frozen=True, eq=False):
    """Readings of one attribute: for each read, the finding of each alternative; none if the version lacks it."""

    profile: Profile
    name: str
    looks: tuple[tuple[Finding, ...], ...]
    version: str
    passed_s: float

    @property
    def facts(self) -> Attribute:
        """The attribute in the profile."""
        return self.profile.attributes[self.name]

    @property
    def versions(self) -> tuple[str, ...]:
        """Game versions for which the attribute has at least one alternative."""
        of = {version for one in variants_of(self.facts) for version in versions_of(self.profile, one)}
        return tuple(version for version in self.profile.process.versions if version in of)

    def first_flawless(self) -> int:
        """Return the index of the first alternative that had no problem at any read, otherwise 0."""
        indices = range(len(self.looks[0]))
        return next((index for index in indices if not any(look[index].trouble for look in self.looks)), 0)


def _check_attribute(seen: _Readings, *, is_needed: bool, held: str) -> AttributeCheck:
    """Return the result for an attribute."""
    facts = seen.facts
    row = AttributeCheck(
        name=seen.name,
        verdict=Verdict.OTHER_VERSION,
        reason=f"it is known for {', '.join(seen.versions) or 'no version'}, but this is {seen.version or 'unknown'}",
        is_needed=is_needed,
        unit=facts.unit,
        source=facts.source,
        versions=seen.versions,
        is_writable=facts.is_writable,
    )
    if not seen.looks[0]:
        return row
    first = seen.looks[0]
    index = next((i for i, finding in enumerate(first) if finding.source == held), seen.first_flawless())
    others = tuple(_alternatives(seen, index))
    last = seen.looks[-1][index]
    contrary = [f"{other.source} gives {other.detail}" for other in others if other.outcome == "disagrees"]
    verdict, reason = _verdict(seen, index, contrary)
    found = {"address": last.address, "value": last.value, "source": last.source}
    return msgspec.structs.replace(row, verdict=verdict, reason=reason, others=others, **found)


def _verdict(seen: _Readings, index: int, contrary: Sequence[str]) -> tuple[Verdict, str]:
    """Return the first problem of the alternative in use, and the reason."""
    findings = [look[index] for look in seen.looks]
    troubled = next((finding for finding in findings if finding.trouble), None)
    if troubled is not None:
        all_problems = "; ".join(dict.fromkeys(look.problem for look in seen.looks[0] if look.problem))
        return _TROUBLES[troubled.trouble], all_problems if seen.looks[0][index].trouble else troubled.problem
    values = [finding.value for finding in findings]
    other = next((value for value in values if not np.array_equal(value, values[0])), None)
    if seen.facts.is_moving and other is None:
        return Verdict.STANDS, (
            f"it stayed at {values[0]!r} for {seen.passed_s:.2g} s of game time; is the game paused or in a menu?"
        )
    if seen.facts.is_holding and other is not None:
        return Verdict.CHANGES, f"it was {values[0]!r}, then {other!r}, within {seen.passed_s:.2g} s of game time"
    if contrary:
        return Verdict.DISAGREE, f"{findings[-1].source} gives {findings[-1].value!r}; {'; '.join(contrary)}"
    return Verdict.OK, ""


_TROUBLES = {
    "loading": Verdict.NOT_LOADED,
    "pointer": Verdict.UNREADABLE,
    "range": Verdict.OUT_OF_RANGE,
    "code": Verdict.UNREADABLE,
}


def _alternatives(seen: _Readings, in_use: int) -> Iterator[AlternativeCheck]:
    """Yield the results for all alternatives except the one in use."""
    for index in range(len(seen.looks[0])):
        if index == in_use:
            continue
        last = seen.looks[-1][index]
        both = [(look[in_use], look[index]) for look in seen.looks]
        pairs = [pair for pair in both if not (pair[0].trouble or pair[1].trouble)]
        if last.trouble:
            yield AlternativeCheck(last.source, "fails", last.problem)
            continue
        # A moving value may change between two reads, so agreement at one read is enough.
        agrees = any(_is_same(one.value, other.value) for one, other in pairs)
        yield AlternativeCheck(last.source, "agrees" if agrees else "disagrees", repr(last.value))


def _is_same(one: Value, other: Value) -> bool:
    """Return whether two alternatives give the same value."""
    if isinstance(one, str | bytes) or isinstance(other, str | bytes):
        return bool(one == other)
    return bool(np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE))
