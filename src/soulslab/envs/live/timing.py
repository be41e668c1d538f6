"""When keys go down and when the game is looked at: in lockstep, or in real time, with added delay or without."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

import msgspec

from soulslab.envs.live.actions import Keys
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.clock import Advance
from soulslab.siphon.session import Session, Step, StepResult

TIMINGS = ("lockstep", "realtime")


class TimingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When things happen.

    Attributes:
        step_s: Game time of a decision.
        latency_s: Game time from a look to the keys that come of it, beside what the agent takes.
        speed: Game seconds per wall second, where the game runs freely, or in steps where its speed is what steps it
            (a scaled clock).
        deadline_s: Wall time that the game may take for a decision.
        is_paced: Let a decision in lockstep last as long for an onlooker as in the game.
    """

    step_s: float = 0.1
    latency_s: float = 0.0
    speed: float = 1.0
    deadline_s: float = 10.0
    is_paced: bool = False


class Look(msgspec.Struct, frozen=True):
    """What is looked at.

    Attributes:
        attributes: Names of what is read.
        frame: Picture that is taken; None for none.
    """

    attributes: tuple[str, ...]
    frame: FrameFormat | None


class StepTimes:
    """Wall time of the parts of each step in s: a list each, in the order of the steps.

    Attributes:
        input_s: Keys.
        advance_s: The game's own: from letting its time go to its standstill.
        snapshot_s: Reading.
        capture_s: Taking a picture.
        features_s: All the rest of `step`, in this process.
    """

    def __init__(self) -> None:
        self.input_s: list[float] = []
        self.advance_s: list[float] = []
        self.snapshot_s: list[float] = []
        self.capture_s: list[float] = []
        self.features_s: list[float] = []
        self._lists = (self.input_s, self.advance_s, self.snapshot_s, self.capture_s)
        self._spent = [0.0] * len(self._lists)
        self._began_s = 0.0

    def begin_step(self) -> None:
        """Begin a step."""
        self._spent = [0.0] * len(self._lists)
        self._began_s = time.perf_counter()

    def spend(self, *seconds: float) -> None:
        """Add what a part of a step took: keys, game, reading, picture."""
        self._spent = [spent + more for spent, more in zip(self._spent, seconds, strict=True)]

    def end_step(self) -> None:
        """End a step."""
        self.features_s.append(time.perf_counter() - self._began_s - sum(self._spent))
        for times, spent in zip(self._lists, self._spent, strict=True):
            times.append(spent)


class Timing(Protocol):
    """Plays decisions, each from a look to the next."""

    times: StepTimes | None

    def begin(self, session: Session) -> None:
        """Begin an episode, whose first look is due right after this."""
        ...

    def play(self, session: Session, keys: Keys, look: Look) -> tuple[StepResult, float]:
        """Play a decision; return what was seen at its end, and by how much that was late, in s of wall time."""
        ...


class Lockstep:
    """The game stands while the agent thinks, and moves on by exactly one decision (`Timing`)."""

    def __init__(self, options: TimingOptions) -> None:
        self._options = options
        self.times: StepTimes | None = None
        self._waiting: deque[Keys] = deque()
        # A delay of whole decisions keeps keys for so many; the rest passes before they go down.
        self._n_kept, self._rest_s = _split(options.latency_s, options.step_s)
        self._next_at = 0.0
        self._speed: float | None = None

    def begin(self, session: Session) -> None:
        """See `Timing.begin`."""
        # In lockstep proper the time of a step passes at once.
        grade = session.info.clock_grade
        self._speed = self._options.speed if grade == "scaled" else None
        # A reset that had nothing to wait for leaves the game running.
        if grade == "scaled" or (grade == "lockstep" and session.clock.speed > 0.0):
            session.clock.pause()
        self._waiting.clear()
        self._next_at = time.monotonic()

    def play(self, session: Session, keys: Keys, look: Look) -> tuple[StepResult, float]:
        """See `Timing.play`."""
        options = self._options
        due: Keys | None = keys
        if options.latency_s:
            self._waiting.append(keys)
            due = self._waiting.popleft() if len(self._waiting) > self._n_kept else None
            if self._rest_s:
                rest = Step(advance_s=self._rest_s, attributes=(), deadline_s=options.deadline_s, speed=self._speed)
                self._step(session, rest)
        step = Step(
            held=None if due is None else due.held,
            again=() if due is None else due.again,
            advance_s=options.step_s - self._rest_s,
            attributes=look.attributes,
            frame=look.frame,
            deadline_s=options.deadline_s,
            speed=self._speed,
        )
        result = self._step(session, step)
        if options.is_paced:
            self._next_at = max(self._next_at + options.step_s / options.speed, time.monotonic())
            _sleep_until(self._next_at)
        return result, result.advance.late_s

    def _step(self, session: Session, step: Step) -> StepResult:
        return session.step(step) if self.times is None else measured_step(session, step, self.times)


