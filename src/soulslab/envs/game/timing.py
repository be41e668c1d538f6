"""Steps of a game: sends the keys, lets time pass in lockstep or in real time, counts lost and doubled ticks."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import msgspec

from soulslab.errors import LostTickError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.clock import Advance
from soulslab.siphon.profile import Attribute, Profile
from soulslab.siphon.session import Session, Step, StepResult

_log = logging.getLogger(__name__)


class TimingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Durations of a step.

    Attributes:
        step_s: Game time of a decision.
        latency_s: Game time from a reading to the keys that follow from it, in addition to the time of the agent.
        speed: Game seconds per wall second in real time and with a scaled clock; in lockstep that of a paced step.
        deadline_s: Limit of wall time for a decision.
        is_paced: Whether a decision in lockstep takes as long in wall time as in the game, so that people can watch.
    """

    step_s: float = 0.1
    latency_s: float = 0.0
    speed: float = 1.0
    deadline_s: float = 10.0
    is_paced: bool = False


class Keys(msgspec.Struct, frozen=True):
    """Keys of a decision: the held keys, and which of them are pressed anew."""

    held: tuple[str, ...]
    again: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """Attributes and picture that are read at the end of a decision; None for no picture."""

    attributes: tuple[str, ...]
    frame: FrameFormat | None = None


class StepTimes:
    """Wall time of the parts of each step in s: a list for each part, in the order of the steps.

    Attributes:
        input_s: Sending keys.
        advance_s: Advancing the game.
        snapshot_s: Reading attributes.
        capture_s: Capturing the picture.
        features_s: The rest of `step`, in this process.
    """

    def __init__(self) -> None:
        self._lists: list[list[float]] = [[] for _ in range(5)]
        self.input_s, self.advance_s, self.snapshot_s, self.capture_s, self.features_s = self._lists
        self._spent = [0.0] * 4
        self._began_s = 0.0

    def begin_step(self) -> None:
        """Begin a step."""
        self._spent = [0.0] * 4
        self._began_s = time.perf_counter()

    def spend(self, *seconds: float) -> None:
        """Add the durations of the parts of a decision: keys, game, reading, picture."""
        self._spent = [spent + more for spent, more in zip(self._spent, seconds, strict=True)]

    def end_step(self) -> None:
        """End a step."""
        rest_s = time.perf_counter() - self._began_s - sum(self._spent)
        for times, spent in zip(self._lists, (*self._spent, rest_s), strict=True):
            times.append(spent)


class StepTiming(ABC):
    """Plays decisions, each from one reading to the next; `times` records their wall time, None records nothing."""

    def __init__(self, options: TimingOptions) -> None:
        self._options = options
        self.times: StepTimes | None = None

    @abstractmethod
    def begin(self, session: Session) -> None:
        """Begin an episode; its first reading follows immediately."""

    @abstractmethod
    def play(self, session: Session, keys: Keys, reading: Reading) -> tuple[StepResult, float]:
        """Play a decision; return the reading at its end, and by how much it was late, in s of wall time."""

    def _step(self, session: Session, step: Step) -> StepResult:
        if self.times is None:
            return session.step(step)
        # The parts of the step are played one after another, as `Session.step` of a local session does.
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
        frame = session.capture(step.frame) if step.frame is not None else None
        self.times.spend(sent - started, advanced - sent, read - advanced, time.perf_counter() - read)
        return StepResult(advance, snapshot, frame)


class LockstepTiming(StepTiming):
    """The game is paused between decisions, and advances by exactly one decision."""

    def __init__(self, options: TimingOptions) -> None:
        super().__init__(options)
        self._waiting: deque[Keys] = deque()
        # Keys wait for the whole decisions of the delay; the rest of it passes before they are sent.
        self._n_kept, rest_ns = divmod(round(options.latency_s * 1e9), round(options.step_s * 1e9))
        self._rest_s = rest_ns * 1e-9
        self._next_at = 0.0
        self._speed: float | None = None

    def begin(self, session: Session) -> None:
        """See `StepTiming.begin`."""
        # Only a scaled clock advances at a speed.
        grade = session.info.clock_grade
        self._speed = self._options.speed if grade == "scaled" else None
        # A reset without a wait leaves the game running.
        if grade == "scaled" or (grade == "lockstep" and session.clock.speed > 0.0):
            session.clock.pause()
        self._waiting.clear()
        self._next_at = time.perf_counter()

    def play(self, session: Session, keys: Keys, reading: Reading) -> tuple[StepResult, float]:
        """See `StepTiming.play`."""
        options = self._options
        due: Keys | None = keys
        if options.latency_s:
            self._waiting.append(keys)
            due = self._waiting.popleft() if len(self._waiting) > self._n_kept else None
            if self._rest_s:
                rest = Step(advance_s=self._rest_s, attributes=(), deadline_s=options.deadline_s, speed=self._speed)
                self._step(session, rest)
        step = Step(
            held=due.held if due else None,
            again=due.again if due else (),
            advance_s=options.step_s - self._rest_s,
            attributes=reading.attributes,
            frame=reading.frame,
            deadline_s=options.deadline_s,
            speed=self._speed,
        )
        result = self._step(session, step)
        if options.is_paced:
            self._next_at = max(self._next_at + options.step_s / options.speed, time.perf_counter())
            _sleep_until(self._next_at)
        return result, result.advance.late_s


