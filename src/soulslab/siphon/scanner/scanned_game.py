"""The scanned game: its memory, program, time and keys, across restarts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from soulslab.closing import Closing
from soulslab.errors import ClockUnavailableError, ProcessExitedError, ProcessNotFoundError
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.local import LocalSession, open_session
from soulslab.siphon.memory.opening import open_memory
from soulslab.siphon.process.discovery import executable_of, has_ended
from soulslab.siphon.process.image import Image, file_name, read_image
from soulslab.siphon.profile import ClockFacts, Process, Profile
from soulslab.siphon.scanner.pointers import Module, modules_of
from soulslab.siphon.session import Frame, SessionOptions

#: Duration of a tap; a game that polls its keys once per frame would miss a shorter one.
TAP_S = 0.1
#: Wall time that the game may take in addition to the requested time.
DEADLINE_S = 20.0
#: SDL silently uses another driver if it cannot reach the display of X.
ON_DISPLAY = {"SDL_VIDEODRIVER": "x11"} if sys.platform == "linux" else {}
#: Settings and saved games of the user must neither have an effect nor be changed.
OWN_FOLDER = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), "{directory}")

_log = logging.getLogger(__name__)


class ScannedGame(Closing):
    """A game of which only the name is known.

    The profile identifies and starts it; its bases and attributes need not fit. It gets the grade realtime if the game
    cannot be held. Memory and image are those of the current run.
    """

    def __init__(self, profile: Profile, options: SessionOptions) -> None:
        self.profile = profile
        self.n_starts = 0
        self._options = options
        self._session: LocalSession
        self.is_child = False
        self._windowed: LocalSession | None = None
        self._parts = ExitStack()
        try:
            self._open()
        except BaseException:
            self._parts.close()
            raise

    @property
    def pid(self) -> int:
        """Process id."""
        return self.memory.pid

    @property
    def clock_grade(self) -> str:
        """Grade of its clock."""
        return self._session.clock.grade

    @property
    def is_paused(self) -> bool:
        """Whether its time is held."""
        return not self._session.clock.speed

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return has_ended(self.pid)

    def modules(self, *, with_libraries: bool = False) -> list[Module]:
        """Return the modules in which pointer paths may start."""
        return modules_of(self.memory, self.image, with_libraries=with_libraries)

    # --- its life -------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Start it again, or find it again if it was not started here; a paused game is paused again.

        Raises `ProcessNotFoundError` or `AmbiguousProcessError` if the user has not started it again, or several times.
        """
        if self.is_child:
            is_paused = self.is_paused
            self._close_windowed()
            self.memory.close()
            self._session.restart()
            if is_paused:
                self._session.clock.pause()
            self._look_into()
        else:
            self.attach()

    def attach(self, pid: int = 0) -> None:
        """Continue with another process of the game, which the user has started; 0 for the only process."""
        old = self._options
        self._parts.close()
        self._options = msgspec.structs.replace(old, pid=pid, launch="never")
        try:
            self._open()
        except ProcessNotFoundError as error:
            raise ProcessNotFoundError(f"{error}; start it again, then: attach", pid=pid or None) from error

    def close(self) -> None:
        """Release it, and end it if it was started here; a second call does nothing."""
        self._parts.close()

    # --- its time -------------------------------------------------------------------------------------------

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """Hold its time if possible, so that values that are read belong together."""
        clock = self._session.clock
        speed = clock.speed
        if clock.grade == "realtime" or not speed:
            yield
            return
        clock.pause()
        try:
            yield
        finally:
            if not self.has_ended:
                clock.run(speed)

    def pass_time(self, seconds: float) -> None:
        """Advance game time; afterwards the game runs if it ran before."""
        clock = self._session.clock
        speed = clock.speed
        clock.advance(seconds, deadline_s=seconds + DEADLINE_S)
        if speed:
            clock.run(speed)

    def pause(self) -> None:
        """Hold its time. Raises `ClockUnavailableError` if the game was started without the clock library."""
        self._session.clock.pause()

    def run(self, speed: float = 1.0) -> None:
        """Run the game."""
        self._session.clock.run(speed)

    def configure_clock(self, facts: ClockFacts) -> None:
        """Use other clock facts from now on. Raises `ClockUnavailableError` if the clock is not a lockstep clock."""
        clock = self._session.clock
        if not isinstance(clock, LockstepClock):
            raise ClockUnavailableError(f"the clock is {clock.grade}; settings can be tried in lockstep only")
        clock.configure(facts)

    def step(self, keys: Sequence[str], seconds: float) -> None:
        """Hold exactly these keys (or actions of ``[keys]``) and advance game time; time is held afterwards.

        There must be no keys without a window.
        """
        if keys or self.has_window:
            self._with_window().input.set_held([self.profile.keys.get(key, key) for key in keys])
        self._session.clock.advance(seconds, deadline_s=seconds + DEADLINE_S)

    @property
    def has_window(self) -> bool:
        """Whether keys can be pressed."""
        return self._options.with_window

    # --- its window -----------------------------------------------------------------------------------------

    def hold(self, keys: Sequence[str], seconds: float) -> None:
        """Hold keys (or actions of ``[keys]``) for some game time."""
        keyboard = self._with_window().input
        keyboard.set_held([self.profile.keys.get(key, key) for key in keys])
        try:
            self.pass_time(seconds)
        finally:
            if not self.has_ended:
                keyboard.set_held(())

    def tap(self, keys: Sequence[str]) -> None:
        """Press and release keys one after another."""
        for key in keys:
            self.hold([key], TAP_S)
            self.pass_time(TAP_S)

    def capture(self) -> Frame:
        """Capture its window."""
        return self._with_window().capture()

    def _with_window(self) -> LocalSession:
        """Return the session with the window, which is opened on demand for a game that was not started here."""
        if self.is_child:
            return self._session
        if self._windowed is None:
            options = msgspec.structs.replace(
                self._options, pid=self.pid, launch="never", clock="realtime", with_window=True, deadline_s=5.0
            )
            self._windowed = open_session(_without_facts(self.profile), options)
            self._parts.callback(self._close_windowed)
        return self._windowed

    def _close_windowed(self) -> None:
        session, self._windowed = self._windowed, None
        if session is not None:
            session.close()

    # --- opening --------------------------------------------------------------------------------------------

    def _open(self) -> None:
        session = _open(_without_facts(self.profile), self._options)
        self._parts.callback(session.close)
        if session.info.clock_reason:
            clock = msgspec.structs.replace(self.profile.clock, grade="realtime")
            self.profile = msgspec.structs.replace(self.profile, clock=clock)
        self._session = session
        self.is_child = session.info.is_child
        self._look_into()

    def _look_into(self) -> None:
        pid = self._session.info.pid
        try:
            self.memory = open_memory(pid)
            self._parts.callback(self.memory.close)
            self.image: Image = read_image(self.memory, self.profile.process.executable)
        except ProcessExitedError as error:
            raise ProcessExitedError(f"{error}, right after its start", pid=pid, status=error.status) from error
        self.n_starts += 1


