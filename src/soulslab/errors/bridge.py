"""Errors of the bridge to games; the tree is drawn in `soulslab.errors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from soulslab.errors.general import ConfigError, SoulslabError, cut, did_you_mean


class SiphonError(SoulslabError):
    """The bridge to a game failed."""


class ProfileError(SiphonError, ConfigError):
    """A game's profile is malformed; ``path`` names the place: ``attributes."player.hp".offsets[2]``."""


class ProcessError(SiphonError):
    """The game's process cannot be used.

    Attributes:
        pid: Its id; None if there is none.
    """

    def __init__(self, problem: str, *, pid: int | None = None) -> None:
        self.pid = pid
        super().__init__(problem)


class ProcessNotFoundError(ProcessError):
    """There is no process of that name or id."""


class AmbiguousProcessError(ProcessError):
    """Several processes match; the message lists them.

    Attributes:
        pids: All that match.
    """

    def __init__(self, problem: str, pids: Iterable[int]) -> None:
        self.pids = tuple(pids)
        super().__init__(problem)


class AttachDeniedError(ProcessError):
    """The system does not let this user read or write the process; the message says how to be allowed."""


class ProcessExitedError(ProcessError):
    """The process has ended.

    Attributes:
        status: Its exit status, negative for a signal; None if it is not our child.
    """

    def __init__(self, problem: str, *, pid: int, status: int | None = None) -> None:
        self.status = status
        super().__init__(problem, pid=pid)


class LaunchError(ProcessError):
    """The game could not be started; the message holds the end of what it printed."""


class ImageError(ProcessError):
    """The program or a module of the process is not loaded (yet), or its headers are malformed."""


class GameVersionError(ProcessError):
    """The executable's version is not one that the profile knows.

    Attributes:
        version: What was found; "" if it could not be told.
        known: What the profile knows.
    """

    def __init__(self, problem: str, *, pid: int, version: str, known: Iterable[str]) -> None:
        self.version = version
        self.known = tuple(known)
        super().__init__(problem, pid=pid)


class AntiCheatError(ProcessError):
    """An anti-cheat is loaded; soulslab neither reads nor writes such a process."""


class MemoryAccessError(SiphonError):
    """An address cannot be read or written.

    Attributes:
        address: Where.
        size: How many bytes.
        pid: Of which process.
    """

    def __init__(self, problem: str, *, address: int, size: int, pid: int) -> None:
        self.address = address
        self.size = size
        self.pid = pid
        super().__init__(f"process {pid}: {size} bytes at {address:#x}: {problem}")


class PointerError(MemoryAccessError):
    """A chain of pointers leads nowhere; games break them while they load.

    Attributes:
        attribute: Which attribute (or entity, or base) it belongs to.
        level: The place in its offsets that failed, from 0; -1 for the pointer of a base itself (``is_pointer``).
        is_null: The pointer is null, as it is where there is nothing (yet), and not rubbish.
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
    """A byte pattern was found nowhere, in several places, or with a number that is not plausible.

    Attributes:
        base: The base, or code offset, that it belongs to.
        addresses: Where it was found, ascending.
        place: Of the mistake in the profile, where it is no base: ``code_offsets.speed.range``.
        problem: The message without what it belongs to.
    """

    def __init__(self, problem: str, *, base: str, addresses: Iterable[int] = (), place: str = "") -> None:
        self.base = base
        self.addresses = tuple(addresses)
        self.place = place
        self.problem = problem
        super().__init__(f"{place or f'base {base!r}'}: {problem}")


class ScanError(SiphonError):
    """A scan of the memory cannot be done as asked, or would need too much memory of ours."""


class UnknownAttributeError(SiphonError):
    """The profile has no attribute of that name.

    Attributes:
        name: The name that was asked for.
        known: The names that exist.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown attribute {name!r}{did_you_mean(name, self.known)}")


class AttributeVersionError(SiphonError):
    """An attribute is not known for the version of the game.

    Attributes:
        attribute: Its name.
        version: Of the game.
        known: The versions that it is known for.
    """

    def __init__(self, attribute: str, version: str, known: Iterable[str]) -> None:
        self.attribute = attribute
        self.version = version
        self.known = tuple(known)
        super().__init__(
            f"attribute {attribute!r} is not known for version {version} of the game, only for "
            f"{', '.join(self.known)}; leave it out, or add to the profile where it is in this version"
        )


class UndecidedAttributeError(SiphonError):
    """The profile knows several ways to an attribute, and none of them leads to a plausible value (now).

    Attributes:
        attribute: Its name.
        problems: What each way gave, in their order.
    """

    def __init__(self, attribute: str, problem: str, problems: Iterable[str]) -> None:
        self.attribute = attribute
        self.problems = tuple(problems)
        super().__init__(f"attribute {attribute!r}: {problem}: {'; '.join(self.problems)}")


class ImplausibleValueError(SiphonError):
    """A value that was read lies outside its plausible range: the facts do not fit this game.

    Attributes:
        attribute: Its name.
        value: What was read.
        low: The least that is plausible; nan for text.
        high: The most; nan for text.
    """

    def __init__(self, attribute: str, value: object, low: float, high: float, *, problem: str = "") -> None:
        self.attribute = attribute
        self.value = value
        self.low = low
        self.high = high
        problem = problem or f"which is outside its plausible range {low:g} to {high:g}"
        super().__init__(
            f"attribute {attribute!r} reads {value!r}, {problem}; "
            f"either the game is loading, or the profile does not fit this version of it"
        )


