"""The Doom environment, with the real game."""

import os
import signal

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from soulslab.envs.registration import DOOM_ID
from soulslab.envs.tasks.process.doom import DoomEnv, DoomOptions, DoomVectorEnv, launch_options
from soulslab.errors import EnvironmentUsageError, NotResetError, PointerError, ProcessExitedError, WindowGoneError
from soulslab.games.doom import PROFILE_PATH
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.local import open_session
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.process.window import find_window
from soulslab.siphon.process.x11 import XConnection
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions
from support.counts import check_released, held, n_clients
from support.long_form import IS_LONG

PROFILE = load_profile(PROFILE_PATH)
#: The X server may notice the end of a game before the system has its exit status.
LOST = (ProcessExitedError, WindowGoneError)
EXACT = ("health", "bullets", "x", "y", "angle")
N_TICS = 1000 if IS_LONG else 200


@pytest.fixture
def make():
    """A function that makes environments; they are closed at the end of the test, except for those of a session."""
    made = []

    def make_one(**options):
        env = DoomEnv(**{"observation": "state", **options})
        if "session" not in options:
            made.append(env)
        return env

    yield make_one
    for env in made:
        env.close()


@pytest.fixture(scope="module")
def game():
    """A session with a game for tests that need no game of their own."""
    launch = launch_options(DoomOptions().iwad, DoomOptions().episode, DoomOptions().map, DoomOptions().skill)
    with open_session(PROFILE, SessionOptions(options=launch)) as session:
        yield session


