"""The environment of a duel in a running game: its results, wrong use, and failures."""

from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FrameStackObservation, RecordEpisodeStatistics, TimeLimit

from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.relative_features import RELATIVE_NAMES
from soulslab.arena.vocabulary import LIGHT_ATTACK, NOTHING
from soulslab.envs.game.timing import StepTimes
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.errors import (
    ClockStalledError,
    EnvironmentUsageError,
    InvalidActionError,
    NotResetError,
    PointerError,
    ProcessExitedError,
    ProfileError,
    WindowGoneError,
)
from soulslab.games import profile_path
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from soulslab.testing.fake_arena import FakeArenaSession
from support.live_env import launch_options, live_env
from support.players import script


def play(env, actions):
    """Return the results of the steps, up to the end of the fight."""
    steps = []
    for action in actions:
        steps.append(env.step(int(action)))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


# --- rules of Gymnasium -------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", ["features", "dict", "pixels", "pixels+state", "pixels+features"])
def test_gymnasium_checker_accepts_the_environment(observation):
    n_last = 0 if observation == "pixels" else 2
    check_env(live_env(observation=observation, n_last_actions=n_last), skip_render_check=True)


@pytest.mark.parametrize("action_mode", ["multi_binary", "continuous"])
def test_gymnasium_checker_accepts_button_actions(action_mode):
    check_env(live_env(action_mode=action_mode, n_last_actions=1, episodes="in_place"), skip_render_check=True)


def test_gymnasium_make():
    env = gymnasium.make(ARENA_LIVE_ID, session=FakeArenaSession, phase="1")
    assert type(env.unwrapped) is ArenaLiveEnv
    assert env.reset(seed=0)[0].shape == (74,)
    env.close()


@pytest.mark.parametrize("boss", ["judge", "trickster"])
@pytest.mark.parametrize("episodes", ["demo", "in_place"])
def test_observations_are_in_the_observation_space(boss, episodes):
    for observation in ("features", "dict"):
        env = live_env(boss=boss, observation=observation, episodes=episodes, random_pose=True)
        assert env.observation_space.contains(env.reset(seed=1)[0])
        for step in play(env, script(1, 150)):
            assert env.observation_space.contains(step[0])


def test_gymnasium_wrappers():
    env = RecordEpisodeStatistics(TimeLimit(FrameStackObservation(live_env(), 4), 20))
    observation, _ = env.reset(seed=0)
    assert observation.shape == (4, 74)
    steps = play(env, [NOTHING] * 30)
    assert len(steps) == 20
    assert steps[-1][3]
    assert steps[-1][4]["episode"]["l"] == 20


def test_returned_arrays_do_not_change_later():
    env = live_env(observation="pixels+features", n_last_actions=2)
    first, info = env.reset(seed=0)
    kept = {name: value.copy() for name, value in first.items()}, info["action_mask"].copy()
    step = env.step(LIGHT_ATTACK)
    kept_step = {name: value.copy() for name, value in step[0].items()}
    env.step(NOTHING)
    for name, value in first.items():
        np.testing.assert_array_equal(value, kept[0][name])
        np.testing.assert_array_equal(step[0][name], kept_step[name])
    np.testing.assert_array_equal(info["action_mask"], kept[1])


# --- results of a step -------------------------------------------------------------------------------------


def test_info_of_reset_and_steps():
    env = live_env()
    _, info = env.reset(seed=3)
    of_step = {"n_decisions", "n_masked", "reward_terms", "late_s", "ticks", "ticks_lost", "ticks_doubled"}
    assert set(info) == {"action_mask", "clock", "game_time_s", "n_restarts", *of_step}
    assert (info["n_decisions"], info["late_s"], info["ticks"], set(info["reward_terms"].values())) == (0, 0, 0, {0.0})
    assert (info["clock"], info["game_time_s"], info["n_restarts"]) == ("lockstep", 0.0, 0)
    steps = play(env, script(3, 2000))
    for n, (_, reward, terminated, truncated, info) in enumerate(steps, 1):
        assert {type(reward), type(terminated), type(truncated)} == {float, bool}
        assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12)
        assert (info["ticks"], info["late_s"]) == (6, 0.0)
        assert (info["ticks_lost"], info["ticks_doubled"]) == (0, 0)
        assert info["game_time_s"] == pytest.approx(n / 10, abs=1e-6)
        assert ("fight" in info) == (terminated or truncated)
    assert steps[-1][4]["fight"]["time_s"] == pytest.approx(len(steps) / 10)