class SelfCheckError(SiphonError):
    """Attributes that are needed failed the self-check of a profile on the running game.

    Attributes:
        attributes: Their names.
        problems: What is wrong with each.
    """

    def __init__(self, game: str, failed: Mapping[str, str]) -> None:
        self.attributes = tuple(failed)
        self.problems = tuple(failed.values())
        listed = "; ".join(f"{name!r} {problem}" for name, problem in failed.items())
        n = len(failed)
        super().__init__(
            f"{n} attribute{'' if n == 1 else 's'} of {game} that {'is' if n == 1 else 'are'} needed failed the "
            f"self-check: {listed}"
        )


class EntityNotFoundError(SiphonError):
    """No entity of a list has the id.

    Attributes:
        entity: Its name in the profile.
        n_entities: How many the list has now.
    """

    def __init__(self, entity: str, problem: str, n_entities: int) -> None:
        self.entity = entity
        self.n_entities = n_entities
        super().__init__(f"entity {entity!r}: {problem}")


class InvalidValueError(SiphonError):
    """A value to write has the wrong type or lies out of range; nothing was written.

    Attributes:
        attribute: Its name.
        value: What was to be written.
    """

    def __init__(self, attribute: str, value: object, problem: str) -> None:
        self.attribute = attribute
        self.value = value
        super().__init__(f"attribute {attribute!r}: cannot write {value!r}: {problem}")


class ReadOnlyError(SiphonError):
    """A write in a session that was opened read-only; nothing was written."""


class InputError(SiphonError):
    """A key could not be pressed, or the mouse not moved."""


class UnknownKeyError(InputError):
    """There is no key of that name.

    Attributes:
        name: The name that was asked for.
        known: The names that exist.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown key {name!r}{did_you_mean(name, self.known)}")


class DisplayError(SiphonError):
    """An X display cannot be started or reached."""


class WindowError(SiphonError):
    """The game's window cannot be used."""


class WindowNotFoundError(WindowError):
    """The process has no window that fits; the message lists those that there are."""


class WindowGoneError(WindowError):
    """The window was closed or unmapped, so there is nothing to capture."""


class ClockError(SiphonError):
    """Game time cannot be controlled as asked."""


class ClockUnavailableError(ClockError):
    """This grade of clock cannot do that, or cannot be had for this process."""


class ClockStalledError(ClockError):
    """The game did not reach the limit before the deadline.

    Attributes:
        waited_s: How long was waited, in wall time.
    """

    def __init__(self, problem: str, waited_s: float) -> None:
        self.waited_s = waited_s
        super().__init__(problem)


class LostTickError(ClockError):
    """A step of a lockstep game made another number of ticks of the simulation than it should have made.

    Attributes:
        attribute: The count of ticks.
        step: Step of the episode, from 1.
        n_expected: Ticks that the step should have made.
        n_ticks: Ticks that it made; negative if the count was set back.
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
    """A condition did not come true before its deadline.

    Attributes:
        what: What was waited for.
        waited_s: How long.
        hint: What was seen meanwhile, or went wrong.
    """

    def __init__(self, what: str, waited_s: float, hint: str = "") -> None:
        self.what = what
        self.waited_s = waited_s
        self.hint = hint
        super().__init__(f"waited {waited_s:.1f} s for {what}{'; ' if hint else ''}{hint}")


class ResetFailedError(WaitTimeoutError):
    """A game could not be brought to the start of an episode, also after retries.

    Attributes:
        state: The state of the reset that was not reached (docs/resets.md).
        saw: What was read last, by quantity.
        reasons: Why each try failed, the last one included.
    """

    def __init__(self, what: str, waited_s: float, *, state: str, saw: str = "", reasons: Iterable[str] = ()) -> None:
        self.state = state
        self.saw = saw
        self.reasons = tuple(reasons)
        parts = [f"it saw {saw}" if saw else "", f"tries: {'; '.join(self.reasons)}" if self.reasons else ""]
        super().__init__(f"{what} (state {state!r} of the reset)", waited_s, "; ".join(part for part in parts if part))
        self.what = what


class SessionStateError(SiphonError):
    """A session was used before it was open, or after it was closed."""


class RecordingError(SiphonError):
    """A recording cannot be written or read.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = Path(path)
        super().__init__(f"{path}: {cut(problem)}")


class RemoteError(SiphonError):
    """A session on a server failed as such; what the game did wrong comes as its own error."""


class ServerUnavailableError(RemoteError):
    """Nobody answers at the address, or the answer came too late."""


class AccessRefusedError(RemoteError):
    """The token is missing or wrong, or the address needs TLS."""


class ControlTakenError(RemoteError):
    """Another client of the server, or another environment on this machine, controls the game; one may still look.

    Attributes:
        holder: The name of that client or environment.
    """

    def __init__(self, problem: str, *, holder: str) -> None:
        self.holder = holder
        super().__init__(problem)


class WireError(RemoteError):
    """A message is malformed, or was written by another version."""