class Realtime:
    """The game runs on (`Timing`). Decisions end on a grid of wall time; one that is late does not move the next.

    Where one is late by whole decisions, those are left out.
    """

    def __init__(self, options: TimingOptions) -> None:
        self._options = options
        self.times: StepTimes | None = None
        self._step_s = options.step_s / options.speed
        self._latency_s = options.latency_s / options.speed
        self._waiting: deque[tuple[float, Keys]] = deque()
        self._end_at = 0.0

    def begin(self, session: Session) -> None:
        """See `Timing.begin`."""
        session.clock.run(self._options.speed)
        self._waiting.clear()
        self._end_at = time.monotonic()

    def play(self, session: Session, keys: Keys, look: Look) -> tuple[StepResult, float]:
        """See `Timing.play`."""
        now = time.monotonic()
        self._end_at += self._step_s
        if now > self._end_at:
            self._end_at += (now - self._end_at) // self._step_s * self._step_s
        self._waiting.append((now + self._latency_s, keys))
        while self._waiting and self._waiting[0][0] <= max(self._end_at, now):
            due_at, due = self._waiting.popleft()
            _sleep_until(due_at)
            step = Step(held=due.held, again=due.again, attributes=(), deadline_s=self._options.deadline_s)
            self._step(session, step)
        _sleep_until(self._end_at)
        late_s = max(time.monotonic() - self._end_at, 0.0)
        look_only = Step(attributes=look.attributes, frame=look.frame, deadline_s=self._options.deadline_s)
        return self._step(session, look_only), late_s

    def _step(self, session: Session, step: Step) -> StepResult:
        return session.step(step) if self.times is None else measured_step(session, step, self.times)


def make_timing(kind: str, options: TimingOptions) -> Timing:
    """Return one of `TIMINGS`."""
    return Lockstep(options) if kind == "lockstep" else Realtime(options)


def measured_step(session: Session, step: Step, times: StepTimes) -> StepResult:
    """Play a step in its parts, as `Session.step` of a local session does, and note how long each took."""
    started = time.perf_counter()
    if step.held is not None:
        session.input.set_held(step.held, step.again)
    sent = time.perf_counter()
    advance = Advance(requested_s=0.0, elapsed_s=0.0)
    if step.advance_s:
        advance = session.clock.advance(step.advance_s, deadline_s=step.deadline_s, speed=step.speed)
    advanced = time.perf_counter()
    snapshot = session.snapshot(step.attributes)
    read = time.perf_counter()
    frame = None if step.frame is None else session.capture(step.frame)
    times.spend(sent - started, advanced - sent, read - advanced, time.perf_counter() - read)
    return StepResult(advance, snapshot, frame)


def _split(latency_s: float, step_s: float) -> tuple[int, float]:
    """Return a delay as whole decisions and the rest in s."""
    latency_ns, step_ns = round(latency_s * 1e9), round(step_s * 1e9)
    n_whole, rest_ns = divmod(latency_ns, step_ns)
    return n_whole, rest_ns * 1e-9


def _sleep_until(moment: float) -> None:
    left_s = moment - time.monotonic()
    if left_s > 0.0:
        time.sleep(left_s)
