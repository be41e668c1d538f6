"""The start of an episode: the steps that a profile names, and getting the game back when it is gone."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from soulslab.envs.process_settings import Condition, EnvSettings, ResetStep, tick_s
from soulslab.errors import (
    ServerUnavailableError,
    SiphonError,
    WaitTimeoutError,
)
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, Session, Step
from soulslab.siphon.tick_alignment import TickAlignment

#: Wall time between two tries to reach a server.
RETRY_S = 0.2

_log = logging.getLogger(__name__)


class GameKeeper:
    """Holds the session of an environment, opens it when it is first needed, and gets it back after a failure.

    Args:
        opener: Opens a session, given the seed of a deterministic start; None for one that is not.
        session: One that is open already; it is closed with the environment.

    Attributes:
        n_restarts: How often the game was started again.
        seed: Seed of the next start; None for one that is not deterministic.
        started_seed: Seed that the game was started with by this object; None if it was not given one.
        is_lost: Something failed, so the game has to be restarted before it is used again.
        gate: Is held while a game starts, so that several do not all load at once.
        check: Looks at each game that was started or attached to before anybody else does; what it raises comes from
            `session` until it passes.
    """

    def __init__(self, opener: Callable[[int | None], Session] | None, session: Session | None = None) -> None:
        self._opener = opener
        self._session = session
        self.n_restarts = 0
        self.seed: int | None = None
        self.started_seed: int | None = None
        self.is_lost = False
        self.gate: AbstractContextManager[object] = contextlib.nullcontext()
        self.check: Callable[[Session], None] = lambda _: None
        self._is_checked = False

    @property
    def session(self) -> Session:
        """The open session. Raises what opening one does."""
        if self._session is None:
            if self._opener is None:
                raise AssertionError("neither a session nor a way to open one")
            with self.gate:
                self._session = self._opener(self.seed)
                _hold(self._session)
            self.started_seed = self.seed
        if not self._is_checked:
            self.check(self._session)
            self._is_checked = True
        return self._session

    @property
    def is_open(self) -> bool:
        """Whether there is a session, of whatever use it is."""
        return self._session is not None

    def recover(self, deadline: Deadline) -> None:
        """Restart the game, through a new session where the old one is of no use any more.

        Raises:
            SiphonError: It did not come back before the deadline.
        """
        while True:
            try:
                self._restart()
            except ServerUnavailableError as error:
                deadline.check("the server to come back", error)
                time.sleep(RETRY_S)
            else:
                self.is_lost = False
                self.n_restarts += 1
                return

    def reopen(self) -> None:
        """Open the session again, without a restart of the game; one that was given open is kept.

        Raises:
            SiphonError: It could not be opened.
        """
        if self._opener is not None:
            self.close()
        self._is_checked = False
        _ = self.session
        self.is_lost = False

    def close(self) -> None:
        """Close the session; a second call does nothing."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _restart(self) -> None:
        session, self._is_checked = self._session, False
        if session is None:
            _ = self.session
            return
        try:
            with self.gate:
                session.restart(seed=self.seed)
                _hold(session)
            self.started_seed = self.seed
        except SiphonError as error:
            if self._opener is None:
                raise
            _log.warning("the game cannot be restarted, so a new session is opened: %s", error)
            with contextlib.suppress(SiphonError):  # it is the broken one; what counts is whether a new one opens
                session.close()
            self._session = None
            _ = self.session


def _hold(session: Session) -> None:
    """Pause a game that was started in lockstep: what it would do until the first reset depends on the machine."""
    if session.info.clock_grade == "lockstep" and session.info.is_child:
        session.clock.pause()


