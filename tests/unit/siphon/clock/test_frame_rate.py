"""Frame rate limits of games with scaled time."""

import logging
from pathlib import Path

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.games import profile_path
from soulslab.games.dark_souls_3 import PROFILE_PATH
from soulslab.siphon.clock.frame_rate import LONG_STEPS, FrameRate
from soulslab.siphon.clock.scaled import ScaledClock
from soulslab.siphon.profile import ClockFacts, load_profile
from support.masked_game import MaskedSession

CAPPED = ClockFacts(frame_rate_hz=60, frame_rate_attribute="fps", frame_rate_flag="has_fps")
UNCAPPED = ClockFacts(frame_rate_hz=60, frame_time_attribute="frame_s")


class Game:
    """Game with attributes in a dict and a settable frame time."""

    def __init__(self, **values):
        self.values = {"speed": 1.0, "fps": 30.0, "has_fps": False, "frame_s": 1 / 60, "time_s": 0.0} | values
        self.writes = []

    def read(self, name):
        if name == "time_s":
            self.values["time_s"] += 0.01 * self.values["speed"]
        return self.values[name]

    def write(self, values):
        self.values |= values
        self.writes.append(dict(values))

    def clock(self, facts):
        return ScaledClock(
            lambda: self.read("speed"),
            lambda speed: self.write({"speed": speed}),
            game_time=lambda: self.read("time_s"),
            frames=FrameRate(facts, self.read, self.write),
        )


def test_the_cap_rises_with_the_speed_before_the_game_gets_faster():
    game = Game()
    clock = game.clock(CAPPED)
    clock.run(3.0)
    assert game.writes == [{"fps": 180.0, "has_fps": True}, {"speed": 3.0}]
    clock.close()


def test_steps_write_it_once():
    game = Game()
    clock = game.clock(CAPPED)
    for _ in range(3):
        clock.advance(0.1, speed=2.0)
    assert [values for values in game.writes if "fps" in values] == [{"fps": 120.0, "has_fps": True}]
    clock.close()


@pytest.mark.parametrize("slow", [lambda clock: clock.run(1.0), lambda clock: clock.advance(0.1), ScaledClock.close])
def test_it_is_put_back_as_it_was(slow):
    game = Game(fps=40.0)
    clock = game.clock(CAPPED)
    clock.advance(0.1, speed=2.0)
    clock.run(4.0)
    assert game.values["fps"] == 240.0
    slow(clock)
    assert (game.values["fps"], game.values["has_fps"]) == (40.0, False)
    clock.close()
    assert game.values["speed"] == 1.0


def test_a_game_without_a_cap_is_limited_by_its_frames():
    game = Game()
    clock = game.clock(UNCAPPED)
    clock.run(2.0)
    for act in (lambda: clock.run(2.5), lambda: clock.advance(0.1, speed=2.5)):
        with pytest.raises(ClockUnavailableError, match=r"0\.04167 s of game time, and 0\.03333 .* ask for 2x or less"):
            act()
    assert game.values["speed"] == 2.0
    clock.close()


def test_a_profile_without_facts_reads_nothing():
    game = Game()
    clock = game.clock(ClockFacts())
    clock.run(50.0)
    clock.advance(0.1, speed=20.0)
    assert all(set(values) == {"speed"} for values in game.writes)
    clock.close()


def test_steps_get_slower_on_a_machine_that_draws_too_few_frames(caplog):
    game = Game(frame_s=0.05)
    clock = game.clock(UNCAPPED)
    with caplog.at_level(logging.WARNING):
        for _ in range(LONG_STEPS + 1):
            clock.advance(0.1, speed=2.0)
    speeds = [values["speed"] for values in game.writes if values["speed"]]
    assert speeds == pytest.approx([2.0] * LONG_STEPS + [2.0 * (1 / 30) / 0.05])
    assert "steps run at speed 1.33 from now on" in caplog.text
    clock.close()


def test_one_long_frame_does_not_reduce_the_speed(caplog):
    game = Game()
    clock = game.clock(UNCAPPED)
    for k in range(3 * LONG_STEPS):
        game.values["frame_s"] = 0.2 if k % LONG_STEPS else 1 / 60
        clock.advance(0.1, speed=2.0)
    assert {values["speed"] for values in game.writes} == {0.0, 2.0}
    assert not caplog.records
    clock.close()


def test_no_game_is_made_slower_than_it_is():
    game = Game(frame_s=0.5)
    clock = game.clock(UNCAPPED)
    for _ in range(3 * LONG_STEPS):
        clock.advance(0.1, speed=1.5)
    assert min(values["speed"] for values in game.writes if values["speed"]) == 1.0
    clock.close()


def test_dark_souls_3_has_a_cap_in_memory():
    with MaskedSession(PROFILE_PATH) as session:
        table = session.arena.table
        before = table.read("game.fps"), table.read("game.has_fps")
        clock = ScaledClock(
            lambda: table.read("game.speed"),
            lambda speed: table.write({"game.speed": speed}),
            frames=FrameRate(session.profile.clock, table.read, table.write),
        )
        clock.run(2.5)
        assert (table.read("game.speed"), table.read("game.fps"), table.read("game.has_fps")) == (2.5, 150.0, True)
        clock.close()
        assert (table.read("game.fps"), table.read("game.has_fps")) == before


def test_elden_ring_is_limited_by_its_frames():
    facts = load_profile(profile_path(Path("elden_ring"))).clock
    with pytest.raises(ClockUnavailableError, match="ask for 2x or less"):
        FrameRate(facts, Game().read, Game().write).follow(2.1)
    FrameRate(facts, Game().read, Game().write).follow(2.0)


def test_long_frames_at_speed_1_do_not_limit_faster_ones():
    frames_s = iter((0.5, 0.5, 0.5, 0.5, 0.5))
    rate = FrameRate(ClockFacts(frame_rate_hz=60.0, frame_time_attribute="t"), lambda _: next(frames_s), dict)
    for speed in (1.0, 1.0, 1.0, 2.0):
        rate.look(speed)
    assert rate.limited(2.0) == 2.0
