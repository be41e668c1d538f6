"""The environment of a game with a profile: steps, ends of episodes, errors and recovery."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.utils.env_checker import check_env

from soulslab.envs.registration import PROCESS_ID
from soulslab.envs.tasks.process.process_env import ProcessEnv
from soulslab.errors import (
    ClockStalledError,
    ConfigError,
    EnvironmentUsageError,
    ImplausibleValueError,
    InvalidActionError,
    LostTickError,
    NotResetError,
    PointerError,
    ProcessExitedError,
    ReadOnlyError,
    UnknownRewardError,
    WaitTimeoutError,
    WindowGoneError,
)
from soulslab.games.doom import PROFILE_PATH
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import FakeSession
from support.toy_env import Toys, toy_env, toy_profile, toy_table

UP, LEFT, RIGHT, HURT, BOTH = range(1, 6)


@pytest.mark.parametrize("observation", ["state", "features", "pixels", "both"])
@pytest.mark.parametrize("action_mode", ["discrete", "multi_binary", "multi_discrete"])
def test_the_environment_passes_gymnasium_s_checker(observation, action_mode):
    # Each reset restarts the toy, because a write does not reset the counter in its frames.
    env = toy_env(reset=None, observation=observation, action_mode=action_mode)
    check_env(env, skip_render_check=True)


def test_gymnasium_make_creates_the_environment():
    env = gymnasium.make(PROCESS_ID, profile=toy_profile(), session=Toys(toy_table()))
    assert type(env) is ProcessEnv
    assert isinstance(env.observation_space, Dict)
    assert env.action_space == Discrete(6)
    assert env.action_names == ("nothing", "up", "left", "right", "hurt", "both")
    assert env.metadata["render_fps"] == 30


def test_a_profile_is_given_by_name_or_path(tmp_path):
    assert ProcessEnv(profile="doom").profile.name == "Doom"
    file = tmp_path / "game.toml"
    file.write_text(PROFILE_PATH.read_text())
    assert ProcessEnv(profile=str(file)).observation_space == ProcessEnv(profile=file).observation_space
    with pytest.raises(ConfigError, match="nor the name of a game"):
        ProcessEnv(profile="quake")


def test_an_open_session_provides_its_profile():
    session = FakeSession(env=toy_table())
    env = ProcessEnv(session=session)
    env.reset()
    env.step(UP)
    assert session.toy.values["y"] == 2.0
    env.close()
    env.close()
    with pytest.raises(Exception, match="closed"):
        session.read("hp")


def test_a_step_is_one_call_of_session_step(monkeypatch):
    env = toy_env(observation="both")
    env.reset()
    steps, step = [], env.session.step
    monkeypatch.setattr(env.session, "step", lambda asked: (steps.append(asked), step(asked))[1])
    observation, reward, terminated, truncated, info = env.step(BOTH)
    assert [(asked.held, round(asked.advance_s * 60, 9)) for asked in steps] == [(("W", "D"), 2)]
    assert observation["pixels"].shape == (84, 84, 1)
    assert (observation["x"], observation["y"]) == (2.0, 2.0)
    assert (reward, terminated, truncated) == (pytest.approx(8**0.5), False, False)
    assert info["reward_terms"] == {"walk": pytest.approx(8**0.5), "pain": 0.0}
    assert (info["ticks"], info["ticks_expected"], info["clock"], info["late_s"]) == (2, 2, "lockstep", 0.0)
    assert info["values"] == {"name": "toy", "level": 1}
    assert info["game_time_s"] == pytest.approx(2 / 60, abs=1e-6)
    assert info["action_mask"].tolist() == [True] * 6
    assert "end" not in info
    env.step(0)
    assert env.session.toy.held == frozenset()


def test_frame_skip_makes_steps_longer():
    env = toy_env(options={"frame_skip": 3})
    env.reset()
    observation, *_, info = env.step(RIGHT)
    assert (observation["x"], info["ticks"], info["ticks_expected"]) == (6.0, 6, 6)


def test_a_step_in_seconds():
    env = toy_env(step_ticks=None, step_s=0.5)
    env.reset()
    observation, *_, info = env.step(RIGHT)
    assert observation["x"] == 30.0
    assert "ticks" not in info


def test_an_end_condition_terminates_the_episode():
    env = toy_env()
    env.reset()
    for _ in range(4):
        _, reward, terminated, truncated, info = env.step(HURT)
        assert (reward, terminated, truncated) == (2.0, False, False)
    _, _, terminated, truncated, info = env.step(HURT)
    assert (terminated, truncated, info["end"]) == (True, False, "death")
    with pytest.raises(NotResetError, match="reset"):
        env.step(HURT)
    observation, _ = env.reset()
    assert observation["hp"] == 10


def test_max_steps_truncates_the_episode():
    env = toy_env(options={"max_steps": 3})
    env.reset()
    outcomes = [env.step(0)[2:] for _ in range(3)]
    assert [(terminated, truncated) for terminated, truncated, _ in outcomes] == [(False, False)] * 2 + [(False, True)]
    assert outcomes[-1][2]["end"] == "max_steps"
    with pytest.raises(NotResetError):
        env.step(0)


def test_an_end_condition_on_the_last_step_terminates():
    env = toy_env(max_steps=5)
    env.reset()
    *_, terminated, truncated, info = [env.step(HURT) for _ in range(5)][-1]
    assert (terminated, truncated, info["end"]) == (True, False, "death")


def test_step_and_render_before_the_first_reset_raise():
    env = toy_env("rgb_array")
    for call in (lambda: env.step(0), env.render):
        with pytest.raises(NotResetError):
            call()
    assert env.toys.sessions == []


@pytest.mark.parametrize("action", [-1, 6, 1.0, "up", None, [1, 2], np.zeros(3)])
def test_an_action_outside_the_space_changes_nothing(action):
    env = toy_env()
    env.reset()
    with pytest.raises(InvalidActionError):
        env.step(action)
    assert env.step(RIGHT)[0]["x"] == 2.0


def test_render_returns_the_window():
    env = toy_env("rgb_array")
    env.reset()
    assert env.render().shape == (48, 64, 3)
    assert toy_env().render() is None


def test_human_mode_runs_at_the_game_s_own_speed(monkeypatch):
    waited, now = [], [100.0]
    monkeypatch.setattr("soulslab.envs.game.timing.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("soulslab.envs.game.timing.time.sleep", waited.append)
    env = toy_env("human")
    env.reset()
    for _ in range(2):
        env.step(0)
    assert waited == pytest.approx([2 / 60, 4 / 60])
    now[0] += 10.0
    env.step(0)
    assert len(waited) == 2


# --- failures -----------------------------------------------------------------------------------------------------


def kill(toy):
    toy.is_alive = False


def close_window(toy):
    toy.has_window = False


def load(toy):
    toy.is_loading = True


def stall(toy):
    toy.is_stalled = True


def corrupt(toy):
    toy.values["hp"] = 5000


FAULTS = {
    kill: ProcessExitedError,
    close_window: WindowGoneError,
    load: PointerError,
    stall: ClockStalledError,
    corrupt: ImplausibleValueError,
}


@pytest.mark.parametrize(("fault", "error"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_failed_step_raises_and_the_next_reset_recovers(fault, error):
    env = toy_env(observation="pixels")
    env.reset()
    fault(env.toys.last.toy)
    with pytest.raises(error):
        env.step(UP)
    with pytest.raises(NotResetError, match="failed"):
        env.step(UP)
    observation, info = env.reset()
    assert observation.shape == (84, 84, 1)
    assert info["n_restarts"] == 1
    assert env.session.toy.held == frozenset()
    env.step(UP)
    assert env.reset()[1]["n_restarts"] == 0


@pytest.mark.parametrize("observation", ["state", "pixels"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_failed_step_can_truncate_the_episode(fault, observation):
    env = toy_env(observation=observation, options={"on_failure": "truncate"})
    env.reset()
    before, *_, usual = env.step(UP)
    fault(env.toys.last.toy)
    if observation == "state" and fault is close_window:
        return  # no frame is captured
    after, reward, terminated, truncated, info = env.step(UP)
    np.testing.assert_equal(after, before)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["end"], info["ticks"], info["reward_terms"]) == ("failure", 0, {"walk": 0.0, "pain": 0.0})
    assert info["failure"]["error"] == FAULTS[fault].__name__
    assert info["failure"]["message"]
    assert set(info) == {*usual, "end", "failure"}
    with pytest.raises(NotResetError):
        env.step(UP)
    assert env.reset()[1]["n_restarts"] == 1
    assert not env.step(UP)[3]


def test_a_lost_tick_error_is_raised_even_with_truncate():
    env = toy_env(options={"on_failure": "truncate", "on_lost_tick": "error"})
    env.reset()
    env.session.toy.pass_time = lambda _: None
    with pytest.raises(LostTickError):
        env.step(UP)


END_UNREADABLE = {"gone": {"attribute": "level", "unreadable": True}, "death": {"attribute": "hp", "at_most": 0}}


def test_a_value_that_becomes_unreadable_ends_the_episode():
    """Only one attribute becomes unreadable, like that of an enemy that is removed at its death."""
    env = toy_env(end=END_UNREADABLE, observation="both")
    env.reset()
    before, *_, usual = env.step(RIGHT)
    env.session.toy.values["level"] = 1000  # not plausible
    after, reward, terminated, truncated, info = env.step(RIGHT)
    assert (info["end"], terminated, truncated) == ("gone", True, False)
    assert (after["x"].item(), reward) == (before["x"].item() + 2, 2.0)
    assert info["values"]["level"] == usual["values"]["level"]
    assert (info["ticks"], info["ticks_lost"]) == (2, 0)
    assert "failure" not in info


def test_all_values_that_become_unreadable_end_the_episode():
    env = toy_env(end=END_UNREADABLE)
    env.reset()
    before, *_ = env.step(RIGHT)
    load(env.session.toy)
    after, reward, terminated, _, info = env.step(RIGHT)
    assert (info["end"], terminated, reward) == ("gone", True, 0.0)
    np.testing.assert_equal(after, before)


def test_other_values_that_become_unreadable_are_a_failure():
    env = toy_env(end=END_UNREADABLE)
    env.reset()
    env.session.toy.values["hp"] = 1000
    with pytest.raises(ImplausibleValueError):
        env.step(RIGHT)


def test_an_unreadable_value_ends_the_episode_after_the_wait():
    env = toy_env(end=END_UNREADABLE, retry_ticks=5)
    env.reset()
    toy = env.session.toy
    toy.values["level"] = 1000
    *_, info = env.step(RIGHT)
    assert (info["end"], info["ticks"], info["ticks_expected"]) == ("gone", 7, 7)


def test_a_reset_can_wait_for_a_value_to_become_unreadable():
    steps = [{"write": {"level": 3}}, {"wait": {"attribute": "level", "unreadable": True}, "ticks": 50}]
    env = toy_env(reset=[*steps, {"write": {"level": 1}}])
    toy = env.session.toy
    pass_time = toy.pass_time

    def pass_and_load(seconds):
        pass_time(seconds)
        if toy.values["ticks"] == 20:
            toy.values["level"] = 1000

    toy.pass_time = pass_and_load
    assert env.reset()[1]["n_restarts"] == 0
    assert toy.values["ticks"] == 20


def test_reset_recovers_from_a_fault_between_episodes():
    env = toy_env()
    env.reset()
    kill(env.toys.last.toy)
    assert env.reset()[1]["n_restarts"] == 1


def test_a_step_waits_while_the_game_loads():
    env = toy_env(retry_ticks=5)
    env.reset()
    toy = env.session.toy
    toy.is_loading = True
    passed, pass_time = [], toy.pass_time

    def pass_some(seconds):
        pass_time(seconds)
        passed.append(seconds)
        toy.is_loading = len(passed) < 4

    toy.pass_time = pass_some
    observation, *_, info = env.step(RIGHT)
    assert (info["ticks"], info["ticks_expected"]) == (5, 5)
    assert observation["x"] == 5.0


def test_a_session_that_cannot_restart_is_opened_again(monkeypatch):
    env = toy_env()
    env.reset()
    kill(env.toys.last.toy)

    def fail(options=None, *, seed=None):
        raise ProcessExitedError("it has ended", pid=1)

    monkeypatch.setattr(env.toys.last, "restart", fail)
    assert env.reset()[1]["n_restarts"] == 1
    assert len(env.toys.sessions) == 2


def test_a_reset_fails_after_max_retries(monkeypatch):
    env = toy_env(reset=[{"wait": {"attribute": "level", "equals": 7}, "ticks": 10}], max_retries=3)
    with pytest.raises(WaitTimeoutError, match="level to be equal to 7"):
        env.reset()
    assert env.toys.last.info.n_starts == 4


def test_an_end_condition_at_the_start_fails_the_reset():
    env = toy_env(reset=[{"write": {"hp": 0}}], max_retries=0)
    with pytest.raises(WaitTimeoutError, match=r"env\.end\.death"):
        env.reset()


def test_a_session_that_cannot_be_opened_is_not_retried():
    tries = []

    def refuse():
        tries.append(1)
        raise ProcessExitedError("it ends at once", pid=1)

    env = ProcessEnv(profile=toy_profile(), session=refuse)
    with pytest.raises(ProcessExitedError):
        env.reset()
    assert tries == [1]


def test_the_restart_option_restarts_the_game():
    env = toy_env()
    env.reset()
    env.session.toy.values["level"] = 3
    assert env.reset()[1]["values"]["level"] == 3
    _, info = env.reset(options={"restart": True})
    assert (info["values"]["level"], info["n_restarts"]) == (1, 1)


def play_toy(session, keys, until):
    """Play the toy in a thread, as another program would, until an event is set."""
    while not until.wait(0.001):
        session.step(Step(held=keys, advance_s=1 / 60))


@pytest.mark.parametrize("how", ["session", "opener", "server"])
def test_a_read_only_environment_observes_another_program_s_game(how, tmp_path):
    player = FakeSession(env=toy_table())
    with player, ExitStack() as stack:
        options = {"session": {"session": player, "opener": lambda: player}.get(how)}
        if how == "server":
            server = stack.enter_context(serve(player, ServerOptions(address=f"unix:{tmp_path}/s", needs_token=False)))
            options = {"server": server.address}
        is_over = threading.Event()
        pool = stack.enter_context(ThreadPoolExecutor(1))
        playing = pool.submit(play_toy, player, ("W",), is_over)
        stack.callback(is_over.set)
        env = stack.enter_context(closing(ProcessEnv(profile=toy_profile(), read_only=True, **options)))
        _, info = env.reset()
        assert info["clock"] == "realtime"
        assert (
            info["action_mask"].tolist() == env.action_masks().tolist() == [True] + [False] * (env.action_space.n - 1)
        )
        ticks = player.read("ticks")
        _, _, terminated, _, info = env.step(0)
        assert player.read("ticks") > ticks
        assert not terminated
        with pytest.raises(ReadOnlyError, match="cannot hold W"):
            env.step(UP)
        env.step(0)
        env.reset()
        for change in (
            lambda: env.session.write({"hp": 1}),
            lambda: env.session.input.set_held(()),
            env.session.clock.pause,
            env.session.restart,
        ):
            with pytest.raises(ReadOnlyError):
                change()
        assert player.toy.held == {"W"}
        is_over.set()
        playing.result()
        assert (player.info.n_starts, player.clock.speed) == (1, 0.0)  # the steps of the player pause the game


def test_a_read_only_environment_reopens_a_game_without_a_restart():
    toys = Toys(toy_table())
    env = ProcessEnv(profile=toy_profile(), session=toys, read_only=True)
    env.reset()
    toys.last.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        env.step(0)
    env.reset()
    assert len(toys.sessions) == 2
    assert toys.last.info.n_starts == 1


def test_a_read_only_environment_waits_for_an_episode():
    with FakeSession(env=toy_table()) as player, ThreadPoolExecutor(1) as pool:
        player.toy.values["hp"] = 0
        env = ProcessEnv(profile=toy_profile(), session=player, read_only=True)
        resetting = pool.submit(env.reset)
        assert not wait([resetting], 0.2).done
        player.toy.values["hp"] = 100
        observation, _ = resetting.result(30.0)
        assert observation["hp"] == 100


@pytest.mark.parametrize("options", [{"deterministic": True}, {"options": {"level": 3}}, {"launch": "always"}])
def test_options_that_start_a_game_contradict_read_only(options):
    with pytest.raises(EnvironmentUsageError, match="a read-only environment does not start a game"):
        ProcessEnv(profile=toy_profile(), read_only=True, **options)


def test_the_seed_determines_the_random_start():
    env = toy_env(options={"random_start_ticks": 50})
    ticks = []
    for seed in (3, 3, 4):
        env.reset(seed=seed, options={"restart": True})
        ticks.append(env.session.toy.values["ticks"])
    assert ticks[0] == ticks[1] != ticks[2]
    assert all(tick <= 51 for tick in ticks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observatoin": "state"}, "did you mean 'observation'"),
        ({"observation": "picture"}, "observation: 'picture' is not one of its values"),
        ({"action_mode": "multi"}, "action_mode: 'multi' is not one of its values"),
        ({"server": "here:1"}, "only one of server, pid and session"),
        ({"reward": {"walk": "much"}}, "must be a number"),
        ({"reward": {"walk": float("nan")}}, "reward.walk: is not a number"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(EnvironmentUsageError, match=message):
        toy_env(options=options)


def test_a_profile_is_needed():
    with pytest.raises(EnvironmentUsageError, match="profile is missing"):
        ProcessEnv()


def test_unknown_reward_terms_and_render_modes_are_refused():
    with pytest.raises(UnknownRewardError, match="did you mean 'walk'"):
        toy_env(options={"reward": {"wlak": 1.0}})
    with pytest.raises(EnvironmentUsageError, match="render_mode"):
        toy_env("ansi")


def test_weights_replace_the_weights_of_the_profile():
    env = toy_env(options={"reward": {"walk": 0, "pain": -0.5}})
    env.reset()
    assert env.step(HURT)[4]["reward_terms"] == {"pain": -1.0}


def test_only_discrete_actions_have_masks():
    assert toy_env().action_masks().tolist() == [True] * 6
    env = toy_env(action_mode="multi_binary")
    assert "action_mask" not in env.reset()[1]
    with pytest.raises(EnvironmentUsageError):
        env.action_masks()


def test_features_are_a_flat_box():
    env = toy_env(observation="features")
    assert isinstance(env.observation_space, Box)
    assert env.reset()[0].tolist() == pytest.approx([-0.8, 0, 0, -1, 0, 0])
