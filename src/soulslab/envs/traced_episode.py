"""Playing an episode with given keys, and recording values, frames and times of each step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import psutil

from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.game.timing import has_restarted, ticks_between
from soulslab.envs.tasks.process.process_settings import EnvSettings, tick_s
from soulslab.envs.tasks.process.reset_procedure import ResetProcedure, read_each
from soulslab.envs.trace import Pixels, hash_frame
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.session import LOADING, Session, Step

#: Wall time in which nothing of a paused game may change, and between two reads of it.
PAUSE_S = 0.5
POLL_S = 0.05

#: Callback with the index of a step, its frame, and the hash of the frame.
OnFrame = Callable[[int, Pixels, bytes], None]


class AttributeReader:
    """Reads all attributes that are readable; attributes that are not are missing from the values.

    The attributes that were readable the last time are read together in one call.
    """

    def __init__(self, session: Session) -> None:
        self.names = self._together = tuple(session.examine())

    def step(self, session: Session, step: Step) -> tuple[Mapping[str, Value], Pixels]:
        """Play a step with a frame; return the values and the frame after it."""
        try:
            result = session.step(msgspec.structs.replace(step, attributes=self._together))
        except LOADING:  # raised after time has passed, so only the read is repeated
            frame = session.capture(step.frame or FrameFormat())
            return self._complete(session, {}), frame.pixels
        if result.frame is None:
            raise AssertionError("a step with a frame returned no frame")
        return self._complete(session, result.snapshot), result.frame.pixels

    def read(self, session: Session) -> Mapping[str, Value]:
        """Return the current values."""
        try:
            return self._complete(session, session.snapshot(self._together))
        except LOADING:
            return self._complete(session, {})

    def _complete(self, session: Session, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Read the missing attributes one by one, and select the attributes to read together the next time."""
        if len(values) < len(self.names):
            values = {**values, **read_each(session, [name for name in self.names if name not in values])}
            self._together = tuple(name for name in self.names if name in values)
        return values


