"""Attributes of the profile of Doom, checked with the behaviour of the running game."""

import math
from itertools import pairwise

import pytest

from soulslab.games.doom import PROFILE_PATH, launch_options
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import TickAlignment

TIC_S = 1 / 35
PROFILE = load_profile(PROFILE_PATH)
KEYS = PROFILE.keys


@pytest.fixture(scope="module")
def session():
    options = SessionOptions(launch="always", options=launch_options("freedoom1", 1, 1, 4))
    with open_session(PROFILE, options) as session:
        session.step(Step(advance_s=TIC_S, attributes=()))
        while session.read("level_time") < 8:
            session.step(Step(advance_s=TIC_S, attributes=()))
        TickAlignment(PROFILE).align(session)
        yield session


@pytest.fixture
def game(session):
    """A new game in E1M1 at skill 4."""
    return Game(session)


class Game:
    """Plays the game tic by tic."""

    def __init__(self, session):
        self.session = session
        self.start(skill=3, episode=1, map=1)

    def start(self, **new):
        self.session.write({f"new_{name}": value for name, value in new.items()})
        self.session.write({"game_action": 2})
        self.play(1)
        while self.read("level_time") < 8:
            self.play(1)

    def play(self, n_tics, *keys):
        """Hold keys for n tics; return all attributes after each tic."""
        held = tuple(KEYS.get(key, key) for key in keys)
        return [self.session.step(Step(held=held, advance_s=TIC_S)).snapshot for _ in range(n_tics)]

    def tap(self, *keys):
        for key in keys:
            self.play(2, key)
            self.play(2)

    def read(self, name):
        return self.session.read(name)


def test_time_increases_by_one_in_each_tic(game):
    tics = game.play(20)
    first = tics[0]
    assert [tic["level_time"] - first["level_time"] for tic in tics] == list(range(20))
    assert [tic["game_tic"] - first["game_tic"] for tic in tics] == list(range(20))


def test_walking_moves_along_the_angle(game):
    before = game.play(1)[0]
    after = game.play(10, "forward")[-1]
    assert before["angle"] == 0.0
    assert after["x"] > before["x"] + 10
    # Not exactly straight: Doom's table of sines has no zero.
    assert after["y"] == pytest.approx(before["y"], abs=0.1)
    assert after["speed_x"] > 1
    assert after["speed_y"] == pytest.approx(0, abs=0.01)
    again = game.play(10, "forward")
    for one, other in pairwise(again):
        # The speed moves the player in the next tic; friction and thrust change it before.
        assert other["x"] - one["x"] == pytest.approx(one["speed_x"], abs=2.0)


def test_running_is_faster_than_walking(game):
    start = game.play(1)[0]["x"]
    walked = game.play(10, "forward")[-1]["x"] - start
    game.start(skill=3, episode=1, map=1)
    start = game.play(1)[0]["x"]
    assert game.play(10, "forward", "run")[-1]["x"] - start > 1.5 * walked


def test_angles_are_counter_clockwise_from_the_east(game):
    assert 0 < game.play(5, "turn_left")[-1]["angle"] < math.pi / 2
    game.start(skill=3, episode=1, map=1)
    assert 1.5 * math.pi < game.play(5, "turn_right")[-1]["angle"] < 2 * math.pi
    # After turning to the north, forward is along y.
    while not math.pi / 2 - 0.1 < game.read("angle") < math.pi / 2 + 0.1:
        game.play(1, "turn_left")
    before = game.play(1)[0]
    after = game.play(8, "forward")[-1]
    assert after["y"] - before["y"] > 3 * abs(after["x"] - before["x"])


def test_strafing_and_walking_back(game):
    start = game.play(1)[0]
    left = game.play(8, "strafe_left")[-1]
    assert left["y"] > start["y"]
    game.start(skill=3, episode=1, map=1)
    assert game.play(8, "strafe_right")[-1]["y"] < start["y"]
    game.start(skill=3, episode=1, map=1)
    assert game.play(8, "back")[-1]["x"] < start["x"]


def test_firing_the_pistol_costs_bullets(game):
    before = game.play(1)[0]
    assert (before["weapon"], before["bullets"], before["health"], before["armor"]) == (1, 50, 100, 0)
    game.play(20, "fire")
    assert 47 <= game.read("bullets") < 50


def test_the_cheat_for_everything_fills_all_ammunition_and_armour(game):
    game.tap(*"IDKFA")
    full = game.play(1)[0]
    assert (full["armor"], full["bullets"], full["shells"], full["cells"], full["rockets"]) == (200, 200, 50, 300, 50)
    for key, weapon, ammunition in (("3", 2, "shells"), ("5", 4, "rockets"), ("6", 5, "cells")):
        game.tap(key)
        game.play(40)
        before = game.play(1)[0]
        # The key of the shotgun selects the super shotgun if the player has one.
        assert before["weapon"] == weapon
        game.play(12, "fire")
        game.play(30)
        assert game.read(ammunition) < before[ammunition]


def test_kills_are_counted_and_at_most_the_total(game):
    game.tap(*"IDDQD", *"IDKFA", "5")
    game.play(40)
    before = game.play(1)[0]
    after = game.play(200, "forward", "run", "fire")[-1]
    assert before["kills"] == 0 < after["kills"] < after["total_kills"] == before["total_kills"]
    assert after["rockets"] < before["rockets"]


def test_items_are_counted(game):
    game.start(skill=0, episode=1, map=1)
    game.tap(*"IDDQD", *"IDSPISPOPD")  # through the walls, to the items behind them
    game.play(51, "turn_left", "run")
    assert game.read("items") == 0
    assert game.play(120, "forward", "run")[-1]["items"] == 2


def test_death(game):
    game.tap(*"IDKFA")
    game.tap("5")
    game.play(40)
    game.session.write({"health": 5, "body_health": 5, "armor": 0})
    # Fire rockets at the nearest wall.
    for _ in range(400):
        tic = game.play(1, "fire", "forward")[0]
        if tic["player_state"] == 1:
            break
    assert (tic["health"], tic["player_state"]) == (0, 1)
    assert tic["body_health"] <= 0


def test_pause_and_menu_stop_the_level_time_but_not_the_game_time(game):
    for key, attribute in (("PAUSE", "is_paused"), ("ESC", "is_menu_open")):
        assert not game.read(attribute)
        game.tap(key)
        tics = game.play(10)
        assert tics[0][attribute]
        assert tics[-1]["level_time"] == tics[0]["level_time"]
        assert tics[-1]["game_tic"] == tics[0]["game_tic"] + 9
        game.tap(key)
        assert not game.read(attribute)


def test_levels_and_skills(game):
    monsters = {}
    for skill in (0, 3):
        game.start(skill=skill, episode=2, map=3)
        now = game.play(1)[0]
        assert (now["skill"], now["episode"], now["map"]) == (skill, 2, 3)
        monsters[skill] = now["total_kills"]
    assert 0 < monsters[0] < monsters[3]
    # -warp and -skill of the command line.
    assert (now["start_skill"], now["start_episode"], now["start_map"]) == (3, 1, 1)


def test_the_cheat_for_levels_changes_episode_and_map(game):
    game.tap(*"IDCLEV", "2", "4")
    game.play(80)
    now = game.play(1)[0]
    assert (now["episode"], now["map"], now["game_state"]) == (2, 4, 0)


def test_the_screen_between_two_levels(game):
    assert game.read("game_state") == 0
    game.session.write({"game_action": 6})  # ga_completed, as the exit switch sets it
    tics = game.play(20)
    assert tics[-1]["game_state"] == 1
    assert tics[-1]["level_time"] == tics[0]["level_time"]