def test_a_step_is_one_step_of_the_session(monkeypatch):
    env = live_env(observation="pixels+features")
    env.reset(seed=0)
    steps, step = [], env.session.step
    monkeypatch.setattr(env.session, "step", lambda asked: (steps.append(asked), step(asked))[1])
    env.step(8)
    env.step(0)
    assert [(asked.held, asked.again) for asked in steps] == [(("W", "SPACE"), ("SPACE",)), ((), ())]
    assert {asked.advance_s for asked in steps} == {0.1}
    assert {asked.frame.width_px for asked in steps} == {84}
    assert "fight.seed" not in steps[0].attributes


def test_pixels_have_the_requested_size():
    env = live_env(observation="pixels", pixels={"width_px": 32, "height_px": 20, "is_grey": False})
    assert env.reset(seed=0)[0].shape == env.observation_space.shape == (20, 32, 3)
    assert live_env(observation="pixels").observation_space.shape == (84, 84, 1)


def test_last_actions_in_observations():
    env = live_env(n_last_actions=3, actions=["nothing", "forward", "light_attack"])
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (74 + 9,)
    assert observation[74:].tolist() == [0.0] * 9
    env.step(1)
    observation = env.step(2)[0]
    assert observation[74:].reshape(3, 3).tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert env.reset(seed=0)[0][74:].tolist() == [0.0] * 9
    env = live_env(n_last_actions=2, observation="dict", action_mode="multi_binary")
    env.reset(seed=0)
    assert env.step([1, 0, 0, 0, 1, 0, 0, 0])[0]["last_actions"].tolist() == [[1, 0, 0, 0, 1, 0, 0, 0], [0] * 8]


def test_feature_names():
    assert live_env().feature_names == FEATURE_NAMES
    env = live_env(n_last_actions=2, actions=["nothing", "forward"])
    assert env.feature_names == (*FEATURE_NAMES, *(f"last_actions[{i}]" for i in range(4)))
    assert len(env.feature_names) == env.observation_space.shape[0]
    relative = live_env(observation="relative", n_last_actions=1)
    assert relative.feature_names == (*RELATIVE_NAMES, *(f"last_actions[{i}]" for i in range(20)))
    assert relative.observation_space.contains(relative.reset(seed=0)[0])
    assert live_env(observation="pixels+features").feature_names == FEATURE_NAMES
    assert live_env(observation="dict").feature_names == live_env(observation="pixels").feature_names == ()


def test_step_times_are_measured_if_requested():
    env = live_env(observation="pixels")
    env.reset(seed=0)
    env.step(NOTHING)
    times = env.step_times = StepTimes()
    for _ in range(3):
        env.step(NOTHING)
    parts = (times.input_s, times.advance_s, times.snapshot_s, times.capture_s, times.features_s)
    assert [len(part) for part in parts] == [3] * 5
    assert all(value > 0.0 for part in parts[1:] for value in part)
    env.step_times = None
    assert env.step(NOTHING)[4]["ticks"] == 6


def test_written_changes_are_not_rewarded():
    env = live_env(reward={"boss_damage": 1.0, "player_damage": -1.0, "centre": 1.0})
    env.reset(seed=0)
    hp = float(env.duel_state.boss_hp)
    env.write_quantities({"boss.hp": hp - 100.0, "player.hp": 200.0, "player.position": env.scenario.boss_pose[:3]})
    assert (env.duel_state.boss_hp, env.duel_state.player_hp) == (hp - 100.0, 200.0)
    _, reward, *_, info = env.step(NOTHING)
    assert env.duel_state.player_hp == 200.0
    assert (info["reward_terms"]["boss_damage"], info["reward_terms"]["player_damage"]) == (0.0, 0.0)
    assert abs(reward) < 2.0
    assert set(env.reward_quantities) == set(info["reward_terms"])


# --- time ---------------------------------------------------------------------------------------------------


def test_step_ms():
    env = live_env(step_ms=50)
    env.reset(seed=0)
    assert [env.step(NOTHING)[4]["ticks"] for _ in range(4)] == [3] * 4
    assert env.step(NOTHING)[4]["ticks_lost"] == 0
    assert env.metadata["render_fps"] == 20


@pytest.mark.parametrize(("latency_ms", "when"), [(0, 1), (50, 1), (100, 2), (250, 3)])
def test_keys_are_pressed_after_the_latency(latency_ms, when):
    env = live_env(latency_ms=latency_ms, observation="dict", max_episode_steps=50)
    env.reset(seed=0)
    attack = env.step(LIGHT_ATTACK)
    steps = [attack, *(env.step(NOTHING) for _ in range(3))]
    began = next(n for n, step in enumerate(steps, 1) if step[0]["player_sp"][0] < 95.0)
    assert began == when
    ticks = steps[began - 1][0]["player_animation_duration"][0] * 60
    assert ticks == pytest.approx(6 - round((latency_ms % 100) * 0.06), abs=1.01)


