"""The reset procedure of a profile: the steps of ``[[env.reset]]``."""

from __future__ import annotations

import math
from collections.abc import Iterator

from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.tasks.process.process_settings import Condition, EnvSettings, ResetStep, tick_s
from soulslab.errors import SiphonError, WaitTimeoutError
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, Session, Step
from soulslab.siphon.tick_alignment import TickAlignment


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

    def play(self, holder: SessionHolder, deadline: Deadline) -> None:
        """Bring the game to the start of an episode.

        Raises:
            SiphonError: A step failed; a restart may help.
        """
        is_fresh = holder.is_lost or not holder.is_open
        if self._is_read_only:
            if holder.is_lost:
                holder.reopen()
            self._observe(holder.session, deadline)
            return
        if holder.is_lost:
            holder.recover(deadline)
        is_aligned = self._play_all(holder, is_fresh, deadline)
        # Where the simulation stood still before the steps (in a menu), it runs by now.
        self._phase.align(holder.session)
        if not is_aligned and not any(step.restart for step in self._steps):
            # Played from another phase, the steps may have ended a tick off.
            self._play_all(holder, is_fresh, deadline)

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

    def _play_all(self, holder: SessionHolder, is_fresh: bool, deadline: Deadline) -> bool:
        """Play all steps; tell whether the game was aligned from the first to the last."""
        is_aligned = self._take_hold(holder.session)
        for step in self._steps:
            if step.restart:
                if not is_fresh:
                    holder.recover(deadline)
                    is_aligned = self._take_hold(holder.session)
            else:
                self._play(step, holder.session, deadline)
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