class RealtimeTiming(StepTiming):
    """The game runs freely. Decisions end on a grid of wall time; a late one does not delay the next.

    A decision that is late by whole decisions skips them.
    """

    def __init__(self, options: TimingOptions) -> None:
        super().__init__(options)
        self._step_s = options.step_s / options.speed
        self._latency_s = options.latency_s / options.speed
        self._waiting: deque[tuple[float, Keys]] = deque()
        self._end_at = 0.0

    def begin(self, session: Session) -> None:
        """See `StepTiming.begin`."""
        session.clock.run(self._options.speed)
        self._waiting.clear()
        self._end_at = time.perf_counter()

    def play(self, session: Session, keys: Keys, reading: Reading) -> tuple[StepResult, float]:
        """See `StepTiming.play`."""
        now = time.perf_counter()
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
        late_s = max(time.perf_counter() - self._end_at, 0.0)
        read_only = Step(attributes=reading.attributes, frame=reading.frame, deadline_s=self._options.deadline_s)
        return self._step(session, read_only), late_s


def _sleep_until(moment: float) -> None:
    left_s = moment - time.perf_counter()
    if left_s > 0.0:
        time.sleep(left_s)


class TickCount:
    """Counts lost and doubled ticks of an episode in lockstep.

    With `on_lost_tick`, ``count`` counts them and logs the first one, ``error`` raises `LostTickError`.

    Attributes:
        attribute: Name of the tick counter (`ClockFacts.tick_attribute`); "" if the profile has none.
        value: Last value of the tick counter.
        n_ticks: Ticks of the last step.
        n_lost: Missing ticks of the episode.
        n_doubled: Surplus ticks of the episode.
    """

    def __init__(self, profile: Profile, on_lost_tick: str = "count") -> None:
        self.attribute = profile.clock.tick_attribute
        self._fact = profile.attributes.get(self.attribute)
        self._is_error = on_lost_tick == "error"
        self._has_logged = False
        self._n_steps = 0
        self.value = 0
        self.n_ticks = 0
        self.n_lost = 0
        self.n_doubled = 0

    def begin(self, ticks: int) -> None:
        """Begin an episode with this value of the tick counter."""
        self.value = ticks
        self._n_steps = self.n_ticks = self.n_lost = self.n_doubled = 0

    def add(self, ticks: int, n_expected: int | None) -> None:
        """Count a step that ends at a value of the tick counter; without `n_expected` only the total is counted."""
        before, self.value = self.value, ticks
        self.n_ticks = ticks_between(before, ticks, self._fact) if self._fact is not None else 0
        self._n_steps += 1
        if n_expected is None or self.n_ticks == n_expected or has_restarted(self.n_ticks, ticks, n_expected):
            return
        # If the counter has decreased to another value than a restart, all ticks of the step count as missing.
        self.n_lost += max(n_expected - max(self.n_ticks, 0), 0)
        self.n_doubled += max(self.n_ticks - n_expected, 0)
        error = LostTickError(self.attribute, self._n_steps, n_expected, self.n_ticks)
        if self._is_error:
            raise error
        if not self._has_logged:
            self._has_logged = True
            _log.warning("%s; further ones are counted but not logged (info: ticks_lost, ticks_doubled)", error)

    def info(self, n_ticks: int, *, is_exact: bool) -> dict[str, Any]:
        """Return the entries of ``info`` for a step with `n_ticks`, with the counts if the number of ticks is exact."""
        info = {"ticks": n_ticks}
        return info | {"ticks_lost": self.n_lost, "ticks_doubled": self.n_doubled} if is_exact else info


def has_restarted(n_ticks: int, after: int, n_expected: int) -> bool:
    """Return whether the game has reset its tick counter to 0 in a step, as some games do at each level.

    The number of ticks of such a step is unknown.
    """
    return n_ticks < 0 and 0 <= after <= n_expected


def ticks_between(before: int, after: int, attribute: Attribute) -> int:
    """Return the increase of a tick counter, including an overflow of its integer type."""
    if attribute.type[0] not in "iu" or attribute.scale != 1.0:
        return after - before
    size = 1 << int(attribute.type[1:])
    return (after - before + size // 2) % size - size // 2
