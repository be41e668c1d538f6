"""EldenGym's environment: spaces, observations, rewards, steps, and wrong use."""

import time

import eldengym as public
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from soulslab.compat import eldengym
from soulslab.compat.eldengym.eldengym_observation import COORDINATES, DEFAULT_NAMES, PUBLIC_ATTRIBUTES
from soulslab.config import Secret
from soulslab.errors import (
    EnvironmentUsageError,
    InvalidActionError,
    LaunchError,
    MissingFactError,
    NotResetError,
    ProcessExitedError,
    SiphonError,
    WindowGoneError,
)
from soulslab.games.elden_ring import EldenRing
from soulslab.games.save_files import restore
from soulslab.siphon.capture import FrameFormat

STEP_S = 1 / 60
REWARDS = ("ScoreDeltaReward", "BossDefeatReward", "CustomReward")

#: Format of the frames in observations.
FRAME = FrameFormat(320, 180)


def bits(env, *actions):
    return np.array([name in actions for name in env.action_keys], np.int8)


def numbers(observation):
    return {name: value for name, value in observation.items() if name != "frame"}


def test_the_environment_passes_gymnasium_s_checker(make):
    check_env(make(step_ms=100), skip_render_check=True)


def test_observations_are_in_the_space(make):
    env = make()
    space = env.observation_space
    assert set(space.spaces) == {"frame", *DEFAULT_NAMES, *COORDINATES}
    assert space["frame"] == gymnasium.spaces.Box(0, 255, (180, 320, 3), np.uint8)
    assert env.action_space == gymnasium.spaces.MultiBinary(13)
    assert env.action_keys[:4] == ["move_forward", "move_back", "move_left", "move_right"]
    assert space.contains(env.reset(seed=0)[0])
    env.action_space.seed(0)
    for _ in range(60):
        assert space.contains(env.step(env.action_space.sample())[0])
    assert env.observation_space is space


def test_all_parts_of_an_observation_are_of_one_moment(make, session):
    env = make(memory_attributes=[*PUBLIC_ATTRIBUTES, "boss.poise"])
    env.reset(seed=0)
    for _ in range(20):
        seen, _, _, _, info = env.step(bits(env, "move_forward"))
    arena, duel = session.arena, session.arena.fight.duel
    assert (seen["HeroHp"], seen["NpcHp"]) == (int(duel.p_hp), int(duel.b_hp))
    assert seen["HeroAnimId"] == info["player_animation"] == session.read("player.animation")
    assert seen["NpcAnimId"] == info["boss_animation"] == session.read("boss.animation")
    offset = duel.p_x - duel.b_x, duel.p_y - duel.b_y
    assert seen["dist_to_boss"] == pytest.approx(np.hypot(*offset), abs=1e-3)
    assert (seen["player_x"] - seen["boss_x"], seen["player_y"] - seen["boss_y"]) == pytest.approx(offset, abs=1e-3)
    assert seen["boss_z_relative"] == pytest.approx(0.0, abs=1e-3)
    block = [session.read("player.block_position")[i] for i in (0, 2, 1)]
    assert info["player_xyz"] == pytest.approx(block)
    assert [seen[f"player_{axis}"] for axis in "xyz"] == pytest.approx(block)
    assert [seen[f"boss_{axis}"] for axis in "xyz"] == pytest.approx(info["boss_xyz"])
    assert [seen[f"HeroGlobalPos{axis}"] for axis in "XYZ"] == pytest.approx(block)
    frame = session.capture(FRAME).pixels
    assert (seen["frame"] == frame).all()
    assert arena.input.held == {"W"}


def test_a_step_is_one_call_of_session_step(make, session, monkeypatch):
    env = make(memory_attributes=list(PUBLIC_ATTRIBUTES))
    env.reset(seed=0)
    calls = []
    for name in ("step", "snapshot", "capture", "read"):
        real = getattr(session, name)

        def counted(*args, name=name, real=real):
            calls.append((name, *args))
            return real(*args)

        monkeypatch.setattr(session, name, counted)
    env.step(bits(env, "attack"))
    [(name, asked)] = calls
    assert (name, asked.frame) == ("step", FRAME)
    assert {attribute for attribute, _ in PUBLIC_ATTRIBUTES.values()} <= set(asked.attributes)