def new_profile(pid: int, executable: str, command: Sequence[str], environment: dict[str, str], name: str) -> Profile:
    """Return a profile that only identifies and starts a game.

    The name of the program is by default that of the process or of the command; the name of the game is that of the
    program.
    """
    if not executable:
        executable = file_name(executable_of(pid) if pid else command[0])
    if command and "/" in command[0]:
        # The game may be started from another folder later.
        command = (str(Path(command[0]).absolute()), *command[1:])
    return Profile(
        name=name or Path(executable).stem,
        process=Process(executable=executable, command=tuple(command), environment=environment if command else {}),
        clock=ClockFacts(grade="lockstep" if command else "realtime"),
    )


def _without_facts(profile: Profile) -> Profile:
    """Return the profile without facts that may not fit the game yet, and without the attributes of its clock."""
    facts = profile.clock
    clock = ClockFacts(
        grade="realtime" if facts.grade == "scaled" else facts.grade,
        tick_hz=facts.tick_hz,
        boundary=facts.boundary,
        spin_reads=facts.spin_reads,
    )
    return msgspec.structs.replace(profile, bases={}, entities={}, attributes={}, clock=clock, env=None)


def _open(profile: Profile, options: SessionOptions) -> LocalSession:
    """Open a session; without control of time if that is not available and was not requested."""
    try:
        return open_session(profile, options)
    except ClockUnavailableError as error:
        if options.clock:
            raise
        _log.warning("game time cannot be paused: %s", error)
        return open_session(profile, msgspec.structs.replace(options, clock="realtime"))