def play(env, n_steps, seed):
    """Play random actions; return the observation of each step."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset()
    seen = [tuple(observation[name].item() for name in (*EXACT, "level_time"))]
    for _ in range(n_steps):
        observation, _, terminated, truncated, info = env.step(rng.integers(2, size=env.action_space.n))
        assert (info["ticks"], info["ticks_expected"]) == (1, 1)
        seen.append(tuple(observation[name].item() for name in (*EXACT, "level_time")))
        if terminated or truncated:
            break
    return seen


def test_all_tics_are_the_same_after_a_reset_and_in_another_process(make):
    """Random keys with one seed: health, ammunition, position and angle are equal at each tic; no tic is lost."""
    env = make(frame_skip=1, skill=4, action_mode="multi_binary")
    first = play(env, N_TICS, seed=7)
    play(env, 33, seed=8)
    second = play(env, N_TICS, seed=7)
    third = play(make(frame_skip=1, skill=4, action_mode="multi_binary"), N_TICS, seed=7)
    assert first == second == third
    assert len(first) == 1 + N_TICS  # the reset, and all steps: no episode ended early
    times = [step[-1] for step in first]
    assert times == list(range(times[0], times[0] + len(times)))
    assert len({step[2] for step in first}) > 100


def test_the_next_level_starts_the_same_from_any_state(make):
    env = make(frame_skip=1, action_mode="multi_binary")
    expected = play(env, 40, seed=1)
    env.session.write({"health": 1, "body_health": 1, "bullets": 3})
    assert play(env, 40, seed=1) == expected
    env.session.write({"game_action": 6})  # the level's exit
    *_, terminated, _, info = env.step(np.zeros(9, np.int8))
    assert (terminated, info["end"]) == (True, "exit")
    assert play(env, 40, seed=1) == expected
    assert env.reset()[1]["n_restarts"] == 0


@pytest.mark.parametrize("observation", ["features", "both"])
def test_gymnasium_s_checker_finds_nothing(make, game, observation):
    check_env(make(observation=observation, session=game), skip_render_check=True)


def test_pixels_show_the_game(make, game):
    env = make(session=game, observation="pixels", pixels={"is_grey": False}, render_mode="rgb_array")
    picture, _ = env.reset()
    assert (picture.shape, picture.dtype) == ((84, 84, 3), np.uint8)
    assert picture.std() > 20
    moved = env.step(1)[0]
    for _ in range(5):
        moved = env.step(3)[0]
    assert (moved != picture).mean() > 0.3
    height, width, channels = env.render().shape
    assert (channels, width > 200, height > 150) == (3, True, True)


def test_death_ends_an_episode(make, game):
    env = make(session=game)
    env.reset()
    env.session.write({"health": 0, "body_health": 0})
    _, _, terminated, truncated, info = env.step(0)
    assert (terminated, truncated, info["end"]) == (True, False, "death")
    assert env.reset()[0]["health"] == 100


def test_time_ends_an_episode(make, game):
    env = make(session=game, max_tics=10, frame_skip=4)
    env.reset()
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_maps_skills_and_phase_2(make):
    info = make(map=2, skill=1).reset()[1]["values"]
    assert (info["episode"], info["map"], info["skill"]) == (1, 2, 0)
    info = make(iwad="freedoom2", map=11, skill=5).reset()[1]["values"]
    assert (info["map"], info["skill"]) == (11, 4)


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_game_that_is_killed_during_a_step(make):
    env = make(skill=2)
    expected, _ = env.reset()
    os.kill(env.session.info.pid, signal.SIGKILL)
    with pytest.raises(LOST):
        for _ in range(100):
            env.step(1)
    with pytest.raises(NotResetError):
        env.step(1)
    observation, info = env.reset()
    assert info["n_restarts"] == 1
    assert all(np.array_equal(observation[name], expected[name]) for name in expected)
    env.step(1)


def test_a_window_that_is_closed(make):
    env = make(observation="pixels", deterministic=True)  # the face of the player depends on the ticks of the start
    expected, _ = env.reset()
    connection = XConnection(env.session.info.display)
    window = find_window(connection, env.session.info.pid)
    with connection.using("the window", window.id):
        connection.raw.core.UnmapWindow(window.id)
    connection.sync()
    connection.close()
    with pytest.raises(WindowGoneError):
        for _ in range(10):
            env.step(1)
    observation, info = env.reset()
    assert info["n_restarts"] == 1
    assert np.array_equal(observation, expected)


def test_a_chain_of_pointers_that_breaks_during_a_level_change(make):
    """The pointer to the player is set to null between two levels, where the game does not use it."""
    table = {**PROFILE.env, "end": {"death": PROFILE.env["end"]["death"]}}
    env = make(profile=msgspec.structs.replace(PROFILE, env=table), frame_skip=1)
    env.reset()
    env.session.write({"game_action": 6})  # the level's exit
    assert env.step(0)[4]["ticks"] == 1
    memory = LinuxMemory(env.session.info.pid)
    image = read_image(memory, PROFILE.process.executable)
    memory.write(resolve_addresses(PROFILE, memory, image).bases["players"], bytes(8))
    memory.close()
    with pytest.raises(PointerError, match="offsets"):
        env.step(0)
    observation, info = env.reset()
    assert (observation["health"], info["n_restarts"]) == (100, 1)
    env.step(0)


def test_many_resets_release_all_resources(make):
    """Descriptors, threads, children, shared memory and X clients; before each twentieth reset the game is killed."""
    env = make(observation="pixels")
    env.reset()
    env.reset(options={"restart": True})
    before, clients = held(), count_clients(env)
    for i in range(200 if IS_LONG else 40):
        if i % 20 == 0:
            os.kill(env.session.info.pid, signal.SIGKILL)
            with pytest.raises(LOST):
                env.step(1)
        assert env.reset()[1]["n_restarts"] == (i % 20 == 0)
    check_released(before)
    assert count_clients(env) == clients


def count_clients(env):
    connection = XConnection(env.session.info.display)
    try:
        return n_clients(connection)
    finally:
        connection.close()


def test_closing_releases_all_resources():
    before = held()
    for options in ({"observation": "pixels"}, {}):
        env = DoomEnv(**options)
        env.reset()
        env.step(1)
        env.close()
    check_released(before)


def test_several_at_once():
    env = DoomVectorEnv(2, "SameStep", observation="features", max_tics=40, map=2)
    try:
        assert env.reset(seed=1)[0].shape == (2, env.single_observation_space.shape[0])
        pids = {one.session.info.pid for one in env.envs}
        assert len(pids) == 2
        for _ in range(10):
            observation, _, _, truncated, info = env.step(np.array([1, 3]))
        assert truncated.all()
        assert len(info["final_obs"]) == 2
        assert not np.array_equal(info["final_obs"][0], info["final_obs"][1])
        assert np.array_equal(observation[0], observation[1])
    finally:
        env.close()


def test_by_its_id():
    env = gymnasium.make(DOOM_ID, observation="both", action_mode="multi_discrete")
    try:
        assert type(env) is DoomEnv
        observation, _ = env.reset(seed=0)
        assert observation["pixels"].shape == (84, 84, 1)
        assert env.observation_space.contains(env.step(env.action_space.sample())[0])
    finally:
        env.close()


@pytest.mark.parametrize(
    "options",
    [
        {"map": 10},
        {"map": 0},
        {"skill": 6},
        {"episode": 5},
        {"frame_skip": 0},
        {"max_tics": -1},
        {"mpa": 1},
        {"max_steps": 1},
    ],
)
def test_wrong_options(options):
    with pytest.raises(EnvironmentUsageError, match=next(iter(options))):
        DoomEnv(**options)


def test_the_error_of_an_unknown_option_lists_each_option_once():
    with pytest.raises(EnvironmentUsageError, match="did you mean 'map'") as caught:
        DoomEnv(mpa=1)
    names = str(caught.value).partition("(known: ")[2].removesuffix(")").split(", ")
    assert len(names) == len(set(names))
    assert {"max_tics", "observation"} < set(names)
    assert not {"max_steps", "random_start_ticks"} & set(names)  # Doom has tics
