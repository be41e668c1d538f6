"""Selection of the clock of a real game: the best available grade, verified on the running game."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from soulslab.errors import ClockError, ClockUnavailableError
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.capture import NATIVE, Capture
from soulslab.siphon.clock import Clock
from soulslab.siphon.clock.frame_rate import FrameRate
from soulslab.siphon.clock.lockstep import DEFAULT_STEP_S, LockstepClock, LockstepPage, attach_lockstep
from soulslab.siphon.clock.lockstep_proof import Observation, find_lockstep_fault
from soulslab.siphon.clock.realtime import RealtimeClock
from soulslab.siphon.clock.scaled import ScaledClock
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, SessionOptions

_log = logging.getLogger(__name__)


class ClockSelection:
    """Selects the clock of one game.

    Args:
        profile: Profile of the game.
        options: Options of its session.
        pid: Process id of the game.
        servers: See `LockstepClock`.

    Attributes:
        reason: Why the grade is lower than the profile's; "" if it is not.
    """

    def __init__(self, profile: Profile, options: SessionOptions, pid: int, servers: Sequence[int] | None) -> None:
        self.reason = ""
        self._profile = profile
        self._options = options
        self._pid = pid
        self._servers = servers

    def open(self, attributes: AttributeTable, capture: Capture | None, page: LockstepPage | None) -> Clock:
        """Open the requested clock, or the best available one.

        Args:
            attributes: Attributes of the game.
            capture: Capture of its window; None without a window.
            page: Page of the clock library in a game started with it; a clock of another grade closes it.

        Raises:
            ClockUnavailableError: The requested grade is not available.
        """
        if self._wants("lockstep"):
            clock = self._open_lockstep(page)
            if clock is not None and self._is_proven(clock, attributes, capture, is_started=page is not None):
                return clock
        speed = self._profile.clock.speed_attribute
        if self._options.clock in ("", "scaled") and speed and not self._options.is_read_only:
            return ScaledClock(
                lambda: attributes.read(speed),
                lambda value: attributes.write({speed: value}),
                self._pid,
                game_time=_game_time(self._profile, attributes),
                frames=FrameRate(self._profile.clock, attributes.read, attributes.write),
            )
        if self._options.clock == "scaled":
            why = "the session is read-only" if speed else "the profile names no clock.speed_attribute"
            raise ClockUnavailableError(f"cannot scale the time of {self._profile.name}: {why}")
        return RealtimeClock(self._pid)

    def _wants(self, grade: str) -> bool:
        return (self._options.clock or self._profile.clock.grade) == grade

    def _open_lockstep(self, page: LockstepPage | None) -> LockstepClock | None:
        """Open the lockstep clock of a game with the clock library; None if unavailable and not requested."""
        try:
            if page is not None:
                return LockstepClock(page, self._pid, self._profile.clock, servers=self._servers)
            if self._options.is_read_only:
                self._refuse(
                    "the session is read-only, and takes no control of the time of a game that it did not start"
                )
                return None
            # This process did not start the game, so the game does not end with it.
            on_orphan = "run" if self._options.on_orphan == "end" else self._options.on_orphan
            return attach_lockstep(self._pid, self._profile.clock, on_orphan=on_orphan, servers=self._servers)
        except ClockError as error:  # it has no clock library, or another process controls it
            self._refuse(str(error))
            return None

    def _is_proven(
        self, clock: LockstepClock, attributes: AttributeTable, capture: Capture | None, *, is_started: bool
    ) -> bool:
        """Return whether the clock holds the game; close the clock if it does not."""
        facts, speed = self._profile.clock, clock.speed
        names = [name for name in (facts.tick_attribute, facts.game_time_attribute) if name]

        def observe() -> Observation:
            values = {name: _read_if_loaded(attributes, name) for name in names}
            return Observation(values, b"" if capture is None else capture.grab(NATIVE).tobytes())

        tick_s = (1.0 / facts.tick_hz if facts.tick_hz else DEFAULT_STEP_S) if is_started else 0.0
        try:
            fault = find_lockstep_fault(clock, observe, tick_s, facts.tick_attribute)
            if fault:
                self._refuse(f"the clock does not hold {self._profile.name}: {fault}")
        except BaseException:
            clock.close()
            raise
        if fault:
            clock.close()
        elif speed:
            clock.run(speed)
        return not fault

    def _refuse(self, reason: str) -> None:
        """Record why the lockstep clock is unavailable; raise if one was requested."""
        if self._options.clock == "lockstep" or self._options.deterministic:
            raise ClockUnavailableError(f"{reason}. See docs/clock.md, or use the grade realtime or scaled")
        self.reason = reason
        _log.warning(
            "%s: no lockstep clock, so the game keeps running between steps and game time is not exact: %s. See "
            "docs/clock.md",
            self._profile.name,
            reason,
        )


def _read_if_loaded(attributes: AttributeTable, name: str) -> object:
    try:
        return attributes.read(name)
    except LOADING:
        return None


def _game_time(profile: Profile, attributes: AttributeTable) -> Callable[[], float] | None:
    """Return a function that reads the game's own time in seconds; None if the profile names no attribute for it."""
    name, unit_s = profile.clock.game_time_attribute, profile.clock.game_time_s
    return (lambda: float(attributes.read(name)) * unit_s) if name else None
