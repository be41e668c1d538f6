"""Episodes of games in the streams of a replay buffer: each is consecutive, and none is lost."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.fleet.episode_lanes import EpisodeLanes
from soulslab.learn.replay.step_rows import Outcome
from support.steps import ROW, steps

LENGTH = 5


def game_rows(number, start, n):
    rows = steps(start, n, length=LENGTH)
    rows["features"][:, 2] = number
    return rows


def lanes_of(rows):
    return {lane: rows[rows["stream"] == lane] for lane in np.unique(rows["stream"])}


def assert_consecutive(rows):
    """Assert that each row follows its predecessor in its lane, or is marked as a first one."""
    for mine in lanes_of(rows).values():
        follows = (mine["features"][1:, 0] == mine["features"][:-1, 0] + 1) & (
            mine["features"][1:, 2] == mine["features"][:-1, 2]
        )
        assert (follows | mine["is_first"][1:].astype(bool)).all()


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32), st.booleans())
def test_all_rows_arrive_in_whole_episodes_whatever_the_number_of_games(n_lanes, n_games, seed, is_saved):
    generator = random.Random(seed)  # noqa: S311 - not a secret
    lanes = EpisodeLanes(n_lanes, ROW)
    at, found = [0] * n_games, []
    n_total = 4 * LENGTH
    while any(each < n_total for each in at):
        game = generator.choice([i for i in range(n_games) if at[i] < n_total])
        n = min(generator.randint(1, 12), n_total - at[game])
        found += lanes.route(f"{game:016x}", game_rows(game, at[game], n))
        at[game] += n
        if is_saved:
            state, lanes = lanes.state(), EpisodeLanes(n_lanes, ROW)
            lanes.load(state)
    rows = np.concatenate(found)
    assert lanes.n_waiting == 0
    assert_consecutive(rows)
    assert rows["stream"].max() < n_lanes
    for game in range(n_games):
        mine = rows[rows["features"][:, 2] == game]
        assert mine["features"][:, 0].tolist() == list(range(n_total))
        assert mine["is_first"].tolist() == [number % LENGTH == 0 for number in range(n_total)]


def test_the_lanes_fill_evenly():
    lanes = EpisodeLanes(4, ROW)
    rows = np.concatenate(lanes.route("a" * 16, game_rows(0, 0, 8 * LENGTH)))
    assert [len(each) for each in lanes_of(rows).values()] == [2 * LENGTH] * 4


def test_a_game_that_has_ended_frees_its_lane_for_one_that_waits():
    lanes = EpisodeLanes(1, ROW)
    lanes.route("a" * 16, game_rows(0, 0, 3))
    assert sum(map(len, lanes.route("b" * 16, game_rows(1, 0, 7)))) == 0
    assert lanes.n_waiting == 7
    served = np.concatenate(lanes.drop("a" * 16))
    assert served["features"][:, 0].tolist() == list(range(7))


def test_a_game_that_continues_after_it_lost_its_lane_starts_a_new_sequence():
    lanes = EpisodeLanes(1, ROW)
    lanes.route("a" * 16, game_rows(0, 0, 3))
    lanes.drop("a" * 16)
    rest = np.concatenate(lanes.route("a" * 16, game_rows(0, 3, 2)))
    assert rest["is_first"].tolist() == [1, 0]


def test_a_truncated_episode_keeps_its_final_observation():
    lanes = EpisodeLanes(1, ROW)
    rows = game_rows(0, 0, 4)
    rows["outcome"][2:] = Outcome.TRUNCATED, Outcome.FINAL
    placed = np.concatenate(lanes.route("a" * 16, rows))
    assert placed["outcome"].tolist() == rows["outcome"].tolist()
    other = np.concatenate(lanes.route("b" * 16, game_rows(1, 0, 1)))
    assert len(other) == 1


def test_a_state_of_another_number_of_lanes_is_refused():
    with pytest.raises(ValueError, match="2 lanes"):
        EpisodeLanes(3, ROW).load(EpisodeLanes(2, ROW).state())