# --- errors and failures ------------------------------------------------------------------------------------


def test_step_and_render_need_a_reset():
    env = live_env("rgb_array")
    for call in (lambda: env.step(0), env.render):
        with pytest.raises(NotResetError, match="reset"):
            call()
    assert env.fights.sessions == []
    env.reset(seed=0)
    assert (env.render().ndim, env.render().dtype) == (3, np.uint8)
    assert live_env().render() is None
    assert play(env, script(0, 2000))[-1][2]
    assert env.needs_reset
    with pytest.raises(NotResetError, match="over"):
        env.step(0)


@pytest.mark.parametrize("action", [-1, 20, 1.0, "roll", None, np.array([1, 2]), np.float64(3)], ids=str)
def test_an_action_outside_the_space_changes_nothing(action):
    env = live_env()
    env.reset(seed=0)
    before = env.fights.arena.fight.duel.tobytes()
    with pytest.raises(InvalidActionError, match="must be a whole number from 0 to 19"):
        env.step(action)
    assert env.fights.arena.fight.duel.tobytes() == before
    env.step(np.int8(3))


def test_close_before_opening_and_twice():
    live_env().close()
    env = live_env()
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(NotResetError):
        env.step(0)


def kill(arena):
    arena.is_alive = False


def close_window(arena):
    arena.has_window = False


def stall(arena):
    arena.is_stalled = True


def load(arena):
    arena.fight.restart()


