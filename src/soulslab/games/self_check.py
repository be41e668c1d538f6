"""Whether a profile fits the game that runs: every attribute found, plausible, moving or holding as its facts say.

::

    check = check_session(session)          # nothing is written to the game
    check.is_ok, check.rows[0].verdict
    check.require("player.hp", "boss.hp")   # raises SelfCheckError, which names each that failed and why

It is what stands between a version of a game that nobody knows and an agent that would write to wrong places.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from soulslab.arena.binding import Binding
from soulslab.errors import ConfigError, SelfCheckError, UnknownAttributeError
from soulslab.siphon.attributes.examination import Finding
from soulslab.siphon.profile import Attribute, Profile, Value
from soulslab.siphon.profile.facts import variants_of, versions_of
from soulslab.siphon.session import Session

#: Values of two ways that differ by less, relative to them, are the same: one may be stored with fewer bits.
TOLERANCE = 1e-5


class Verdict(enum.Enum):
    """What came of an attribute."""

    OK = "ok"
    OUT_OF_RANGE = "out of range"
    NOT_LOADED = "not loaded"
    UNREADABLE = "cannot be read"
    STANDS = "does not move"
    CHANGES = "does not hold"
    DISAGREE = "two sources disagree"
    OTHER_VERSION = "unknown for this version"


class OtherWay(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came of a way to an attribute other than the one that holds.

    Attributes:
        source: Of the way.
        outcome: Whether it ``agrees``, ``disagrees``, or ``fails`` to give a plausible value.
        detail: What it gave, or why it failed.
    """

    source: str
    outcome: Literal["agrees", "disagrees", "fails"]
    detail: str


