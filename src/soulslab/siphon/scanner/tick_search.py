"""Search for a tick counter: an integer that grows by one with each step of a game that is held in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import MemoryAccessError
from soulslab.siphon.memory import Memory, Region, chunks, read_scattered

Addresses: TypeAlias = NDArray[np.uint64]
Counts: TypeAlias = NDArray[np.unsignedinteger]
CounterType: TypeAlias = Literal["i32", "u16", "u8"]
Advance: TypeAlias = Callable[[float], object]
"""Lets game time pass, in seconds, in one step of the clock."""

#: Game time of one fine step.
FINE_S = 0.001
#: Game time between the readings of the first selection; different lengths exclude values that repeat.
ROUNDS_S = (0.5, 0.8, 0.6)
#: Rates of a tick counter, per second of game time.
MIN_HZ, MAX_HZ = 5.0, 1000.0
#: Fine steps in which the moments of change are measured: 12 ticks of the slowest counter.
N_FINE_STEPS = 2500
MIN_CHANGES = 10
#: Fine steps in which integers that are the upper part of longer ones are found: two ticks of the slowest counter.
N_CARRY_STEPS = 600
#: Most values that are read in each fine step.
MAX_CANDIDATES = 4000
#: A counter that changes in more than this part of the fine steps follows the steps and not a tick.
MAX_CHANGING = 0.7
#: Most by which the moments of change may differ from equal intervals, as a part of one: games that sleep in steps of
#: 10 ms tick that irregularly. Steps of whole ticks from the middle of a tick have half a tick to spare.
MAX_JITTER = 0.4
#: Intervals within so many fine steps of the median agree; the period is their mean if they are this part of all.
USUAL_STEPS, MIN_USUAL = 2.5, 0.7
#: Error of the first and last moment together: games round time to milliseconds, some of them twice.
ROUNDING_S = 0.004
#: Part of the ticks in which the data of the program has to change too.
MIN_ACTIVE = 0.8
#: Longest step that `LockstepClock.advance` makes in one part without a known tick.
PART_S = 0.016
#: How the values are read. They are unsigned, so that a counter which passes the end of its type grows by one, too.
DTYPES: dict[CounterType, np.dtype[np.unsignedinteger]] = {
    "i32": np.dtype("<u4"),
    "u16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
}


class TickCounter(msgspec.Struct, frozen=True):
    """An integer that grows by one at regular intervals, and its value at the end of the search.

    `period_s` is the measured game time between two ticks, and `tolerance_s` its uncertainty.
    """

    address: int
    period_s: float
    tolerance_s: float
    value: int


class TickFindings(msgspec.Struct, frozen=True):
    """Result of a search.

    Attributes:
        counters: The tick counters, fastest first; with the same rate the greatest value first.
        n_clocks: Number of integers that grow by game time, such as a time in milliseconds.
        n_frame_counters: Number of integers that grow by one in each step of the clock, however short.
    """

    counters: tuple[TickCounter, ...]
    n_clocks: int
    n_frame_counters: int


class TickTrial(msgspec.Struct, frozen=True):
    """Number of steps of one tick in which a counter did not grow by one.

    A counter that could not be read counts as lost, one that fell as doubled.
    """

    n_steps: int
    n_lost: int
    n_doubled: int

    @property
    def n_faults(self) -> int:
        """Steps that did not make exactly one tick."""
        return self.n_lost + self.n_doubled


class TickSearch:
    """Searches the memory of a paused game for tick counters; `advance` lets game time pass."""

    def __init__(self, memory: Memory, advance: Advance, value_type: CounterType = "i32") -> None:
        self.value_type = value_type
        self._memory = memory
        self._advance = advance
        self._dtype = DTYPES[value_type]

    def find(self, regions: Sequence[Region], program: Sequence[Region] = ()) -> TickFindings:
        """Search the integers of some regions.

        About 4.5 s of game time pass, in steps of `FINE_S`, and 0.6 s more for short integers. `program` is the data of
        the executable, for counters that lie outside of it: counters that grow while none of this data changes belong
        to another thread, such as the sound, and are excluded.
        """
        addresses = self._steady(regions)[:MAX_CANDIDATES]
        if not addresses.size:
            return TickFindings((), 0, 0)
        carries = self._carries(addresses)
        table, addresses, is_active = self._record(addresses[~carries], program)
        if not addresses.size:
            return TickFindings((), int(carries.sum()), 0)
        before = table[-1]
        self._advance(PART_S)
        after, is_readable = self.read(addresses)
        step_growth = after - before
        counters, n_clocks, n_frames = [], int(carries.sum()), 0
        for i, address in enumerate(addresses.tolist()):
            is_change = np.diff(table[:, i]) != 0
            is_fast = np.count_nonzero(is_change) > MAX_CHANGING * N_FINE_STEPS
            counter = _tick_counter(address, table[:, i])
            if counter is not None and _follows(is_change, is_active):
                counters.append(counter)
            elif counter is None and is_readable[i] and is_fast and step_growth[i] == 1:
                n_frames += 1
            else:
                n_clocks += 1
        counters.sort(key=lambda counter: (round(counter.period_s, 3), -counter.value, counter.address))
        return TickFindings(tuple(counters), n_clocks, n_frames)

    def frame_period_s(self, regions: Sequence[Region]) -> float | None:
        """Measure the time between two frames, in seconds of game time, by the moments at which memory changes.

        The regions are those that the game writes in each frame and at no other time: the data of its executable. None
        if the changes are not regular, or follow the steps of the clock.
        """
        last = [data.copy() for _, data in chunks(self._memory, regions)]
        n_changed = np.zeros(N_FINE_STEPS)
        for step in range(N_FINE_STEPS):
            self._advance(FINE_S)
            now = [data.copy() for _, data in chunks(self._memory, regions)]
            n_changed[step] = sum(
                np.count_nonzero(a != b) for a, b in zip(last, now, strict=False) if a.shape == b.shape
            )
            last = now
        if not n_changed.any():
            return None
        is_frame = n_changed > 0.25 * np.median(n_changed[n_changed > 0])
        moments = np.flatnonzero(is_frame)
        return _regular_period_s(moments)[0] if _is_regular(moments) else None

    def trial(self, addresses: Addresses, step: Callable[[int], object], n_steps: int) -> list[TickTrial]:
        """Play steps of one tick and count for each counter the steps without exactly one tick.

        More than 256 steps also exclude counters of 8 bits.
        """
        n_lost, n_doubled = np.zeros(addresses.size, np.int64), np.zeros(addresses.size, np.int64)
        last, was_readable = self.read(addresses)
        for number in range(n_steps):
            step(number)
            now, is_readable = self.read(addresses)
            growth = now - last
            is_known = is_readable & was_readable
            n_lost += ~is_known | (growth == 0)
            n_doubled += is_known & (growth != 0) & (growth != 1)
            last, was_readable = now, is_readable
        return [TickTrial(n_steps, int(a), int(b)) for a, b in zip(n_lost, n_doubled, strict=True)]

    def read(self, addresses: Addresses) -> tuple[Counts, NDArray[np.bool_]]:
        """Return the integers at some addresses, and which of them could be read; the others are 0."""
        data, is_readable = read_scattered(self._memory, addresses, self._dtype.itemsize)
        return data.view(self._dtype)[:, 0], is_readable

    def _steady(self, regions: Sequence[Region]) -> Addresses:
        """Return the addresses of the integers that grow at a stable rate."""
        size = self._dtype.itemsize
        snapshot = [
            (start, np.frombuffer(data[: data.size // size * size].tobytes(), self._dtype))
            for start, data in chunks(self._memory, regions)
        ]
        self._pass(ROUNDS_S[0])
        found, first_counts = [np.empty(0, np.uint64)], [np.empty(0, self._dtype)]
        for start, before in snapshot:
            buffer = np.empty(before.nbytes, np.uint8)
            try:
                self._memory.read_into(start, buffer.data)
            except MemoryAccessError:
                continue  # freed since the snapshot, so no counter lies here
            growth = buffer.view(self._dtype) - before
            indices = np.flatnonzero(_has_rate(growth, ROUNDS_S[0]))
            found.append(indices.astype(np.uint64) * np.uint64(size) + np.uint64(start))
            first_counts.append(growth[indices])
        addresses, counts = np.concatenate(found), [np.concatenate(first_counts)]
        values, keep = self.read(addresses)
        for seconds in ROUNDS_S[1:]:
            self._pass(seconds)
            now, is_readable = self.read(addresses)
            keep &= is_readable
            counts.append(now - values)
            values = now
        rates = sum(count.astype(np.float64) for count in counts) / sum(ROUNDS_S)
        for count, seconds in zip(counts, ROUNDS_S, strict=True):
            keep &= (np.abs(count - rates * seconds) <= 1.5 + 0.02 * rates * seconds) & _has_rate(count, seconds)
        return addresses[keep]

    def _carries(self, addresses: Addresses) -> NDArray[np.bool_]:
        """Return which short integers are the upper part of a longer one, such as the second byte of a clock.

        They grow when the part below them starts again at 0.
        """
        size = self._dtype.itemsize
        if size == DTYPES["i32"].itemsize:
            return np.zeros(addresses.size, np.bool_)
        both = np.concatenate([addresses, addresses - np.uint64(size)])
        n_grown, n_carried, n_below = np.zeros((3, addresses.size), np.int64)
        last, _ = self.read(both)
        for _ in range(N_CARRY_STEPS):
            self._advance(FINE_S)
            now, _ = self.read(both)
            has_grown, below_fell = np.split(now != last, 2)[0], np.split(now < last, 2)[1]
            n_grown += has_grown
            n_carried += has_grown & below_fell
            n_below += np.split(now != last, 2)[1]
            last = now
        # A countdown beside a counter falls in each tick as well, but it changes at no other time.
        return (n_grown > 0) & (n_carried >= MIN_ACTIVE * n_grown) & (n_below > 2 * n_grown)

    def _record(self, addresses: Addresses, program: Sequence[Region]) -> tuple[Counts, Addresses, NDArray[np.bool_]]:
        """Play the fine steps; return the values after each step, (n_steps + 1, n), and two more arrays.

        They are the n addresses that stayed readable, and in which steps the data of the program changed, (n_steps,).
        """
        table = np.zeros((N_FINE_STEPS + 1, addresses.size), self._dtype)
        is_active = np.zeros(N_FINE_STEPS, np.bool_)
        table[0], keep = self.read(addresses)
        last = self._copy(program)
        for step in range(N_FINE_STEPS):
            self._advance(FINE_S)
            table[step + 1], is_readable = self.read(addresses)
            keep &= is_readable
            now = self._copy(program)
            is_active[step] = now != last
            last = now
        return table[:, keep], addresses[keep], is_active

    def _copy(self, regions: Sequence[Region]) -> list[bytes]:
        return [data.tobytes() for _, data in chunks(self._memory, regions)]

    def _pass(self, seconds: float) -> None:
        for _ in range(round(seconds / FINE_S)):
            self._advance(FINE_S)


def exact_period_s(period_s: float, tolerance_s: float) -> float:
    """Return the exact period that a measured one stands for.

    Games wait whole milliseconds, or count a whole number of ticks per second: the nearer of both within the tolerance
    is returned; the measured period if neither is.
    """
    choices = (round(period_s * 1000) / 1000, 1 / max(round(1 / period_s), 1))
    nearest = min(choices, key=lambda choice: abs(choice - period_s))
    return nearest if abs(nearest - period_s) <= tolerance_s else period_s


def _has_rate(growth: Counts, seconds: float) -> NDArray[np.bool_]:
    is_in_range: NDArray[np.bool_] = (growth >= max(MIN_HZ * seconds - 1, 1)) & (growth <= MAX_HZ * seconds + 1)
    return is_in_range


def _follows(is_change: NDArray[np.bool_], is_active: NDArray[np.bool_]) -> bool:
    """Return whether a counter changes when the program does; True if the program never does."""
    if not is_active.any():
        return True
    return bool(np.count_nonzero(is_change & is_active) >= MIN_ACTIVE * np.count_nonzero(is_change))


def _tick_counter(address: int, values: Counts) -> TickCounter | None:
    """Return the tick counter for a column of fine readings; None if it is not a tick counter."""
    growth = np.diff(values)
    moments = np.flatnonzero(growth)
    if (growth[moments] != 1).any() or not _is_regular(moments):
        return None
    period_s, tolerance_s = _regular_period_s(moments)
    return TickCounter(address, period_s, tolerance_s, int(values[-1]))


def _is_regular(moments: NDArray[np.intp]) -> bool:
    """Return whether changes follow a grid of equal intervals that are longer than the fine steps."""
    if not MIN_CHANGES <= moments.size <= MAX_CHANGING * N_FINE_STEPS:
        return False
    grid = np.linspace(moments[0], moments[-1], moments.size)
    return bool(np.ptp(moments - grid) <= max(2.0, MAX_JITTER * float(grid[1] - grid[0])))


def _regular_period_s(moments: NDArray[np.intp]) -> tuple[float, float]:
    """Return the period of regular changes and its uncertainty, in seconds.

    If only most intervals agree, the others are exceptions (a new level, a long frame) and do not count.
    """
    intervals = np.diff(moments)
    is_usual = np.abs(intervals - np.median(intervals)) <= USUAL_STEPS
    n_usual = int(np.count_nonzero(is_usual))
    if MIN_USUAL * intervals.size <= n_usual < intervals.size:
        period = float(intervals[is_usual].mean())
    else:  # a line through all moments is more exact than their mean distance
        period = float(np.polyfit(np.arange(moments.size), moments, 1)[0])
    return period * FINE_S, ROUNDING_S / intervals.size