class Deadline:
    """A limit in wall time."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def has_passed(self) -> bool:
        """Whether there is no time left."""
        return self._waited_s > self._seconds

    def check(self, what: str, cause: Exception | None = None, saw: str = "") -> None:
        """Raise `WaitTimeoutError` once it has passed.

        Args:
            what: What is waited for.
            cause: The last error.
            saw: What was seen last.
        """
        if self.has_passed:
            hint = f"the last error was: {cause}" if cause else saw and f"{saw}, when all {self._seconds:g} s were over"
            raise WaitTimeoutError(what, self._waited_s, hint) from cause

    @property
    def _waited_s(self) -> float:
        return time.monotonic() - self._start


class EpisodeStart:
    """Plays the reset steps of a profile.

    Args:
        settings: The ``[env]`` table.
        profile: The game.
        is_read_only: The game is observed: of the steps only the waits are done, and then an episode is waited for.
    """

    def __init__(self, settings: EnvSettings, profile: Profile, is_read_only: bool) -> None:
        self._settings = settings
        self._keys = profile.keys
        self._tick_s = tick_s(profile)
        self._phase = TickAlignment(profile)
        steps = settings.reset or (ResetStep(restart=True),)
        self._is_read_only = is_read_only
        self._steps = tuple(step for step in steps if step.wait is not None) if is_read_only else steps

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that the steps write or wait for."""
        written = [name for step in self._steps for name in (*(step.write or ()), *(step.copy or ()))]
        copied = [name for step in self._steps for name in (step.copy or {}).values()]
        awaited = [step.wait.attribute for step in self._steps if step.wait is not None]
        return tuple(dict.fromkeys((*written, *copied, *awaited)))

    def play(self, keeper: GameKeeper, deadline: Deadline) -> None:
        """Bring the game to the start of an episode.

        Raises:
            SiphonError: A step failed; a restart may help.
        """
        is_fresh = keeper.is_lost or not keeper.is_open
        if self._is_read_only:
            if keeper.is_lost:
                keeper.reopen()
            self._observe(keeper.session, deadline)
            return
        if keeper.is_lost:
            keeper.recover(deadline)
        is_aligned = self._play_all(keeper, is_fresh, deadline)
        # Where the simulation stood still before the steps (in a menu), it runs by now.
        self._phase.align(keeper.session)
        if not is_aligned and not any(step.restart for step in self._steps):
            # Played from another phase, the steps may have ended a tick off.
            self._play_all(keeper, is_fresh, deadline)

    def _observe(self, session: Session, deadline: Deadline) -> None:
        """Wait until the game is at an episode: the waits of `env.reset` are over, and no end condition holds."""
        for step in self._steps:
            self._play(step, session, deadline)
        names = tuple(dict.fromkeys(condition.attribute for condition in self._settings.end.values()))
        while True:
            cause: SiphonError | None = None
            try:
                values = session.step(Step(advance_s=self._tick_s, attributes=names)).snapshot
            except LOADING as error:
                cause = error
            else:
                if not any(condition.holds(values) for condition in self._settings.end.values()):
                    return
            deadline.check("an episode to be played", cause, "an end condition of the profile holds")

    def _play_all(self, keeper: GameKeeper, is_fresh: bool, deadline: Deadline) -> bool:
        """Play all steps; tell whether the game was aligned from the first to the last."""
        is_aligned = self._take_hold(keeper.session)
        for step in self._steps:
            if step.restart:
                if not is_fresh:
                    keeper.recover(deadline)
                    is_aligned = self._take_hold(keeper.session)
            else:
                self._play(step, keeper.session, deadline)
            deadline.check("the steps of env.reset")
        return is_aligned

    def _take_hold(self, session: Session) -> bool:
        """Release whatever is held, and stop time before anything is written."""
        session.step(Step(held=(), advance_s=self._tick_s, attributes=()))
        try:
            self._phase.align(session)
        except WaitTimeoutError:  # in a menu; it has to run once the steps are done
            return False
        return True

    def _play(self, step: ResetStep, session: Session, deadline: Deadline) -> None:
        for held, seconds in self._presses(step):
            session.step(Step(held=held, advance_s=seconds, attributes=()))
        if step.write:
            session.write(step.write)
        if step.copy:
            values = session.snapshot(tuple(dict.fromkeys(step.copy.values())))
            session.write({name: values[origin] for name, origin in step.copy.items()})
        if step.wait is not None:
            self._wait(step.wait, self._length_s(step), session, deadline)

    def _presses(self, step: ResetStep) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the keys to hold, one after another, and for how long."""
        for name in step.tap or ():
            yield (self._keys[name],), self._length_s(step)
            yield (), self._length_s(step)
        if step.hold is not None:
            yield tuple(self._keys[name] for name in step.hold), self._length_s(step)
            yield (), 0.0

    def _wait(self, condition: Condition, limit_s: float, session: Session, deadline: Deadline) -> None:
        """Let ticks pass until a condition holds; values that cannot be read while the game loads do not fulfil it."""
        looks = round(limit_s / self._tick_s)
        cause: SiphonError | None = None
        for look in range(looks + 1):
            advance_s = self._tick_s if look else 0.0
            try:
                values = session.step(Step(advance_s=advance_s, attributes=(condition.attribute,))).snapshot
            except LOADING as error:
                cause = error
                if condition.unreadable:
                    return
            else:
                cause = None
                if condition.holds(values):
                    return
            deadline.check(f"attribute {condition}", cause)
        hint = str(cause) if cause else f"it is {values[condition.attribute]!r} after {limit_s:g} s of game time"
        raise WaitTimeoutError(f"attribute {condition}", limit_s, hint) from cause

    def _length_s(self, step: ResetStep) -> float:
        if step.s is None:
            return (step.ticks or 1) * self._tick_s
        if not self._phase.attribute:
            return step.s
        # Whole ticks: the episode would begin at the edge of a tick otherwise, and its first step would lose one.
        return math.ceil(round(step.s / self._tick_s, 6)) * self._tick_s
