"""The fake clock."""

import pytest

from soulslab.errors import ProcessExitedError, SessionStateError
from soulslab.testing.fake_clock import FakeClock
from support.clock_contract import ClockContract


class Game:
    def __init__(self):
        self.is_alive = True
        self.advances = []

    def check_alive(self):
        if not self.is_alive:
            raise ProcessExitedError("process 1 has ended", pid=1)


@pytest.fixture
def game():
    return Game()


class TestFakeClock(ClockContract):
    is_exact = True

    @pytest.fixture
    def clock(self, game):
        return FakeClock(game.advances.append, check_alive=game.check_alive)

    @pytest.fixture
    def end_game(self, game):
        def end_game():
            game.is_alive = False

        return end_game


def test_each_advance_is_reported(game):
    clock = FakeClock(game.advances.append)
    clock.advance(0.1)
    clock.advance(0.0)
    assert game.advances == [0.1, 0.0]


def test_a_game_that_fails_fails_the_advance(game):
    def fail(seconds):
        raise ProcessExitedError("process 1 has ended", pid=1)

    clock = FakeClock(fail)
    with pytest.raises(ProcessExitedError):
        clock.advance(0.1)
    assert clock.game_time_s == 0.0


def test_a_million_parts_add_up():
    clock = FakeClock(lambda _: None)
    for _ in range(35_000):
        clock.advance(1 / 35)
    assert clock.game_time_s == pytest.approx(1000.0, abs=2e-9)


def test_a_closed_one_is_refused(game):
    clock = FakeClock(game.advances.append)
    clock.close()
    with pytest.raises(SessionStateError):
        clock.advance(0.1)
