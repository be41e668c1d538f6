"""The single arena environment: results of steps, options, and errors."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.arena.boss_file import boss_names
from soulslab.arena.vocabulary import LIGHT_ATTACK, NOTHING
from soulslab.envs.arena import ArenaEnv, ArenaVectorEnv
from soulslab.envs.wrappers import FightReport
from soulslab.errors import (
    BossFileError,
    EnvironmentUsageError,
    InvalidActionError,
    NotResetError,
    SoulslabError,
    UnknownBossError,
    UnknownOptionError,
    UnknownRewardError,
)
from support.players import script, scripts

ID = "soulslab/Arena-v0"


def play(env, actions):
    """Return the results of the steps up to the end of the fight."""
    steps = []
    for action in actions:
        steps.append(env.step(int(action)))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


# --- results of steps ----------------------------------------------------------------------------------------


def test_infos_and_types():
    env = gymnasium.make(ID)
    obs, info = env.reset(seed=3)
    assert set(info) == {"action_mask", "n_decisions", "n_masked", "reward_terms"}
    assert (info["n_decisions"], info["n_masked"], set(info["reward_terms"].values())) == (0, 0, {0.0})
    assert (info["action_mask"].shape, info["action_mask"].dtype) == ((20,), np.bool_)
    steps = play(env, script(3, 2000))
    for obs, reward, terminated, truncated, info in steps:
        assert obs in env.observation_space
        assert {type(reward), type(terminated), type(truncated)} == {float, bool}
        assert {"action_mask", "n_decisions", "n_masked", "reward_terms"} <= set(info)
        assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12)
        assert info["n_decisions"] == 1
        assert ("fight" in info) == (terminated or truncated)
    assert steps[-1][2]
    fight = steps[-1][4]["fight"]
    assert not fight["won"]
    assert fight["n_decisions"] == len(steps)
    assert fight["time_s"] == pytest.approx(len(steps) / 10)
    assert fight["damage_by_attack"].shape == (len(env.unwrapped.attack_names),)
    assert fight["damage_by_attack"].sum() == fight["damage_taken"]
    assert fight["return"] == pytest.approx(sum(step[1] for step in steps))
    assert fight["start_pose"] == -1
    assert 0 <= fight["killed_by"] < len(env.unwrapped.attack_names)
    assert fight["rolls"] > 0
    assert fight["attacks"] > 0
    assert fight["hits_taken"] > 0


def test_returned_values_do_not_change_later():
    env = gymnasium.make(ID, observation="features")
    first, info = env.reset(seed=0)
    copies = first.copy(), info["action_mask"].copy()
    step = env.step(LIGHT_ATTACK)
    kept = step[0].copy(), step[4]["action_mask"].copy()
    env.step(NOTHING)
    env.reset(seed=1)
    np.testing.assert_array_equal(first, copies[0])
    np.testing.assert_array_equal(info["action_mask"], copies[1])
    np.testing.assert_array_equal(step[0], kept[0])
    np.testing.assert_array_equal(step[4]["action_mask"], kept[1])


def test_a_report_does_not_change_in_the_next_fight():
    env = gymnasium.make(ID)
    env.reset(seed=0)
    fight = play(env, script(1, 2000))[-1][4]["fight"]
    kept = fight["damage_by_attack"].copy()
    env.reset(seed=5)
    play(env, script(7, 2000))
    np.testing.assert_array_equal(fight["damage_by_attack"], kept)


@settings(max_examples=25)
@given(
    boss=st.sampled_from(boss_names()),
    phase=st.sampled_from(["1", "2", "full"]),
    observation=st.sampled_from(["features", "dict", "boxes"]),
    seed=st.integers(0, 2**32),
    random_pose=st.booleans(),
    skip_locked=st.booleans(),
)
def test_every_observation_lies_in_its_space(boss, phase, observation, seed, random_pose, skip_locked):
    options = {"boss": boss, "phase": phase, "observation": observation}
    options |= {"random_pose": random_pose, "skip_locked": skip_locked}
    env, envs = ArenaEnv(**options), ArenaVectorEnv(num_envs=3, autoreset_mode="same_step", **options)
    obs, _ = env.reset(seed=seed)
    assert env.observation_space.contains(obs)
    for step in play(env, script(seed, 120)):
        assert env.observation_space.contains(step[0])
    obs, _ = envs.reset(seed=seed)
    assert envs.observation_space.contains(obs)
    for actions in scripts(range(seed, seed + 3), 120):
        obs, *_, info = envs.step(actions)
        assert envs.observation_space.contains(obs)
        for final in info.get("final_obs", []):
            assert final is None or envs.single_observation_space.contains(final)


# --- seeds and options --------------------------------------------------------------------------------------


def test_a_seed_determines_the_fight():
    def fight(seed):
        env = gymnasium.make(ID, random_pose=True)
        return [env.reset(seed=seed)[0], *(step[0] for step in play(env, script(0, 60)))]

    np.testing.assert_array_equal(fight(5), fight(5))
    assert not np.array_equal(fight(5), fight(6))


def test_fights_without_a_seed_differ():
    env = gymnasium.make(ID, random_pose=True)
    starts = {tuple(env.reset()[0].tolist()) for _ in range(6)}
    again = {tuple(gymnasium.make(ID, random_pose=True).reset()[0].tolist()) for _ in range(3)}
    assert len(starts | again) == 9


@pytest.mark.parametrize("phase", ["1", "2", "full", 1, 2])
def test_phases_by_text_or_number(phase):
    env = gymnasium.make(ID, phase=phase, observation="dict")
    obs, _ = env.reset(seed=0)
    assert obs["phase"] == (2 if str(phase) == "2" else 1)
    assert obs["boss_hp"][0] == (518 if str(phase) == "2" else 1037)


def test_a_boss_file(tmp_path):
    from soulslab.arena.boss_file import BOSS_DIR  # noqa: PLC0415 (used once)

    file = tmp_path / "mine.toml"
    file.write_text((BOSS_DIR / "judge.toml").read_text().replace("hp = 1037", "hp = 77"))
    for boss in (file, str(file)):
        obs, _ = gymnasium.make(ID, boss=boss, observation="dict").reset(seed=0)
        assert (obs["boss_max_hp"], obs["boss_hp"][0]) == (77, 77)


def test_masked_actions_count_and_act_as_nothing():
    masked, idle = gymnasium.make(ID), gymnasium.make(ID)
    masked.reset(seed=1)
    idle.reset(seed=1)
    for env in (masked, idle):
        env.step(LIGHT_ATTACK)
    for n in range(1, 4):
        first, second = masked.step(n), idle.step(NOTHING)
        assert not second[4]["action_mask"][n]
        np.testing.assert_array_equal(first[0], second[0])
        assert (first[4]["n_masked"], second[4]["n_masked"]) == (n, 0)
    masked.reset(seed=1)
    assert masked.step(NOTHING)[4]["n_masked"] == 0


def test_action_masks_returns_the_mask_of_info():
    env = gymnasium.make(ID)
    _, info = env.reset(seed=0)
    np.testing.assert_array_equal(env.unwrapped.action_masks(), info["action_mask"])
    info = env.step(LIGHT_ATTACK)[4]
    np.testing.assert_array_equal(env.unwrapped.action_masks(), info["action_mask"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("phase", ["full", "2"])
def test_skip_locked_equals_an_agent_that_waits(seed, phase):
    skipping = gymnasium.make(ID, skip_locked=True, random_pose=True, phase=phase)
    waiting = gymnasium.make(ID, random_pose=True, phase=phase)
    skipping.reset(seed=seed)
    _, info = waiting.reset(seed=seed)
    total = 0
    for action in script(seed, 1000):
        obs, reward, terminated, truncated, info = skipping.step(int(action))
        by_hand = [waiting.step(int(action))]
        while by_hand[-1][4]["action_mask"].sum() == 1 and not (by_hand[-1][2] or by_hand[-1][3]):
            by_hand.append(waiting.step(NOTHING))
        np.testing.assert_array_equal(obs, by_hand[-1][0])
        np.testing.assert_array_equal(info["action_mask"], by_hand[-1][4]["action_mask"])
        assert reward == pytest.approx(sum(step[1] for step in by_hand), abs=1e-9)
        assert info["n_decisions"] == len(by_hand)
        assert (terminated, truncated) == by_hand[-1][2:4]
        total += len(by_hand)
        if terminated:
            break
        assert info["action_mask"].sum() > 1
    assert terminated
    assert info["fight"]["n_decisions"] == total
    assert info["fight"]["return"] == pytest.approx(by_hand[-1][4]["fight"]["return"])


# --- errors -------------------------------------------------------------------------------------------------

WRONG_OPTIONS = [
    (
        {"boss": "juge"},
        UnknownBossError,
        "unknown boss 'juge'; did you mean 'judge'? (known: frost_beast, judge, trickster)",
    ),
    ({"boss": 5}, EnvironmentUsageError, "boss: expected text, got a whole number"),
    ({"boss": "nowhere.toml"}, BossFileError, "nowhere.toml: cannot be read"),
    ({"phase": "3"}, EnvironmentUsageError, "phase: '3' is not one of its values"),
    ({"phase": 7}, EnvironmentUsageError, "phase: 7 is not one of its values (known: 1, 2, full)"),
    ({"phase": "ful"}, EnvironmentUsageError, "did you mean 'full'?"),
    ({"observation": "dictionary"}, EnvironmentUsageError, "observation: 'dictionary' is not one of its values"),
    ({"observation": "feature"}, EnvironmentUsageError, "did you mean 'features'?"),
    ({"random_pose": 1}, EnvironmentUsageError, "random_pose: expected true or false, got a whole number"),
    ({"skip_locked": "yes"}, EnvironmentUsageError, "skip_locked: expected true or false, got text"),
    ({"max_episode_steps": 0}, EnvironmentUsageError, "max_episode_steps: expected a whole number >= 1"),
    ({"max_episode_steps": True}, EnvironmentUsageError, "max_episode_steps: expected a whole number or nothing"),
    ({"bos": "judge"}, TypeError, "unexpected keyword argument 'bos'"),  # as for an unknown keyword argument
    ({"bos": "judge"}, EnvironmentUsageError, "soulslab/Arena-v0 has no option 'bos'; did you mean 'boss'?"),
    ({"reward": "soulsgim"}, UnknownRewardError, "unknown reward preset 'soulsgim'; did you mean 'soulsgym'?"),
    ({"reward": {"wins": 1.0}}, UnknownRewardError, "unknown reward term 'wins'; did you mean 'win'?"),
    ({"reward": {"win": "1"}}, EnvironmentUsageError, "the weight of 'win' must be a finite number, not '1'"),
    ({"reward": {"win": float("nan")}}, EnvironmentUsageError, "reward.win: is not a number (nan)"),
    ({"reward": {"win": True}}, EnvironmentUsageError, "must be a finite number, not True"),
    ({"reward": 3}, EnvironmentUsageError, "reward must be a preset (soulsgym, eldengym, sparse)"),
]


@pytest.mark.parametrize("cls", [ArenaEnv, ArenaVectorEnv])
@pytest.mark.parametrize(("options", "error", "message"), WRONG_OPTIONS, ids=[str(row[0]) for row in WRONG_OPTIONS])
def test_a_wrong_option_is_a_clear_error(cls, options, error, message):
    with pytest.raises(error) as caught:
        cls(**options)
    assert message in str(caught.value)
    assert isinstance(caught.value, SoulslabError)


@pytest.mark.parametrize("env_id", [ID, "soulslab/ArenaLive-v0", "soulslab/Doom-v0", "soulslab/DarkSouls3Iudex-v0"])
def test_an_unknown_option_of_make_is_also_a_type_error(env_id):
    with pytest.raises(UnknownOptionError, match="has no option 'fram_skip'") as caught:
        gymnasium.make(env_id, fram_skip=4)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, EnvironmentUsageError)


def test_a_wrong_render_mode():
    with pytest.raises(EnvironmentUsageError, match="render_mode must be None"):
        ArenaEnv(render_mode="ansi")
    for mode in ("human", "rgb_array_list"):
        with pytest.raises(EnvironmentUsageError, match="render_mode of a vector environment must be None or 'rgb"):
            ArenaVectorEnv(2, render_mode=mode)


@pytest.mark.parametrize("skip_locked", [False, True])
def test_a_limit_of_steps_truncates_with_a_report(skip_locked):
    env = ArenaEnv(max_episode_steps=12, skip_locked=skip_locked)
    for _ in range(2):
        env.reset(seed=3)
        steps = play(env, script(3, 12))
        assert [step[3] for step in steps] == [False] * 11 + [True]
        assert not any(step[2] for step in steps)
        report = steps[-1][4]["fight"]
        assert report["n_decisions"] == sum(step[4]["n_decisions"] for step in steps)
        assert (report["n_decisions"] > 12) == skip_locked
        assert report["return"] == pytest.approx(sum(step[1] for step in steps))
        with pytest.raises(NotResetError):
            env.step(0)


def test_a_fight_that_ends_with_its_last_step_is_not_truncated():
    env = ArenaEnv()
    env.reset(seed=0)
    n = len(play(env, script(0, 2000)))
    env = ArenaEnv(max_episode_steps=n)
    env.reset(seed=0)
    assert play(env, script(0, 2000))[-1][2:4] == (True, False)


@pytest.mark.parametrize("reward", ["soulsgym", lambda transition: transition.terms["time"]])
def test_a_report_when_the_limit_of_gymnasium_truncates(reward):
    limited = gymnasium.make(ID, max_episode_steps=5, reward=reward)
    native = ArenaEnv(max_episode_steps=5, reward=reward)
    for seed in (4, 5):
        for env in (limited, native):
            env.reset(seed=seed)
        ours, theirs = play(limited, script(seed, 8)), play(native, script(seed, 8))
        assert len(ours) == len(theirs) == 5
        assert ours[-1][3]
        np.testing.assert_equal(ours[-1][4]["fight"], theirs[-1][4]["fight"])
        assert "fight" not in ours[-2][4]
    limited.unwrapped.reset(seed=4)
    assert not any("fight" in step[4] for step in play(limited.unwrapped, script(4, 8)))


class EachActionTwice(gymnasium.Wrapper):
    """Plays two steps of the environment for each of its own."""

    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


def test_the_smallest_limit_reports_in_steps_of_its_wrapper():
    env = TimeLimit(EachActionTwice(TimeLimit(ArenaEnv(), 100)), 5)
    env.reset(seed=4)
    steps = play(env, script(4, 8))
    assert len(steps) == 5
    assert steps[-1][4]["fight"]["n_decisions"] == 10
    assert not any("fight" in step[4] for step in steps[:-1])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("vectorization_mode", ["sync", "vector_entry_point"])
def test_vectors_report_once_when_the_limit_truncates(vectorization_mode, mode):
    own = {"vector_kwargs": {"autoreset_mode": AutoresetMode[mode.upper()]}}
    kwargs = own if vectorization_mode == "sync" else {"autoreset_mode": mode}
    envs = gymnasium.make_vec(ID, num_envs=2, vectorization_mode=vectorization_mode, max_episode_steps=5, **kwargs)
    envs.reset(seed=0)
    infos = [envs.step(np.full(2, NOTHING))[4] for _ in range(11)]
    reports = [info.get("final_info", info).get("fight") for info in infos]
    ends = [4, 9] if mode == "same_step" else [4, 10]
    assert [i for i, report in enumerate(reports) if report] == ends
    for i in ends:
        assert reports[i]["n_decisions"].tolist() == [5, 5]


def test_the_wrapper_reports_fights_that_other_wrappers_truncate():
    class Impatient(gymnasium.Wrapper):
        def step(self, action):
            observation, reward, terminated, _, info = self.env.step(action)
            return observation, reward, terminated, True, info

    env = FightReport(Impatient(ArenaEnv()))
    env.reset(seed=4)
    assert env.step(NOTHING)[4]["fight"]["n_decisions"] == 1
    with pytest.raises(EnvironmentUsageError, match="does not report fights"):
        FightReport(gymnasium.make("CartPole-v1"))


def test_stepping_before_reset_and_after_the_end():
    env = ArenaEnv()
    with pytest.raises(NotResetError, match="call reset"):
        env.step(0)
    with pytest.raises(NotResetError, match="call reset"):
        ArenaEnv(render_mode="rgb_array").render()
    env.reset(seed=0)
    assert play(env, script(0, 2000))[-1][2]
    with pytest.raises(NotResetError, match="the fight is over"):
        env.step(0)
    env.reset()
    env.step(0)


OUTSIDE = [-1, 20, 1.0, "roll", None, True, np.array([1, 2]), np.float64(3), torch.tensor(20), torch.tensor(1.0)]


@pytest.mark.parametrize("action", OUTSIDE, ids=str)
def test_an_action_outside_the_space(action):
    env = ArenaEnv()
    env.reset(seed=0)
    before = env.simulator.duels.tobytes()
    with pytest.raises(InvalidActionError, match="must be a whole number from 0 to 19"):
        env.step(action)
    assert env.simulator.duels.tobytes() == before


@pytest.mark.parametrize("action", [3, np.int64(3), np.int32(3), np.uint8(3), np.array(3), torch.tensor(3)], ids=repr)
def test_integers_of_any_type_are_actions(action):
    env = ArenaEnv()
    env.reset(seed=0)
    assert env.step(action)[4]["n_masked"] == 0


def test_the_boxes_are_the_fields_as_float32():
    exact, boxes = ArenaEnv(observation="dict"), ArenaEnv(observation="boxes")
    for space in boxes.observation_space.values():
        assert isinstance(space, gymnasium.spaces.Box)
        assert (space.dtype, space.is_bounded()) == (np.float32, True)
    (first, _), (second, _) = exact.reset(seed=4), boxes.reset(seed=4)
    for action in script(4, 40):
        assert list(first) == list(second)
        for name, value in first.items():
            np.testing.assert_array_equal(np.atleast_1d(value).astype(np.float32), second[name])
        first, second = exact.step(int(action))[0], boxes.step(int(action))[0]


# --- resets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [ArenaEnv(), ArenaVectorEnv(num_envs=2)], ids=["one", "vector"])
def test_unknown_reset_options_are_refused(env):
    for options in ({"foo": 1}, {"reset_mas": np.ones(2, np.bool_)}):
        with pytest.raises(EnvironmentUsageError, match=f"reset .*{next(iter(options))!r}"):
            env.reset(seed=0, options=options)
    with pytest.raises(EnvironmentUsageError, match="options must be a dict or None, not 5"):
        env.reset(seed=0, options=5)
    env.reset(seed=0, options={"minari_autoseed": False})  # Minari's DataCollector passes it on


def test_seeds_have_64_bits():
    largest = 2**64 - 1
    first, _ = ArenaEnv().reset(seed=largest)
    envs = ArenaVectorEnv(num_envs=2)
    np.testing.assert_array_equal(envs.reset(seed=largest)[0][0], first)
    with pytest.raises(EnvironmentUsageError, match="from 0 to 2"):
        ArenaEnv().reset(seed=2**64)


# --- drawing ------------------------------------------------------------------------------------------------


def test_drawings():
    env = gymnasium.make(ID, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert (picture.ndim, picture.shape[2], picture.dtype) == (3, 3, np.uint8)
    assert ArenaEnv().render() is None


def test_a_vector_draws_each_fight():
    env = gymnasium.make_vec(ID, num_envs=2, render_mode="rgb_array")
    with pytest.raises(NotResetError, match="render"):
        env.render()
    env.reset(seed=7)
    env.step(np.array([0, 5]))
    single = ArenaEnv(render_mode="rgb_array")
    single.reset(seed=8)
    single.step(5)
    first, second = env.render()
    np.testing.assert_array_equal(second, single.render())
    assert not np.array_equal(first, second)
    assert gymnasium.make_vec(ID, num_envs=2).render() is None


def test_films_have_three_pictures_for_each_decision():
    env = gymnasium.make(ID, render_mode="rgb_array_list").unwrapped
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    assert len(env.render()) == 1 + 4 * 3
    assert env.render() == []
    assert env.metadata["render_fps"] == 30
