"""The search for tick counters in synthetic memory that changes with game time."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from soulslab.siphon.scanner.reading import writable_regions
from soulslab.siphon.scanner.tick_search import TickSearch, exact_period_s
from soulslab.testing.fake_memory import FakeMemory

START = 0x10000


class SyntheticGame:
    """Memory with integers that are functions of game time in milliseconds.

    Args:
        values: From an offset to the function of the time and the number of steps that have been made.
    """

    def __init__(self, values):
        self.memory = FakeMemory()
        self.data = self.memory.map(START, bytearray(0x4000))
        self.values = values
        self.time_us = 0
        self.n_steps = 0
        self.advance(0.0)

    def advance(self, seconds):
        self.time_us += round(seconds * 1e6)
        self.n_steps += 1
        for offset, value in self.values.items():
            struct.pack_into("<i", self.data, offset, int(value(self.time_us / 1000, self.n_steps)))

    def find(self, value_type="i32"):
        return TickSearch(self.memory, self.advance, value_type).find(writable_regions(self.memory))


def counters_of(game):
    return {counter.address - START: counter for counter in game.find().counters}


@pytest.mark.parametrize("hz", [1000 / 63, 22.2222222222222, 35, 50, 62.5, 100, 250])
def test_a_tick_counter_is_found_with_its_exact_period(hz):
    game = SyntheticGame({0x100: lambda ms, _: ms * hz / 1000 + 7})
    counter = counters_of(game)[0x100]
    assert exact_period_s(counter.period_s, counter.tolerance_s) == pytest.approx(1 / hz, rel=1e-9)


@pytest.mark.parametrize(("value_type", "bits"), [("u16", 16), ("u8", 8)])
def test_a_short_counter_is_found_although_it_starts_again_at_0(value_type, bits):
    def word(ms, n_steps):
        """Return a word whose low bits are unrelated to ticks and whose high bits count them."""
        count = int(ms // 20 + 2**bits - 30) % 2**bits
        value = count << bits | n_steps * 7 % 2**bits
        return value - 2**32 if value >= 2**31 else value

    game = SyntheticGame({0x100: word, 0x200: lambda ms, _: ms // 20 % 16})
    assert not game.find().counters
    (counter,) = game.find(value_type).counters
    assert counter.address - START == 0x100 + bits // 8
    assert counter.period_s == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize(("value_type", "ms_each"), [("u8", 0.5), ("u8", 0.25), ("u16", 1 / 1024)])
def test_the_upper_half_of_a_clock_is_not_a_tick_counter(value_type, ms_each):
    game = SyntheticGame({0x100: lambda ms, _: ms / ms_each % 2**31, 0x200: lambda ms, _: ms // 20})
    found = game.find(value_type)
    assert {counter.address - START for counter in found.counters} == {0x200}


def test_a_short_counter_beside_a_countdown_is_found():
    game = SyntheticGame({0x100: lambda ms, _: int(ms // 20 % 256) << 8 | int(255 - ms // 20 % 256)})
    assert [counter.address - START for counter in game.find("u8").counters] == [0x101]


def test_other_integers_are_no_tick_counters():
    game = SyntheticGame(
        {
            0x100: lambda ms, _: ms,  # a clock
            0x104: lambda ms, _: ms // 20 * 20,  # a clock that is read once in each frame
            0x108: lambda ms, _: -(ms // 20),  # a countdown
            0x10C: lambda ms, _: ms // 20 % 16,  # the number of a picture
            0x110: lambda _, n_steps: n_steps,  # a frame in each step of the clock
            0x114: lambda ms, _: ms // 20 + 3 * (ms > 3000),  # it skips
            0x118: lambda ms, _: ms // 500,  # too slow
            0x11C: lambda ms, _: ms // 20 * 2,  # it counts by two
            0x120: lambda ms, _: np.random.default_rng(int(ms)).integers(1 << 30),
            0x200: lambda ms, _: ms // 20,
        }
    )
    findings = game.find()
    assert [counter.address - START for counter in findings.counters] == [0x200]
    assert findings.n_frame_counters == 1
    assert findings.n_clocks >= 2


def test_counters_are_ordered_by_rate_and_then_by_value():
    game = SyntheticGame(
        {
            0x100: lambda ms, _: ms // 40,
            0x200: lambda ms, _: ms // 20,
            0x300: lambda ms, _: ms // 20 + 1000,
        }
    )
    assert [counter.address - START for counter in game.find().counters] == [0x300, 0x200, 0x100]


def test_ticks_that_are_rounded_to_sleeps_of_10_ms_are_regular():
    game = SyntheticGame({0x100: lambda ms, _: (ms // 10 * 10) / 66})
    assert counters_of(game)[0x100].period_s == pytest.approx(0.066, rel=0.01)


def test_memory_freed_during_the_search_is_left_out():
    game = SyntheticGame({0x100: lambda ms, _: ms // 20})
    other = game.memory.map(START + 0x10000, bytearray(0x1000))

    def advance(seconds):
        game.advance(seconds)
        struct.pack_into("<i", other, 0x10, game.time_us // 20000)
        if game.n_steps == 2500:
            game.memory.unmap(START + 0x10000)

    findings = TickSearch(game.memory, advance).find(writable_regions(game.memory))
    assert [counter.address for counter in findings.counters] == [START + 0x100]


def test_a_counter_of_another_thread_is_left_out():
    game = SyntheticGame({0x100: lambda ms, _: ms // 46, 0x104: lambda ms, _: ms // 33 + 5})
    program = game.memory.map(START + 0x10000, bytearray(0x100))

    def advance(seconds):
        game.advance(seconds)
        struct.pack_into("<i", program, 0x10, hash(game.time_us // 33000))

    heap, data = writable_regions(game.memory)
    findings = TickSearch(game.memory, advance).find([heap], [data])
    assert [counter.address - START for counter in findings.counters] == [0x104]


def test_a_trial_counts_lost_and_doubled_ticks():
    growth = [1] * 10 + [0] * 3 + [2] + [1] * 5 + [-4]
    counts = np.cumsum(growth)
    game = SyntheticGame({})

    def step(number):
        struct.pack_into("<i", game.data, 0x100, int(counts[number]))

    trial = TickSearch(game.memory, game.advance).trial(np.array([START + 0x100], np.uint64), step, len(growth))[0]
    assert (trial.n_lost, trial.n_doubled, trial.n_faults) == (3, 2, 5)


def test_the_frame_period_is_measured_where_no_counter_is():
    game = SyntheticGame({offset: lambda ms, _: hash(ms // 33) for offset in range(0x100, 0x140, 4)})
    search = TickSearch(game.memory, game.advance)
    assert search.frame_period_s(writable_regions(game.memory)) == pytest.approx(0.033, abs=1e-5)


def test_memory_that_changes_in_each_step_has_no_frame_period():
    game = SyntheticGame({0x100: lambda _, n_steps: n_steps})
    search = TickSearch(game.memory, game.advance)
    assert search.frame_period_s(writable_regions(game.memory)) is None


@pytest.mark.parametrize(
    ("measured_s", "exact_s"),
    [(0.02861, 1 / 35), (0.0300001, 0.03), (0.016668, 1 / 60), (0.0629, 0.0629), (0.01999, 0.02)],
)
def test_a_measured_period_is_snapped_to_whole_milliseconds_or_hertz(measured_s, exact_s):
    assert exact_period_s(measured_s, 5e-5) == pytest.approx(exact_s, rel=1e-9)
