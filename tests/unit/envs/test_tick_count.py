"""Lost and doubled ticks of an episode: counted, logged once, or an error."""

import logging

import msgspec
import pytest

from soulslab.envs.game.timing import TickCount, ticks_between
from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.errors import EnvironmentUsageError, LostTickError, NotResetError, ProfileError
from soulslab.siphon.profile import Attribute
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession
from support.toy_env import toy_env, toy_table

RIGHT = 3
TICK_S = 1 / 60


def count_of(kind, **facts):
    return Attribute(base="toy", offsets=(0,), type=kind, source="a test", **facts)


def change_steps(env, n_ticks_of):
    """Change the number of ticks of some steps of the toy, by index of the step."""
    toy = env.session.toy
    pass_time, index = toy.pass_time, -1

    def pass_other_time(seconds):
        nonlocal index
        index += 1
        pass_time(seconds + n_ticks_of.get(index, 0) * TICK_S)

    toy.pass_time = pass_other_time


@pytest.mark.parametrize(
    ("before", "after", "attribute", "n_ticks"),
    [
        (5, 6, count_of("i32"), 1),
        (255, 0, count_of("u8"), 1),
        (2**32 - 1, 1, count_of("u32"), 2),
        (2**31 - 1, -(2**31), count_of("i32"), 1),
        (900, 0, count_of("u32"), -900),
        (255, 0, count_of("u8", scale=2.0), -255),
        (3, 5, count_of("f32"), 2),
    ],
)
def test_increase_of_a_tick_counter(before, after, attribute, n_ticks):
    assert ticks_between(before, after, attribute) == n_ticks


def test_an_episode_begins_at_zero():
    count = TickCount(TOY_PROFILE)
    count.begin(7)
    for ticks in (9, 9, 14):
        count.add(ticks, 2)
    assert (count.n_ticks, count.n_lost, count.n_doubled) == (5, 2, 3)
    count.begin(100)
    count.add(102, 2)
    assert (count.n_ticks, count.n_lost, count.n_doubled) == (2, 0, 0)


@pytest.mark.parametrize(("after", "n_lost"), [(0, 0), (2, 0), (3, 2), (-1, 2)])
def test_a_step_in_which_the_game_resets_the_counter_loses_no_tick(after, n_lost):
    count = TickCount(TOY_PROFILE, "count")
    count.begin(50)
    count.add(after, 2)
    assert (count.n_lost, count.n_doubled) == (n_lost, 0)
    count.add(after + 2, 2)
    assert (count.n_lost, count.n_doubled) == (n_lost, 0)


def test_steps_without_an_expected_number_are_not_counted():
    count = TickCount(TOY_PROFILE, "error")
    count.begin(0)
    count.add(9, None)
    assert (count.n_ticks, count.n_lost, count.n_doubled) == (9, 0, 0)


def test_info_has_the_counts_of_the_episode_and_the_first_one_is_logged(caplog):
    env = toy_env()
    env.reset()
    change_steps(env, {1: -1, 3: 2})
    with caplog.at_level(logging.WARNING, "soulslab.envs.game.timing"):
        steps = [env.step(RIGHT)[4] for _ in range(5)]
    assert [info["ticks"] for info in steps] == [2, 1, 2, 4, 2]
    assert [(info["ticks_lost"], info["ticks_doubled"]) for info in steps] == [(0, 0), (1, 0), (1, 0), (1, 2), (1, 2)]
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "step 2 of the episode made 1 ticks"
    ]
    env.reset()
    info = env.step(RIGHT)[4]
    assert (info["ticks_lost"], info["ticks_doubled"]) == (0, 0)


@pytest.mark.parametrize("where", ["profile", "options"])
def test_a_lost_tick_can_be_an_error(where):
    choice = {"on_lost_tick": "error"}
    env = toy_env(**choice) if where == "profile" else toy_env(options=choice)
    env.reset()
    change_steps(env, {2: -2})
    for _ in range(2):
        env.step(RIGHT)
    with pytest.raises(LostTickError, match=r"step 3 .* made 0 ticks \(attribute 'ticks'\) instead of 2") as caught:
        env.step(RIGHT)
    assert (caught.value.step, caught.value.n_expected, caught.value.n_ticks) == (3, 2, 0)
    with pytest.raises(NotResetError):
        env.step(RIGHT)
    assert env.reset()[1]["n_restarts"] == 1
    assert env.step(RIGHT)[4]["ticks_lost"] == 0


def test_a_loading_game_loses_no_ticks():
    env = toy_env(retry_ticks=3, on_lost_tick="error")
    env.reset()
    toy = env.session.toy
    pass_time, passed = toy.pass_time, []

    def load_first(seconds):
        passed.append(seconds)
        toy.is_loading = len(passed) == 1
        if not toy.is_loading:
            pass_time(seconds)

    toy.pass_time = load_first
    info = env.step(RIGHT)[4]
    assert (info["ticks"], info["ticks_expected"], info["ticks_lost"]) == (1, 3, 0)


class RealtimeSession(FakeSession):
    """A session with the toy, with a realtime clock."""

    @property
    def info(self):
        return msgspec.structs.replace(super().info, clock_grade="realtime")


def test_in_real_time_no_tick_is_lost():
    env = ProcessEnv(session=RealtimeSession(env=toy_table(on_lost_tick="error")))
    env.reset()
    change_steps(env, {0: -1})
    info = env.step(RIGHT)[4]
    assert info["ticks"] == 1
    assert "ticks_lost" not in info


@pytest.mark.parametrize("where", ["profile", "options"])
def test_an_unknown_value_of_the_option_is_refused(where):
    with pytest.raises((EnvironmentUsageError, ProfileError), match="on_lost_tick"):
        toy_env(options={"on_lost_tick": "ignore"}) if where == "options" else toy_env(on_lost_tick="ignore")
