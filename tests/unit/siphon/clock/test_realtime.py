"""The realtime clock."""

import time

import pytest

from soulslab.errors import ClockUnavailableError, ProcessExitedError
from soulslab.siphon.clock import realtime
from support.clock_contract import ClockContract
from support.sleeper import sleeping_process


@pytest.fixture
def process():
    with sleeping_process() as process:
        yield process


@pytest.fixture
def clock(process):
    clock = realtime.RealtimeClock(process.pid)
    yield clock
    clock.close()


class TestRealtimeClock(ClockContract):
    can_pause = False

    @pytest.fixture
    def clock(self, clock):
        return clock

    @pytest.fixture
    def end_game(self, process):
        def end_game():
            process.kill()
            process.wait()

        return end_game


class StoppedTime:
    """Wall time that advances only by waiting or by the test."""

    def __init__(self):
        self.now_s = 1000.0

    def perf_counter(self):
        return self.now_s


@pytest.fixture
def wall(clock, monkeypatch):
    wall = StoppedTime()
    monkeypatch.setattr(realtime.time, "perf_counter", wall.perf_counter)

    def wait(seconds):
        wall.now_s += max(seconds, 0.0)

    monkeypatch.setattr(clock._watch, "wait", wait)
    return wall


def test_it_waits_so_long(clock, wall):
    assert clock.advance(0.25).elapsed_s == 0.25
    assert wall.now_s == 1000.25


def test_work_of_the_caller_does_not_slow_the_clock(clock, wall):
    clock.advance(0.25)
    wall.now_s += 0.125
    advance = clock.advance(0.25)
    assert (advance.elapsed_s, advance.late_s) == (0.25, 0.0)
    assert wall.now_s == 1000.5


def test_a_late_step_is_reported_and_the_next_one_catches_up(clock, wall):
    clock.advance(0.25)
    wall.now_s += 0.375
    advance = clock.advance(0.25)
    assert (advance.elapsed_s, advance.late_s) == (0.375, 0.125)
    assert clock.advance(0.25).elapsed_s == 0.125


def test_after_a_long_break_the_beat_starts_afresh(clock, wall):
    clock.advance(0.25)
    wall.now_s += 100.0
    advance = clock.advance(0.25)
    assert (advance.elapsed_s, advance.late_s) == (100.25, 99.75)
    assert clock.advance(0.25) == realtime.Advance(0.25, 0.25, 0.0)


def test_the_clock_does_not_pause_and_has_no_speed(clock):
    with pytest.raises(ClockUnavailableError, match="cannot pause; let soulslab start the game"):
        clock.pause()
    with pytest.raises(ClockUnavailableError, match="cannot run at 2x"):
        clock.run(2.0)


def test_a_game_that_ends_during_a_step_ends_the_step(process, clock):
    process.terminate()
    started_s = time.monotonic()
    with pytest.raises(ProcessExitedError):
        clock.advance(300.0)
    assert time.monotonic() - started_s < 150.0  # it did not wait to the end


def test_a_clock_for_an_exited_process_is_an_error(process):
    process.kill()
    process.wait()
    with pytest.raises(ProcessExitedError):
        realtime.RealtimeClock(process.pid)
