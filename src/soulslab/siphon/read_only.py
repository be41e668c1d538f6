"""Observing a game without changing it: read-only input, read-only clock, and a session that waits in real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NoReturn

import msgspec

from soulslab.closing import Closing
from soulslab.errors import ReadOnlyError
from soulslab.siphon.attributes.pointer_chains import ChainNumber, Number
from soulslab.siphon.clock import Advance, Clock
from soulslab.siphon.input import Input
from soulslab.siphon.profile import ClockGrade, Value
from soulslab.siphon.session import Session, SessionInfo, Step, StepResult


def refuse_change(what: str) -> NoReturn:
    """Raise `ReadOnlyError` for an action, as ``write hp``."""
    raise ReadOnlyError(
        f"cannot {what}: the session is read-only, so the game can be observed and not changed; open the session "
        f"without is_read_only=True, or start its server without --read-only"
    )


def _refusing(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises `ReadOnlyError` for any arguments."""

    def refuse(*_: object, **__: object) -> NoReturn:
        refuse_change(what)

    return refuse


class ReadOnlyInput:
    """Keyboard and mouse that refuse every action (`soulslab.siphon.input.Input`)."""

    set_held = type = _refusing("send keys")
    set_pad = _refusing("set the gamepad")
    move_mouse = _refusing("move the mouse")

    def __init__(self, part: Input) -> None:
        self.backend = part.backend
        self._part = part

    @property
    def held(self) -> frozenset[str]:
        """See `Input.held`."""
        return self._part.held

    def close(self) -> None:
        """See `Input.close`; no key is held."""


class ReadOnlyClock:
    """Clock that refuses every change (`soulslab.siphon.clock.Clock`); `grade` replaces the grade that it reports."""

    run = _refusing("change the speed of the game")
    pause = _refusing("pause the game")
    advance = _refusing("advance the time of the game")

    def __init__(self, clock: Clock, grade: ClockGrade | None = None) -> None:
        self.grade: ClockGrade = grade or clock.grade
        self._clock = clock

    @property
    def game_time_s(self) -> float:
        """See `Clock.game_time_s`."""
        return self._clock.game_time_s

    @property
    def speed(self) -> float:
        """See `Clock.speed`."""
        return self._clock.speed

    def close(self) -> None:
        """See `Clock.close`; the session closes its clock."""


class ObservedSession(Closing):
    """A session with a game that a person or another program controls (`soulslab.siphon.session.Session`).

    Everything that changes the game raises `ReadOnlyError`. The game runs in real time: a step waits for its length in
    wall time, and reads. Consecutive steps keep their rate; a step that is late by its own length or more is not caught
    up. The underlying session is closed with this one.
    """

    restart = _refusing("restart the game")

    def __init__(self, session: Session) -> None:
        self.profile = session.profile
        self.read, self.snapshot, self.read_number = session.read, session.snapshot, session.read_number
        self.examine, self.capture = session.examine, session.capture
        self._session = session
        self._ended_s = 0.0
        self._due_s = 0.0

    @property
    def info(self) -> SessionInfo:
        """See `Session.info`."""
        return msgspec.structs.replace(self._session.info, is_read_only=True, clock_grade="realtime")

    @property
    def input(self) -> Input:
        """See `Session.input`."""
        return ReadOnlyInput(self._session.input)

    @property
    def clock(self) -> Clock:
        """See `Session.clock`."""
        return ReadOnlyClock(self._session.clock, "realtime")

    def write(self, values: Mapping[str, Value]) -> None:
        """Raise `ReadOnlyError`."""
        refuse_change(f"write {', '.join(values)}")

    def write_number(self, where: ChainNumber, value: Number) -> None:
        """Raise `ReadOnlyError`."""
        del value
        refuse_change(f"write a number behind {where.base!r}")

    def step(self, step: Step) -> StepResult:
        """See `Session.step`; `Step.held` has to be None or empty, and `Step.pad` None or at rest."""
        if step.held:
            refuse_change(f"hold {', '.join(step.held)}")
        if step.pad is not None and not step.pad.is_at_rest:
            refuse_change("set the gamepad")
        if step.mouse_px != (0, 0):
            refuse_change("move the mouse")
        advance = self._wait(step.advance_s) if step.advance_s else Advance(0.0, 0.0)
        seen = self._session.step(Step(attributes=step.attributes, frame=step.frame, deadline_s=step.deadline_s))
        return StepResult(advance, seen.snapshot, seen.frame)

    def close(self) -> None:
        """See `Session.close`."""
        self._session.close()

    def _wait(self, seconds: float) -> Advance:
        """Wait until `seconds` after the end of the previous wait."""
        now_s = time.perf_counter()
        from_s = self._ended_s or now_s
        if now_s - self._due_s >= 2 * seconds:
            self._due_s = from_s = now_s
        self._due_s += seconds
        time.sleep(max(self._due_s - now_s, 0.0))
        self._ended_s = time.perf_counter()
        return Advance(seconds, self._ended_s - from_s, late_s=max(self._ended_s - self._due_s, 0.0))