class AttributeCheck(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came of one attribute.

    Attributes:
        name: Its name.
        verdict: OK, or the first thing that is wrong. ``NOT_LOADED``: a pointer is null or an entity is not there, as
            before a character is loaded; that is told apart from a way that is broken (``UNREADABLE``).
        reason: Why, with the pointer, the values or the sources; "" if it is OK.
        is_needed: It was asked for, or the profile's fight needs it.
        address: Where it was at the last look; 0 where it was not reached.
        value: What was read last; None where nothing was.
        unit: Of the value.
        source: Of the way that holds, or was tried first.
        others: What came of each further way.
        versions: Versions of the game that it is known for; empty where the profile names none.
        is_writable: The profile lets it be written. That it can be is not tried.
    """

    name: str
    verdict: Verdict
    reason: str = ""
    is_needed: bool
    address: int = 0
    value: Value = None
    unit: str = ""
    source: str = ""
    others: tuple[OtherWay, ...] = ()
    versions: tuple[str, ...] = ()
    is_writable: bool = False


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came of a profile on a running game.

    Attributes:
        game: Name of the profile.
        version: Of the executable; "" if it carries none.
        is_known_version: The profile knows it, or names none.
        span_s: Game time between the first look and the last.
        n_looks: How often everything was read.
        rows: One for each attribute, in the profile's order.
    """

    game: str
    version: str
    is_known_version: bool
    span_s: float
    n_looks: int
    rows: tuple[AttributeCheck, ...]

    @property
    def is_ok(self) -> bool:
        """Whether all that is needed is well."""
        return not any(row.is_needed and row.verdict is not Verdict.OK for row in self.rows)

    def require(self, *names: str, may_be_loading: bool = False) -> None:
        """Refuse attributes that failed.

        Args:
            names: Which are needed; none stands for those that the check itself counts as needed.
            may_be_loading: Let those pass that are only not loaded yet.

        Raises:
            SelfCheckError: It names each that failed, and why.
            UnknownAttributeError: The profile has no such attribute.
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
    """Return the attributes that a fight and its clock need; all of the profile where it has no ``[duel]`` table.

    Raises:
        ProfileError: The ``[duel]`` table is malformed.
    """
    if profile.duel is None:
        return tuple(profile.attributes)
    clock = profile.clock
    of_frames = (clock.frame_rate_attribute, clock.frame_rate_flag, clock.frame_time_attribute)
    of_clock = (clock.tick_attribute, clock.speed_attribute, clock.game_time_attribute, *of_frames)
    of_duel = Binding(profile.duel, profile.attributes).attributes.values()
    return tuple(dict.fromkeys((*of_duel, *(name for name in of_clock if name))))


def check_session(
    session: Session, needed: Sequence[str] | None = None, *, span_s: float = 1.0, n_looks: int = 5
) -> SelfCheck:
    """Check every attribute of a profile on the game that runs; nothing is written to its memory.

    A lockstep clock is advanced, and then runs or stands as before; any other game runs on by itself meanwhile, and so
    does the game of a read-only session.

    Args:
        session: The game, here or on a server.
        needed: Attributes that have to be well; None for `needed_by`.
        span_s: Game time from the first look to the last, more than 0.
        n_looks: How often to look, at least 2.

    Raises:
        ConfigError: A number is too small.
        UnknownAttributeError: The profile has no attribute that is needed.
        SiphonError: The session failed as such: the game has ended, its clock stalled, the server is gone.
    """
    if not span_s > 0 or n_looks < 2:
        raise ConfigError(f"needs at least 2 looks and some time between them, not {n_looks} in {span_s:g} s")
    profile = session.profile
    wanted = needed_by(profile) if needed is None else tuple(needed)
    for name in wanted:
        if name not in profile.attributes:
            raise UnknownAttributeError(name, profile.attributes)
    looks = [session.examine()]
    passed_s = 0.0
    for _ in range(n_looks - 1):
        passed_s += _pass_time(session, span_s / (n_looks - 1))
        looks.append(session.examine())
    info = session.info
    rows = [
        _judge(
            _Seen(profile, name, tuple(look.get(name, ()) for look in looks), info.version, passed_s),
            is_needed=name in wanted,
            held=info.sources.get(name, ""),
        )
        for name in profile.attributes
    ]
    return SelfCheck(
        game=profile.name,
        version=info.version,
        is_known_version=not profile.process.versions or info.version in profile.process.versions,
        span_s=passed_s,
        n_looks=n_looks,
        rows=tuple(rows),
    )


def _pass_time(session: Session, seconds: float) -> float:
    """Let game time pass without a write; return how much did."""
    clock = session.clock
    speed = clock.speed
    if clock.grade == "lockstep" and not session.info.is_read_only:
        elapsed_s = clock.advance(seconds).elapsed_s
        if speed > 0:
            clock.run(speed)
        return elapsed_s
    # To step a scaled clock would write the game's speed, and a realtime one only waits, as a read-only session does.
    time.sleep(seconds)
    return seconds * speed


# --- judging ------------------------------------------------------------------------------------------------


class _Seen(msgspec.Struct, frozen=True, eq=False):
    """What was seen of one attribute.

    Attributes:
        profile: The game as data.
        name: Of the attribute.
        looks: Of each look, what each way led to; empty where it is not known for the version.
        version: Of the game.
        passed_s: Game time from the first look to the last.
    """

    profile: Profile
    name: str
    looks: tuple[tuple[Finding, ...], ...]
    version: str
    passed_s: float

    @property
    def facts(self) -> Attribute:
        """What the profile says."""
        return self.profile.attributes[self.name]

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that some way to it is known for."""
        of = {version for way in variants_of(self.facts) for version in versions_of(self.profile, way)}
        return tuple(version for version in self.profile.process.versions if version in of)

    def way(self, held: str) -> int:
        """Return the place of the way that holds: the session's, else the first that was well at every look."""
        first = self.looks[0]
        for place, finding in enumerate(first):
            if finding.source == held:
                return place
        well = (place for place in range(len(first)) if not any(look[place].trouble for look in self.looks))
        return next(well, 0)

    def through(self, way: int) -> list[Finding]:
        """Return what one way led to, look by look."""
        return [look[way] for look in self.looks]


def _judge(seen: _Seen, *, is_needed: bool, held: str) -> AttributeCheck:
    """Return what came of an attribute."""
    facts = seen.facts
    row = AttributeCheck(
        name=seen.name,
        verdict=Verdict.OTHER_VERSION,
        reason=f"it is known for {', '.join(seen.versions) or 'no version'}, and this is {seen.version or 'none'}",
        is_needed=is_needed,
        unit=facts.unit,
        source=facts.source,
        versions=seen.versions,
        is_writable=facts.is_writable,
    )
    if not seen.looks[0]:
        return row
    way = seen.way(held)
    others = tuple(_others(seen, way))
    last = seen.looks[-1][way]
    contrary = [f"{other.source} gives {other.detail}" for other in others if other.outcome == "disagrees"]
    verdict, reason = _verdict(seen, way, contrary)
    return msgspec.structs.replace(
        row,
        verdict=verdict,
        reason=reason,
        address=last.address,
        value=last.value,
        source=last.source,
        others=others,
    )


def _verdict(seen: _Seen, way: int, contrary: Sequence[str]) -> tuple[Verdict, str]:
    """Return the first thing that is wrong with the way that holds, and why."""
    findings = seen.through(way)
    troubled = next((finding for finding in findings if finding.trouble), None)
    if troubled is not None:
        all_problems = "; ".join(dict.fromkeys(look.problem for look in seen.looks[0] if look.problem))
        return _TROUBLES[troubled.trouble], all_problems if seen.looks[0][way].trouble else troubled.problem
    values = [finding.value for finding in findings]
    other = next((value for value in values if not _is_exactly(value, values[0])), None)
    if seen.facts.is_moving and other is None:
        return Verdict.STANDS, (
            f"it stayed at {values[0]!r} for {seen.passed_s:.2g} s of game time; is the game paused, or in a menu?"
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


def _others(seen: _Seen, held: int) -> Iterator[OtherWay]:
    """Yield what came of each way but the one that holds."""
    for way in range(len(seen.looks[0])):
        if way == held:
            continue
        last = seen.looks[-1][way]
        pairs = [(look[held], look[way]) for look in seen.looks if not (look[held].trouble or look[way].trouble)]
        if last.trouble:
            yield OtherWay(source=last.source, outcome="fails", detail=last.problem)
        # What moves may have moved between two reads, so that one look at which they agree is enough.
        elif any(_is_same(one.value, other.value) for one, other in pairs):
            yield OtherWay(source=last.source, outcome="agrees", detail=repr(last.value))
        else:
            yield OtherWay(source=last.source, outcome="disagrees", detail=repr(last.value))


def _is_exactly(one: Value, other: Value) -> bool:
    """Tell whether two readings of one way are the same."""
    return bool(np.array_equal(one, other))


def _is_same(one: Value, other: Value) -> bool:
    """Tell whether two ways give the same value."""
    if isinstance(one, str | bytes) or isinstance(other, str | bytes):
        return bool(one == other)
    return bool(np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE))
