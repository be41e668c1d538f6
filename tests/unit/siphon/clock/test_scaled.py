"""The scaled clock of a game with a speed attribute."""

import subprocess
import sys
import time
from itertools import pairwise

import pytest

from soulslab.errors import ClockStalledError, ClockUnavailableError, ConfigError, PointerError, ProcessExitedError
from soulslab.siphon.clock.scaled import ScaledClock
from support.clock_contract import ClockContract


class Game:
    """Game with a speed attribute, whose time passes with wall time."""

    def __init__(self, speed=1.0, highest=10.0):
        self.is_alive = True
        self.highest = highest
        self.writes = []
        self._speed = speed
        self._time_s = 0.0
        self._since_s = time.monotonic()

    def read(self):
        self._check()
        return self._speed

    def write(self, speed):
        self._check()
        self._time_s, self._since_s = self.time_s(), time.monotonic()
        self._speed = min(speed, self.highest)
        self.writes.append(speed)

    def time_s(self):
        return self._time_s + (time.monotonic() - self._since_s) * self._speed

    def _check(self):
        if not self.is_alive:
            raise ProcessExitedError("process 1 has ended", pid=1)


@pytest.fixture
def game():
    return Game()


@pytest.fixture
def end_game(game):
    def end_game():
        game.is_alive = False

    return end_game


class TestByWallTime(ClockContract):
    @pytest.fixture
    def clock(self, game):
        return ScaledClock(game.read, game.write)

    @pytest.fixture
    def end_game(self, end_game):
        return end_game


class TestByGameTime(ClockContract):
    @pytest.fixture
    def clock(self, game):
        return ScaledClock(game.read, game.write, game_time=game.time_s)

    @pytest.fixture
    def end_game(self, end_game):
        return end_game


def test_a_step_runs_and_then_holds(game):
    clock = ScaledClock(game.read, game.write)
    clock.advance(0.001)
    assert game.writes == [1.0, 0.0]


def test_a_step_runs_at_the_requested_speed(game):
    clock = ScaledClock(game.read, game.write, game_time=game.time_s)
    began_s = time.monotonic()
    step = clock.advance(0.2, speed=4.0)
    assert game.writes == [4.0, 0.0]
    assert step.elapsed_s >= 0.2
    # The wall time that it took is what the game's took, and what it was held too late.
    assert time.monotonic() - began_s >= step.elapsed_s / 4.0
    assert step.late_s == pytest.approx((step.elapsed_s - 0.2) / 4.0)
    with pytest.raises(ConfigError, match="speed"):
        clock.advance(0.1, speed=0.0)


def test_a_step_that_was_too_long_shortens_the_next(game):
    clock = ScaledClock(game.read, game.write, game_time=game.time_s)
    steps = [clock.advance(0.002) for _ in range(20)]
    assert all(step.elapsed_s >= step.late_s >= 0.0 for step in steps)
    for before, step in pairwise(steps):
        assert step.elapsed_s - step.late_s == pytest.approx(max(0.002 - before.late_s, 0.0))


def test_a_game_without_progress_stalls(game):
    clock = ScaledClock(game.read, game.write, game_time=lambda: 5.0)
    with pytest.raises(ClockStalledError, match=r"0\.100 s short"):
        clock.advance(0.1, deadline_s=0.05)
    assert game.read() == 0.0  # and is held


def test_a_speed_without_effect_is_an_error(game):
    clock = ScaledClock(game.read, game.write)
    with pytest.raises(ClockUnavailableError, match="reads 10 after 20 was written"):
        clock.run(20.0)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_speed_has_to_be_above_zero(game, speed):
    with pytest.raises(ConfigError, match="speed"):
        ScaledClock(game.read, game.write).run(speed)


def test_game_time_does_not_decrease_after_a_restart(game):
    times_s = iter([100.0, 103.0, 1.0, 2.0])
    clock = ScaledClock(game.read, game.write, game_time=lambda: next(times_s))
    assert [clock.game_time_s for _ in range(3)] == [3.0, 3.0, 4.0]


def test_a_restarted_level_does_not_stall_later_steps(game):
    start_s = [-100.0]
    clock = ScaledClock(game.read, game.write, game_time=lambda: game.time_s() - start_s[0])
    late_s = clock.advance(0.01).late_s  # it shortens the next step, on a busy machine by more than its length
    start_s[0] = game.time_s()
    assert clock.advance(0.01 + late_s, deadline_s=5.0).elapsed_s >= 0.005


def test_a_game_that_loads_during_a_step_is_paused(game):
    looks = iter([100.0, 100.0, 100.001])

    def game_time():
        try:
            return next(looks)
        except StopIteration:
            raise PointerError("is a null pointer", attribute="time", level=0, address=1, pid=1) from None

    clock = ScaledClock(game.read, game.write, game_time=game_time)
    with pytest.raises(PointerError):
        clock.advance(1.0)
    assert game.read() == 0.0


PROGRAM = """
from soulslab.siphon.clock.scaled import ScaledClock

speeds = [1.0]
clock = ScaledClock(lambda: speeds[-1], lambda speed: (speeds.append(speed), print(speed)))
clock.pause()
"""


def test_a_program_that_ends_without_closing_leaves_no_game_standing():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0", "1.0"]


@pytest.mark.parametrize("before", [1.0, 0.0, 0.5])
def test_close_resumes_a_game_left_paused_by_a_killed_program(before):
    game = Game(speed=before)
    clock = ScaledClock(game.read, game.write)
    clock.pause()
    clock.close()
    assert game.read() == 1.0


@pytest.mark.parametrize("before", [1.0, 0.0, 0.5])
def test_close_without_use_keeps_the_speed(before):
    game = Game(speed=before)
    ScaledClock(game.read, game.write).close()
    assert game.read() == before
