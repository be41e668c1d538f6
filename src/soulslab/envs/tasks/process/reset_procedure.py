"""The reset procedure of a profile: the steps of ``[[env.reset]]``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.tasks.process.process_settings import Condition, EnvSettings, ResetStep, tick_s
from soulslab.errors import SiphonError, WaitTimeoutError
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.session import LOADING, Session, Step
from soulslab.siphon.tick_alignment import TickAlignment


class ResetProcedure:
    """Runs the reset steps of a profile.

    If the game is only observed, only the waits of the steps are done, followed by a wait until no end condition holds.
    """

    def __init__(self, settings: EnvSettings, profile: Profile, is_read_only: bool) -> None:
        self._settings = settings
        self._keys = profile.keys
        self._tick_s = tick_s(profile)
        self._alignment = TickAlignment(profile)
        steps = settings.reset or (ResetStep(restart=True),)
        self._is_read_only = is_read_only
        self._steps = tuple(step for step in steps if step.wait is not None) if is_read_only else steps
        written = [name for step in self._steps for name in (*(step.write or ()), *(step.copy or ()))]
        copied = [name for step in self._steps for name in (step.copy or {}).values()]
        awaited = [step.wait.attribute for step in self._steps if step.wait is not None]
        #: Attributes that the steps write, copy or wait for.
        self.names = tuple(dict.fromkeys((*written, *copied, *awaited)))

    def run(self, holder: SessionHolder, deadline: Deadline) -> None:
        """Bring the game to the start of an episode. Raises `SiphonError`; a restart of the game may then help."""
        is_fresh = holder.is_lost or not holder.is_open
        if self._is_read_only:
            if holder.is_lost:
                holder.reopen()
            self._await_episode(holder.session, deadline)
            return
        if holder.is_lost:
            holder.recover(deadline)
        is_aligned = self._run_all(holder, is_fresh, deadline)
        # The game may have made no ticks before the steps (in a menu), but makes ticks after them.
        self._alignment.align(holder.session)
        if not is_aligned and not any(step.restart for step in self._steps):
            # Without alignment at the start, the steps may have ended a tick off.
            self._run_all(holder, is_fresh, deadline)

    def refuse_end(self, values: Mapping[str, Value]) -> None:
        """Raise `WaitTimeoutError` if an end condition holds after the reset."""
        for name, condition in self._settings.end.items():
            if condition.holds(values):
                hint = f"env.end.{name} ({condition}) holds after env.reset; wait there until it no longer holds"
                raise WaitTimeoutError("the start of an episode", 0.0, hint)

    def _await_episode(self, session: Session, deadline: Deadline) -> None:
        """Wait for the conditions of `env.reset`, and then until no end condition holds."""
        for step in self._steps:
            self._run_step(step, session, deadline)
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
            deadline.check("an episode to begin", cause, "an end condition of the profile holds")

    def _run_all(self, holder: SessionHolder, is_fresh: bool, deadline: Deadline) -> bool:
        """Run all steps; return whether the ticks of the game were aligned at the start."""
        is_aligned = self._prepare(holder.session)
        for step in self._steps:
            if step.restart:
                if not is_fresh:
                    holder.recover(deadline)
                    is_aligned = self._prepare(holder.session)
            else:
                self._run_step(step, holder.session, deadline)
            deadline.check("the steps of env.reset")
        return is_aligned

    def _prepare(self, session: Session) -> bool:
        """Release all keys, stop the game's time, and return whether the ticks could be aligned."""
        session.step(Step(held=(), advance_s=self._tick_s, attributes=()))
        try:
            self._alignment.align(session)
        except WaitTimeoutError:  # the game makes no ticks, as in a menu; it must make ticks after the steps
            return False
        return True

    def _run_step(self, step: ResetStep, session: Session, deadline: Deadline) -> None:
        seconds = self._length_s(step)
        for name in step.tap or ():
            session.step(Step(held=(self._keys[name],), advance_s=seconds, attributes=()))
            session.step(Step(held=(), advance_s=seconds, attributes=()))
        if step.hold is not None:
            held = tuple(self._keys[name] for name in step.hold)
            session.step(Step(held=held, advance_s=seconds, attributes=()))
            session.step(Step(held=(), attributes=()))
        if step.write:
            session.write(step.write)
        if step.copy:
            values = session.snapshot(tuple(dict.fromkeys(step.copy.values())))
            session.write({name: values[origin] for name, origin in step.copy.items()})
        if step.wait is not None:
            self._wait(step.wait, seconds, session, deadline)

    def _wait(self, condition: Condition, limit_s: float, session: Session, deadline: Deadline) -> None:
        """Advance ticks until a condition holds. A value that cannot be read does not satisfy a comparison."""
        cause: SiphonError | None = None
        for tick in range(round(limit_s / self._tick_s) + 1):
            advance_s = self._tick_s if tick else 0.0
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
        if not self._alignment.attribute:
            return step.s
        # Whole ticks; otherwise the episode would begin between two ticks, and its first step would lose one.
        return math.ceil(round(step.s / self._tick_s, 6)) * self._tick_s


def read_each(session: Session, names: Sequence[str]) -> dict[str, Value]:
    """Read attributes one by one; omit attributes that cannot be read now."""
    values = {}
    for name in names:
        with contextlib.suppress(*LOADING):
            values[name] = session.read(name)
    return values