class TracedEpisode:
    """Plays an episode and records values, frames and times after each step.

    If an end condition is true, or the tick counter cannot be read, the reset procedure of the profile is executed and
    the episode continues.

    Attributes:
        rows: Values after each step; a value that could not be read is missing.
        hashes: Hash of the frame after each step.
        n_ticks: Ticks of each step; None if the counter could not be read, the game has reset it to 0, or the episode
            ended before all ticks of the step had passed.
        took_s: Wall time of each step.
        waited_s: Part of it in which the game, its X server or this thread was ready to run and had no processor; the
            longest of the three waits, 0.0 on kernels without /proc/PID/schedstat.
        processor_s: Processor time of the game and its X server in all steps.
        n_resets: Number of resets within the episode.
    """

    def __init__(self, profile: Profile, env: EnvSettings, holder: SessionHolder) -> None:
        self._env = env
        self._holder = holder
        self._tick = profile.clock.tick_attribute
        self._tick_s = tick_s(profile)
        self._tick_fact = profile.attributes.get(self._tick)
        self._reset = ResetProcedure(env, profile, is_read_only=False)
        self._ticks: int | None = None
        self._others = set(_times_of_children())
        self._begin()
        self.reader = AttributeReader(self.session)
        self.rows: list[Mapping[str, Value]] = []
        self.hashes: list[bytes] = []
        self.n_ticks: list[int | None] = []
        self.took_s: list[float] = []
        self.waited_s: list[float] = []
        self.processor_s = 0.0
        self.n_resets = 0

    @property
    def session(self) -> Session:
        """The session of the game."""
        return self._holder.session

    def play(self, held: Sequence[tuple[str, ...]], step_s: float, frame: FrameFormat, on_frame: OnFrame) -> None:
        """Play steps of the length `step_s` in game time, each with its held keys; call `on_frame` with each frame."""
        is_over = False
        n_expected = round(step_s / self._tick_s)
        times_s = _times_of_children()
        for i, keys in enumerate(held):
            if is_over:
                self._add_times_since(times_s)
                self._begin()
                self.n_resets += 1
                times_s = _times_of_children()
            step = Step(held=keys, advance_s=step_s, frame=frame)
            waits_s = _waits_for_processor(times_s.keys() - self._others)
            began_s = time.perf_counter()
            values, pixels = self.reader.step(self.session, step)
            took_s = time.perf_counter() - began_s
            waits_now_s = _waits_for_processor(waits_s)
            waited_s = max((waits_now_s[name] - waits_s[name] for name in waits_now_s), default=0.0)
            self.took_s.append(took_s)
            self.waited_s.append(min(waited_s, took_s))  # the waits are read shortly before and after the step
            self.rows.append(values)
            n_ticks = self._count_ticks(values, n_expected)
            is_over = self._has_ended(values)
            if is_over and n_ticks is not None and 0 < n_ticks < n_expected:
                n_ticks = None  # the episode ended within the step, and the counter may have stopped then
            self.n_ticks.append(n_ticks)
            self.hashes.append(hash_frame(pixels))
            on_frame(i, pixels, self.hashes[-1])
        self._add_times_since(times_s)

    def equals(self, other: TracedEpisode) -> bool:
        """Return whether both episodes have the same frames, and the same bits of all values, in each step."""
        return self.hashes == other.hashes and list(map(_bits, self.rows)) == list(map(_bits, other.rows))

    def find_motion(self, frame: FrameFormat) -> str:
        """Return what changes while the game is paused; "" if nothing changes."""
        session = self.session
        session.clock.pause()
        values, pixels = self.reader.read(session), hash_frame(session.capture(frame).pixels)
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < PAUSE_S:
            time.sleep(POLL_S)
            now = self.reader.read(session)
            for name in self.reader.names:
                is_read = name in values, name in now
                if is_read[0] != is_read[1] or (is_read[0] and not np.array_equal(values[name], now[name])):
                    return f"attribute {name!r} changed from {values.get(name)} to {now.get(name)}"
            if hash_frame(session.capture(frame).pixels) != pixels:
                return f"the picture changed within {passed_s + POLL_S:.2f} s of wall time"
        return ""

    def _add_times_since(self, before_s: Mapping[int, float]) -> None:
        """Add the processor time that processes of the session have used since a time."""
        now_s = _times_of_children()
        self.processor_s += sum(now_s[pid] - before_s[pid] for pid in now_s.keys() & before_s.keys() - self._others)

    def _begin(self) -> None:
        """Play the reset procedure."""
        self._reset.run(self._holder, Deadline(self._env.reset_deadline_s))
        if self._env.end:
            names = dict.fromkeys(condition.attribute for condition in self._env.end.values())
            self._reset.refuse_end(self.session.snapshot(tuple(names)))
        self._ticks = int(self.session.read(self._tick)) if self._tick else None

    def _count_ticks(self, values: Mapping[str, Value], n_expected: int) -> int | None:
        """Return the ticks since the last step; None if they are unknown."""
        before, self._ticks = self._ticks, int(values[self._tick]) if self._tick in values else None
        if before is None or self._ticks is None or self._tick_fact is None:
            return None
        n_ticks = ticks_between(before, self._ticks, self._tick_fact)
        return None if has_restarted(n_ticks, self._ticks, n_expected) else n_ticks

    def _has_ended(self, values: Mapping[str, Value]) -> bool:
        if self._tick and self._ticks is None:
            return True
        return any(condition.holds(values) for condition in self._env.end.values())


def _bits(values: Mapping[str, Value]) -> dict[str, tuple[str, bytes]]:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}


def _times_of_children() -> dict[int, float]:
    """Return the processor time in seconds of each child process and its descendants."""
    times = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # the process has just ended
            used = process.cpu_times()
            times[process.pid] = used.user + used.system
    return times


def _waits_for_processor(pids: Iterable[int | str]) -> dict[int | str, float]:
    """Return how long the main threads of processes, and this thread, have waited for a processor since they started.

    See "schedstats" in the documentation of the Linux kernel.
    """
    waits_s: dict[int | str, float] = {}
    for name in {*pids, "thread-self"}:
        with contextlib.suppress(OSError):  # the process has just ended, or the kernel does not count the waits
            waits_s[name] = int(Path(f"/proc/{name}/schedstat").read_text().split()[1]) / 1e9
    return waits_s