@pytest.mark.parametrize(
    ("fault", "error", "n_restarts"),
    [
        (kill, ProcessExitedError, 1),
        (close_window, WindowGoneError, 1),
        (stall, ClockStalledError, 1),
        (load, PointerError, 0),  # recovers without a restart
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_failed_step_raises_and_the_next_reset_recovers(fault, error, n_restarts):
    env = live_env(observation="pixels+features")
    env.reset(seed=0)
    fault(env.fights.arena)
    with pytest.raises(error):
        env.step(0)
    with pytest.raises(NotResetError, match="failed"):
        env.step(0)
    observation, info = env.reset(seed=0)
    assert info["n_restarts"] == n_restarts
    assert env.observation_space.contains(observation)
    env.step(0)
    assert env.reset(seed=1)[1]["n_restarts"] == 0


def test_reset_option_restart():
    env = live_env()
    env.reset(seed=0)
    assert env.reset(seed=0, options={"restart": True})[1]["n_restarts"] == 1


def test_another_boss_in_the_session_is_refused():
    env = ArenaLiveEnv(boss="trickster", session=FakeArenaSession)
    with pytest.raises(EnvironmentUsageError, match=r"boss.max_hp is 1037 in the game, but \d+ against The Pale Trick"):
        env.reset(seed=0)


def test_windows_without_seeds_get_random_launch_seeds():
    assert launch_options()["seed"] == "0"
    assert len({launch_options(mask="dark_souls_3")["seed"] for _ in range(5)}) == 5
    assert launch_options(mask="dark_souls_3", launch_seed=7)["seed"] == "7"


def test_a_session_factory_can_be_used_with_a_mask():
    env = ArenaLiveEnv(session=FakeArenaSession, mask="dark_souls_3")
    assert env.profile.name == load_profile(profile_path(Path("dark_souls_3"))).name


def test_the_path_of_a_boss_file_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_bytes((BOSS_DIR / "judge.toml").read_bytes())
    for boss in ("own.toml", Path("own.toml")):
        assert launch_options(boss=boss)["boss"] == str(tmp_path / "own.toml")
    assert launch_options(boss="trickster")["boss"] == "trickster"


def test_in_place_episodes_launch_a_complete_fight():
    options = launch_options(phase="2", random_pose=True, episodes="in_place")
    assert (options["phase"], options["poses"]) == ("full", "fixed")
    options = launch_options(phase="2", random_pose=True)
    assert (options["phase"], options["poses"]) == ("2", "random")


def profile_with(**changes):
    return msgspec.structs.replace(load_profile(PROFILE_PATH), **changes)


def test_an_incomplete_profile_is_refused_at_creation():
    profile = load_profile(PROFILE_PATH)
    few = {name: value for name, value in profile.duel["attributes"].items() if name != "boss.animation"}
    with pytest.raises(ProfileError, match=r"quantity 'boss\.animation' is missing"):
        live_env(profile=profile_with(duel={**profile.duel, "attributes": few}))
    keys = {name: key for name, key in profile.keys.items() if name != "parry"}
    with pytest.raises(ProfileError, match=r"keys\.parry"):
        live_env(profile=profile_with(keys=keys))


WRONG_OPTIONS = [
    ({"bos": "judge"}, "has no option 'bos'; did you mean 'boss'?"),
    ({"boss": 5}, "boss: expected text, got a whole number"),
    ({"session": 5}, "session must be an open session, or a function that opens one, not 5"),
    ({"session": FakeArenaSession(), "mask": "elden_ring"}, "mask: an open session already has a profile"),
    ({"tls": "server.pem"}, "tls is for a server"),
    ({"display": 5}, "display: expected text or nothing"),
    ({"phase": "ful"}, "did you mean 'full'?"),
    ({"observation": "pixel"}, "observation: 'pixel' is not one of its values; did you mean 'pixels'?"),
    ({"action_mode": "discreet"}, "action_mode: 'discreet' is not one of its values; did you mean 'discrete'?"),
    ({"timing": "real"}, "timing: 'real' is not one of its values"),
    ({"episodes": "inplace"}, "did you mean 'in_place'?"),
    ({"random_pose": 1}, "random_pose: expected true or false, got a whole number"),
    ({"check_keys": "yes"}, "check_keys: expected true or false, got text"),
    ({"actions": ["forward"]}, "actions must contain 'nothing'"),
    ({"actions": ["nothing", "rol"]}, "actions: unknown action 'rol'"),
    ({"actions": ["nothing", "nothing"]}, "each name may appear only once"),
    ({"actions": "nothing"}, "actions must be a list of names"),
    ({"actions": ["nothing"], "action_mode": "continuous"}, "only discrete actions"),
    ({"threshold": 0}, "threshold must be above 0 and at most 1"),
    ({"pixels": {"width": 84}}, "pixels.width: unknown setting; did you mean 'width_px'?"),
    ({"pixels": 84}, "pixels: expected a table"),
    ({"step_ms": 0}, "step_ms: expected a number >= 1.0, got 0"),
    ({"latency_ms": -1}, "latency_ms: expected a number >= 0.0"),
    ({"game_speed": float("nan")}, "game_speed: is not a number (nan)"),
    ({"n_last_actions": 1.5}, "n_last_actions: expected a whole number"),
    ({"n_last_actions": 1, "observation": "pixels"}, "an observation of pixels alone cannot contain them"),
    ({"max_episode_steps": 0}, "max_episode_steps: expected a whole number >= 1"),
    ({"hard_reset_minutes": 0}, "hard_reset_minutes: expected a number >= 0.001"),
    ({"renderer": "hardware"}, "renderer: 'hardware' is not one of its values"),
    ({"size_px": (10, 10)}, "size_px[0]: expected a whole number >= 64"),
    ({"mask": 3}, "mask: expected text"),
    ({"server": "here:1", "pid": 3}, "give only one of server, pid and session"),
    ({"pid": "3"}, "pid: expected a whole number"),
    ({"launch_seed": -1}, "launch_seed: expected a whole number >= 0"),
    ({"reward": 3}, "reward must be a preset"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS, ids=["-".join(row[0]) for row in WRONG_OPTIONS])
def test_wrong_options_are_refused(options, message):
    with pytest.raises(EnvironmentUsageError) as caught:
        ArenaLiveEnv(**options)
    assert message in str(caught.value)


def test_a_wrong_render_mode_is_refused():
    with pytest.raises(EnvironmentUsageError, match="render_mode must be None"):
        live_env("rgb_list")


def test_skipped_decisions_take_one_picture_at_their_end():
    small = {"width_px": 32, "height_px": 18, "is_grey": True}
    pictures = {}
    for skip_locked in (False, True):
        env = live_env(observation="pixels", pixels=small, skip_locked=skip_locked)
        env.reset(seed=2)
        n_taken = env.fights.arena.n_drawn
        picture, *_, info = env.step(LIGHT_ATTACK)
        while not skip_locked and info["action_mask"].sum() == 1:
            picture, *_, info = env.step(NOTHING)
        pictures[skip_locked] = picture
        if skip_locked:
            assert info["n_decisions"] > 1
            assert env.fights.arena.n_drawn == n_taken + 1
    assert (pictures[True] == pictures[False]).all()
