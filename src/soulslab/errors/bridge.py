"""Errors of the bridge to games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from soulslab.errors.general import ConfigError, SoulslabError, _UnknownNameError, cut


class SiphonError(SoulslabError):
    """The bridge to a game failed."""


class ProfileError(SiphonError, ConfigError):
    """The profile of a game is malformed; ``path`` is the place: ``attributes."player.hp".offsets[2]``."""


class ProcessError(SiphonError):
    """The process of a game cannot be used; ``pid`` is its id, or None."""

    def __init__(self, problem: str, *, pid: int | None = None) -> None:
        self.pid = pid
        super().__init__(problem)


class ProcessNotFoundError(ProcessError):
    """No process has that name or id."""


class AmbiguousProcessError(ProcessError):
    """Several processes match; the message lists them."""

    def __init__(self, problem: str, pids: Iterable[int]) -> None:
        self.pids = tuple(pids)
        super().__init__(problem)


class AttachDeniedError(ProcessError):
    """The operating system denies this user access to the process; the message says how to get access."""


class ProcessExitedError(ProcessError):
    """The process has exited.

    ``status`` is its exit status, negative for a signal; None if it is not a child of this process.
    """

    def __init__(self, problem: str, *, pid: int, status: int | None = None) -> None:
        self.status = status
        super().__init__(problem, pid=pid)


class LaunchError(ProcessError):
    """The game could not be started; the message contains the end of its output."""


class ImageError(ProcessError):
    """The program or a module of the process is not loaded (yet), or its headers are malformed."""


class GameVersionError(ProcessError):
    """The profile does not support the ``version`` of the executable ("" if it has none), only those in ``known``."""

    def __init__(self, problem: str, *, pid: int, version: str, known: Iterable[str]) -> None:
        self.version = version
        self.known = tuple(known)
        super().__init__(problem, pid=pid)


class AntiCheatError(ProcessError):
    """An anti-cheat is loaded; soulslab neither reads nor writes the memory of such a process."""


class MemoryAccessError(SiphonError):
    """``size`` bytes at an address cannot be read or written."""

    def __init__(self, problem: str, *, address: int, size: int, pid: int) -> None:
        self.address = address
        self.size = size
        self.pid = pid
        super().__init__(f"process {pid}: {size} bytes at {address:#x}: {problem}")


class PointerError(MemoryAccessError):
    """A pointer chain is broken; this happens while games load.

    Attributes:
        attribute: Name of the attribute, entity or base of the chain.
        level: Index in the offsets at which the chain is broken, from 0; -1 for the pointer of a base (``is_pointer``).
        is_null: The pointer is null, which means that the object does not exist (yet), and is not an invalid address.
    """

    def __init__(
        self, problem: str, *, attribute: str, level: int, address: int, pid: int, is_null: bool = False
    ) -> None:
        self.attribute = attribute
        self.level = level
        self.is_null = is_null
        where = f"base {attribute!r}, is_pointer" if level < 0 else f"attribute {attribute!r}, offsets[{level}]"
        super().__init__(f"{where}: {problem}", address=address, size=8, pid=pid)


class PatternError(SiphonError):
    """A byte pattern has no match, several matches (at ``addresses``), or an implausible operand.

    ``base`` names a base or a code offset; ``place`` is the place in the profile if the pattern is not that of a base:
    ``code_offsets.speed.range``. ``problem`` is the message without the place.
    """

    def __init__(self, problem: str, *, base: str, addresses: Iterable[int] = (), place: str = "") -> None:
        self.base = base
        self.addresses = tuple(addresses)
        self.place = place
        self.problem = problem
        super().__init__(f"{place or f'base {base!r}'}: {problem}")


class ScanError(SiphonError):
    """A memory scan is not possible with these arguments, or would need too much memory."""


class UnknownAttributeError(SiphonError, _UnknownNameError):
    """The profile has no attribute of that name."""

    kind = "attribute"


class AttributeVersionError(SiphonError):
    """The profile does not have an attribute for this version of the game, only for those in ``known``."""

    def __init__(self, attribute: str, version: str, known: Iterable[str]) -> None:
        self.attribute = attribute
        self.version = version
        self.known = tuple(known)
        super().__init__(
            f"attribute {attribute!r} is not known for version {version} of the game, only for "
            f"{', '.join(self.known)}; remove it from your request, or add its location for this version to the profile"
        )


class UndecidedAttributeError(SiphonError):
    """No alternative of an attribute gives a plausible value (at the moment); ``problems`` are in their order."""

    def __init__(self, attribute: str, problem: str, problems: Iterable[str]) -> None:
        self.attribute = attribute
        self.problems = tuple(problems)
        super().__init__(f"attribute {attribute!r}: {problem}: {'; '.join(self.problems)}")


class ImplausibleValueError(SiphonError):
    """A value is outside its plausible range (nan for text), so the profile does not fit the game."""

    def __init__(self, attribute: str, value: object, low: float, high: float, *, problem: str = "") -> None:
        self.attribute = attribute
        self.value = value
        self.low = low
        self.high = high
        problem = problem or f"which is outside its plausible range {low:g} to {high:g}"
        super().__init__(
            f"attribute {attribute!r} reads {value!r}, {problem}; "
            f"either the game is loading, or the profile does not fit this version of the game"
        )


class SelfCheckError(SiphonError):
    """Needed ``attributes`` failed the self-check of a profile on the running game, each with one of ``problems``."""

    def __init__(self, game: str, failed: Mapping[str, str]) -> None:
        self.attributes = tuple(failed)
        self.problems = tuple(failed.values())
        listed = "; ".join(f"{name!r} {problem}" for name, problem in failed.items())
        super().__init__(
            f"{len(failed)} needed attribute{'' if len(failed) == 1 else 's'} of {game} failed the self-check: {listed}"
        )


class EntityNotFoundError(SiphonError):
    """No entity in the list of ``n_entities`` has the id."""

    def __init__(self, entity: str, problem: str, n_entities: int) -> None:
        self.entity = entity
        self.n_entities = n_entities
        super().__init__(f"entity {entity!r}: {problem}")


class InvalidValueError(SiphonError):
    """A value to write has the wrong type or is out of range; nothing was written."""

    def __init__(self, attribute: str, value: object, problem: str) -> None:
        self.attribute = attribute
        self.value = value
        super().__init__(f"attribute {attribute!r}: cannot write {value!r}: {problem}")


class ReadOnlyError(SiphonError):
    """A write in a read-only session; nothing was written."""


class InputError(SiphonError):
    """A key could not be pressed, or the mouse not moved."""


class UnknownKeyError(InputError, _UnknownNameError):
    """The key is unknown."""

    kind = "key"


class DisplayError(SiphonError):
    """An X display cannot be started or reached."""


class WindowError(SiphonError):
    """The window of the game cannot be used."""


class WindowNotFoundError(WindowError):
    """The process has no matching window; the message lists its windows."""


class WindowGoneError(WindowError):
    """The window was closed or unmapped, so it cannot be captured."""


class ClockError(SiphonError):
    """Game time cannot be controlled as requested."""


class ClockUnavailableError(ClockError):
    """The clock grade does not support this operation, or is not available for this process."""


class ClockStalledError(ClockError):
    """The game did not reach the limit before the deadline; ``waited_s`` is in wall time."""

    def __init__(self, problem: str, waited_s: float) -> None:
        self.waited_s = waited_s
        super().__init__(problem)


class LostTickError(ClockError):
    """A step of a lockstep game advanced a wrong number of simulation ticks.

    ``attribute`` counts the ticks, steps count from 1, and ``n_ticks`` is negative if the counter decreased.
    """

    def __init__(self, attribute: str, step: int, n_expected: int, n_ticks: int) -> None:
        self.attribute = attribute
        self.step = step
        self.n_expected = n_expected
        self.n_ticks = n_ticks
        super().__init__(
            f"step {step} of the episode made {n_ticks} ticks (attribute {attribute!r}) instead of {n_expected}, so "
            f"game time was not exact; check the profile's clock with: soulslab siphon verify (docs/clock.md)"
        )


class WaitTimeoutError(SiphonError):
    """A condition was not true before the deadline; ``hint`` is the last value, or what went wrong."""

    def __init__(self, what: str, waited_s: float, hint: str = "") -> None:
        self.what = what
        self.waited_s = waited_s
        self.hint = hint
        super().__init__(f"waited {waited_s:.1f} s for {what}{'; ' if hint else ''}{hint}")


class ResetFailedError(WaitTimeoutError):
    """A game could not be brought to the start of an episode, even after retries.

    Attributes:
        state: State of the reset that was not reached (docs/resets.md).
        saw: Last values, by quantity.
        reasons: Reason for the failure of each attempt, including the last one.
    """

    def __init__(self, what: str, waited_s: float, *, state: str, saw: str = "", reasons: Iterable[str] = ()) -> None:
        self.state = state
        self.saw = saw
        self.reasons = tuple(reasons)
        parts = [f"last values: {saw}" if saw else "", f"attempts: {'; '.join(self.reasons)}" if self.reasons else ""]
        super().__init__(f"{what} (state {state!r} of the reset)", waited_s, "; ".join(part for part in parts if part))
        self.what = what


class SessionStateError(SiphonError):
    """A session was used before it was open, or after it was closed."""


class RecordingError(SiphonError):
    """A recording cannot be written or read."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {cut(problem)}")


class RemoteError(SiphonError):
    """A remote session failed; errors of the game are raised as their own classes."""


class ServerUnavailableError(RemoteError):
    """The server does not answer, or answered too late."""


class AccessRefusedError(RemoteError):
    """The token is missing or wrong, or the address requires TLS."""


class ControlTakenError(RemoteError):
    """Another client or environment, the ``holder``, controls the game; reading is still possible."""

    def __init__(self, problem: str, *, holder: str) -> None:
        self.holder = holder
        super().__init__(problem)


class WireError(RemoteError):
    """A message is malformed, or has another version."""