def test_a_reset_waits_in_game_time(make, session, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    env = make(frame_px=None)
    env.reset(seed=0)
    session.write({"player.hp": 0})
    assert env.step(bits(env))[2]
    n_loads = session.arena.n_loads
    env.reset()
    assert (slept, session.arena.n_loads - n_loads) == ([], 1)


def test_a_reset_locks_on_if_the_camera_is_not_locked_on(make, session):
    env = make(memory_attributes=["lock_on"], frame_px=None)
    session.arrange = lambda arena: setattr(arena, "is_lock_lost", True)
    seen, info = env.reset(seed=0, options={"restart": True})
    assert (seen["lock_on"], info["boss_hp_normalized"]) == (1, 1.0)
    assert [key for key, is_press in session.arena.input.events if is_press].count("B") == 1
    env.step(bits(env))
    assert not session.arena.input.held


def test_a_fight_begins_without_lock_on_if_the_boss_is_out_of_range(make, session, caplog):
    def arrange(arena):
        arena.is_lock_lost = True
        arena._buttons.pop("B")  # so the key has no effect

    env = make(memory_attributes=["lock_on"], frame_px=None)
    session.arrange = arrange
    with caplog.at_level("INFO", "soulslab.compat.eldengym"):
        assert env.reset(seed=0, options={"restart": True})[0]["lock_on"] == 0
    assert "begins without lock-on: waited 0.5 s for the camera to lock on" in caplog.text
    env.step(bits(env))


def test_a_step_advances_exactly_step_ms(make, session):
    for step_ms, n_ticks in ((1000 / 60, 1), (100, 6)):
        env = make(step_ms=step_ms)
        env.reset(seed=0)
        for n in range(1, 11):
            before = session.arena.fight.n_ticks
            info = env.step(bits(env))[4]
            assert session.arena.fight.n_ticks - before == n_ticks
            assert info["game_time_s"] == pytest.approx(n * step_ms / 1000, abs=1e-5)
        assert (info["clock"], info["late_s"]) == ("lockstep", 0.0)
        assert env.step_count == 10


def test_keys_are_held_while_their_bits_are_1(make, session):
    env = make()
    env.reset(seed=0)
    game = session.arena.input
    for actions, down in (
        (["jump", "attack"], {"SPACE", "P"}),
        (["jump"], {"SPACE"}),
        (["jump"], {"SPACE"}),
        ([], set()),
    ):
        env.step(bits(env, *actions))
        assert game.held == down
    assert [event for event in game.events if event[0] == "SPACE"] == [("SPACE", True), ("SPACE", False)]
    env.step(bits(env, "move_left"))
    env.reset()
    assert not session.arena.input.held


def test_the_same_actions_give_the_same_fight(make):
    seen = []
    for _ in range(2):
        env = make(frame_px=None)
        env.reset(seed=3, options={"restart": True})
        env.action_space.seed(3)
        seen.append([numbers(env.step(env.action_space.sample())[0]) for _ in range(80)])
    assert all(one == other for one, other in zip(*seen, strict=True))


@pytest.mark.parametrize("who", ["player", "boss"])
@pytest.mark.parametrize(
    ("reward", "won", "lost"),
    [
        (None, 100.0, -100.5),
        (eldengym.BossDefeatReward(), 0.999, -1.001),
        (eldengym.CustomReward(), 100.26, -100.5),
        (eldengym.ScoreDeltaReward("boss_hp_normalized"), 99.5, -100.0),
    ],
)
def test_the_end_of_a_fight_is_rewarded_and_terminates(make, session, who, reward, won, lost):
    env = make(reward_function=reward, frame_px=None)
    env.reset(seed=0)
    full = session.read(f"{who}.max_hp")
    session.write({f"{who}.hp": full // 2})
    hurt = env.step(bits(env))[1]
    session.write({f"{who}.hp": 0})
    _, paid, terminated, truncated, info = env.step(bits(env))
    assert (terminated, truncated, info[f"{who}_hp_normalized"]) == (True, False, 0.0)
    assert paid == pytest.approx(won if who == "boss" else lost, abs=2e-3)
    if who == "player" and reward is None:
        assert hurt == pytest.approx(-0.5, abs=2e-3)
    with pytest.raises(NotResetError):
        env.step(bits(env))
    assert env.reset()[1][f"{who}_hp_normalized"] == 1.0


def test_a_user_s_reward_function_can_end_the_episode(make):
    class Mine(eldengym.RewardFunction):
        def calculate(self, obs, info, prev_info=None):
            return obs["dist_to_boss"] + info["game_time_s"] - prev_info["game_time_s"]

        def is_done(self, _, info):
            return info["game_time_s"] > 2.5 * STEP_S

    env = make(reward_function=Mine(), frame_px=None)
    env.reset(seed=0)
    steps = [env.step(bits(env)) for _ in range(3)]
    assert [step[2] for step in steps] == [False, False, True]
    for seen, paid, *_ in steps:
        assert paid == pytest.approx(float(seen["dist_to_boss"]) + STEP_S, abs=1e-4)
    with pytest.raises(NotResetError):
        env.step(bits(env))


def test_max_steps_truncates_the_episode(make):
    env = make(max_steps=3, frame_px=None)
    env.reset(seed=0)
    assert [env.step(bits(env))[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(NotResetError):
        env.step(bits(env))
    env.reset()
    assert env.step_count == 0


def test_an_unreadable_value_is_an_error(make, session):
    env = make()
    env.reset(seed=0)
    session.arena.load()  # the fight's objects are gone, and their pointers null
    with pytest.raises(SiphonError, match="is a null pointer"):
        env.step(bits(env))
    with pytest.raises(NotResetError):
        env.step(bits(env))
    assert env.reset()[1]["boss_hp_normalized"] == 1.0


def test_a_missing_window_is_an_error(make, session):
    env = make()
    env.reset(seed=0)
    session.arena.has_window = False
    with pytest.raises(WindowGoneError):
        env.step(bits(env))
    seen, info = env.reset()
    assert info["n_restarts"] == 1
    assert seen["frame"].std() > 5.0


def test_a_reset_restarts_a_game_that_has_ended(make, session):
    env = make()
    env.reset(seed=0)
    session.arena.is_alive = False
    with pytest.raises(ProcessExitedError):
        env.step(bits(env))
    assert env.reset()[1]["n_restarts"] == 1
    env.step(bits(env))


def test_the_session_works_with_the_game_interface(make):
    env = make()
    env.reset(seed=0)
    game = EldenRing(env.session)
    game.player.hp = 99
    assert env.step(bits(env))[0]["HeroHp"] == 99


def test_scenarios_have_eldengym_s_names(make, session):
    assert eldengym.list_envs() == ["DragonkinNokstella-v0", "Godrick-v0", "Margit-v0"]
    assert make("Margit-v0").scenario_name == eldengym.EldenGymEnv(session=session).scenario_name == "Margit-v0"
    with pytest.raises(EnvironmentUsageError, match=r"'Margitt-v0'; did you mean 'Margit-v0'"):
        make("Margitt-v0")
    with pytest.raises(MissingFactError):
        make("DragonkinNokstella-v0")


def test_eldengym_s_arguments_are_accepted(session, margit):
    env = eldengym.EldenGymEnv(
        margit, None, "er_siphon_config.toml", session=session, frame_format="jpeg", frame_quality=85,
        memory_attributes=["HeroSp", "NpcHp"], actions=["attack"], use_device="mouse", max_steps=None,
        launch_game=False,
    )  # fmt: skip
    assert (env.action_keys, env.memory_attributes) == (["attack"], ["HeroSp", "NpcHp"])
    assert env.reset(seed=0)[0]["HeroSp"] > 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_step": 3}, "no option 'max_step'; did you mean 'max_steps'"),
        ({"max_steps": 0}, "max_steps: expected a whole number >= 1"),
        ({"memory_attributes": ["HeroHP"]}, "'HeroHP'; did you mean 'HeroHp'"),
        ({"memory_attributes": "HeroHp"}, "must be a list of names"),
        ({"memory_attributes": ["HeroHp", "HeroHp"]}, "only once"),
        ({"memory_attributes": ["player.position"]}, "not a single number"),
        ({"frame_px": (0, 5)}, r"frame_px\[0\]: expected a whole number >= 1"),
        ({"frame_format": "png"}, "frame_format: 'png' is not one of its values"),
        ({"launch_game": 1}, "launch_game: expected true or false"),
        ({"host": 50051}, "host: expected text"),
        ({"step_ms": 0}, "step_ms: expected a number"),
        ({"render_mode": "human"}, "render_mode must be"),
        ({"save_file_name": "margit.sl2"}, "save_files.restore"),
        ({"reward_function": eldengym.CustomReward}, "must be an object"),
        ({"host": "localhost:50051"}, "only one of"),
        ({"host": "localhost:50051", "launch_game": True}, "give no host with it"),
        ({"token": Secret("secret")}, "give its address as host="),
    ],
)
def test_wrong_options_are_refused(make, options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        make(**options)
    assert callable(restore)  # one of the messages names it


def test_a_game_that_is_not_installed_cannot_be_launched():
    with pytest.raises(LaunchError):
        eldengym.make("Margit-v0", launch_game=True, folder="/nonexistent", proton="/nonexistent")


def test_use_before_the_first_reset_is_refused(make):
    env = make(render_mode="rgb_array")
    with pytest.raises(NotResetError):
        env.step(bits(env))
    with pytest.raises(NotResetError):
        env.render()
    env.reset(seed=0)
    with pytest.raises(InvalidActionError):
        env.step([1, 0])
    assert env.render().shape[2] == 3


def test_missing_names_of_eldengym_name_a_replacement():
    ours = set(eldengym.__all__) & set(public.__all__)
    assert ours == {"EldenGymEnv", "RewardFunction", *REWARDS, "make", "list_envs", "register"}
    for name in set(public.__all__) - ours:
        with pytest.raises(ImportError, match=f"eldengym has no '{name}'; "):
            getattr(eldengym, name)
    with pytest.raises(ImportError, match="import it from eldengym"):
        from soulslab.compat.eldengym import HPRefundWrapper  # noqa: F401, PLC0415  (tested here)
    with pytest.raises(AttributeError):
        eldengym.Margit  # noqa: B018


@pytest.mark.parametrize("name", ["Margit-v0", "Margit", "margit"])
def test_the_id_of_eldengym_s_documentation_is_registered(name):
    env = gymnasium.make("EldenGym-v0", scenario_name=name, reward_function=lambda _obs, _info, _over, _cut: 0.0)
    assert isinstance(env.unwrapped, eldengym.EldenGymEnv)
    assert env.action_space == gymnasium.spaces.MultiBinary(13)
    with pytest.raises(EnvironmentUsageError, match="unknown scenario 'margot'"):
        gymnasium.make("EldenGym-v0", scenario_name="margot")


def test_register_behaves_like_eldengym_s(session, margit):
    seen = []
    fight = {"scenario_name": margit, "session": session, "frame_px": None}
    eldengym.register("Registered-v0", eldengym.EldenGymEnv, fight, max_episode_steps=7, setup_hook=seen.append)
    env = eldengym.make("Registered-v0", step_ms=100)
    assert seen == [env]
    assert env.max_steps == 7
    assert eldengym.make("Registered-v0", max_steps=9).max_steps == 9
    assert "Registered-v0" in eldengym.list_envs()
    with pytest.raises(EnvironmentUsageError, match="'Registered-v0' exists"):
        eldengym.register("Registered-v0")
    eldengym.register("Registered-v0", kwargs=fight, force=True)
    with pytest.raises(EnvironmentUsageError, match="'Margit-v0' exists"):
        eldengym.register("Margit-v0", force=True)


def test_gymnasium_can_register_a_user_s_fight(session, margit):
    fight = {"scenario_name": margit, "session": lambda: session, "frame_px": None}
    gymnasium.register("MyFight-v0", entry_point="soulslab.compat.eldengym:EldenGymEnv", kwargs=fight)
    try:
        with gymnasium.make("MyFight-v0", max_steps=1) as env:
            env.reset(seed=0)
            assert env.step(env.action_space.sample())[3]
    finally:
        del gymnasium.registry["MyFight-v0"]
