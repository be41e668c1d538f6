"""Conversion of key logs to episodes, compared with the environment."""

import gymnasium
import numpy as np
import pytest

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import BUTTONS, PRESSES, LiveFight, LiveFightOptions
from soulslab.arena.player_rules import is_open
from soulslab.arena.records import TICKS_PER_DECISION, TICKS_PER_S
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, LIGHT_ATTACK, NOTHING
from soulslab.arena.window.key_log import KeyLogWriter, read_key_log
from soulslab.envs.duels import ArenaOptions, make_options
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import EnvironmentUsageError, KeyLogError
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.fights.recording import FightRecorder, episodes_of_key_log, record_key_log
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.recorded_episode import play_episode
from support.same_fight import ALL_TERMS

SEED = 21


@pytest.fixture(scope="module")
def judge():
    return load_boss("judge", list(load_knight().knock_backs))


def fight_on(game, writer, rng, n_fights):
    """Play a fight with decisions every 6 ticks; press only buttons that are possible."""
    while game.n_fights <= n_fights:
        action = NOTHING
        if game.stage == "fighting":
            action = int(rng.choice([NOTHING, 0, 2, 4, 5, 6, 7, 15, 16, 16, 17, 18]))
            action = action if is_open(game.duel, game.fight, action) else NOTHING
        keys = set(ACTIONS[action])
        for k in range(TICKS_PER_DECISION):
            was = game.n_fights, game.stage
            is_press = k == 0 and FIRST_ROLL <= action < NOTHING
            # What is pressed acts once; a walk goes on.
            held = keys if action < FIRST_ROLL or k == 0 else set()
            game.tick(held - set(PRESSES), keys & set(PRESSES) if is_press else ())
            writer.tick(game)
            if (game.n_fights, game.stage) != was:
                break  # the next fight has a grid of its own
    writer.close(game)


@pytest.fixture(scope="module")
def log(judge, tmp_path_factory):
    """A log of two complete fights and the start of a third one."""
    path = tmp_path_factory.mktemp("log") / "keys.log"
    game = LiveFight(judge, LiveFightOptions(seed=SEED, phase="1", random_pose=True))
    fight_on(game, KeyLogWriter(path, game, "judge"), np.random.default_rng(3), 2)
    return path


@pytest.mark.parametrize("skip_locked", [False, True])
@pytest.mark.parametrize("observation", ["features", "relative", "dict"])
def test_keys_at_decision_times_give_the_episode_of_the_environment(log, skip_locked, observation):
    options = {
        "phase": "1",
        "random_pose": True,
        "reward": ALL_TERMS,
        "skip_locked": skip_locked,
        "observation": observation,
    }
    env = gymnasium.make(ARENA_ID, **options)
    episodes = list(episodes_of_key_log(read_key_log(log), make_options(options)))
    assert len(episodes) == 2
    seed = SEED
    for episode in episodes:
        actions = iter(episode.actions.tolist())
        expected = play_episode(env, lambda *_, actions=actions: next(actions), seed)
        seed = None
        assert (episode.is_won, episode.is_terminated) == (expected.is_won, True)
        np.testing.assert_array_equal(episode.n_decisions, expected.n_decisions)
        np.testing.assert_array_equal(episode.masks, expected.masks)
        np.testing.assert_allclose(episode.rewards, expected.rewards, atol=1e-12)
        if observation != "dict":
            np.testing.assert_array_equal(episode.observations, expected.observations)
            assert episode.observations.dtype == expected.observations.dtype
        else:
            for name, values in expected.observations.items():
                np.testing.assert_array_equal(episode.observations[name], values, err_msg=name)
        assert episode.masks[np.arange(len(episode.actions)), episode.actions].all()
    assert {LIGHT_ATTACK, NOTHING} < set(np.concatenate([episode.actions for episode in episodes]).tolist())


def test_keys_between_decision_times(judge, tmp_path):
    path = tmp_path / "keys.log"
    game = LiveFight(judge, LiveFightOptions(seed=SEED, phase="1"))
    writer, rng, held = KeyLogWriter(path, game, "judge"), np.random.default_rng(8), set()
    pressed_at = []
    while game.n_fights == 1:
        pressed = [name for name in PRESSES if rng.random() < 0.01]
        held = {name for name in BUTTONS if (rng.random() < 0.9) == (name in held)}
        game.tick(held, pressed)
        writer.tick(game)
        if game.is_press:
            pressed_at.append(game.action)
    writer.close(game)
    options = ArenaOptions(phase="1", reward={"boss_damage": 1.0, "roll": 100.0, "attack": 10000.0})
    (episode,) = episodes_of_key_log(read_key_log(path), options)
    with FightRecorder(tmp_path / "fights", ARENA_ID, {"phase": "1"}, "human") as recorder:
        record_key_log(recorder, path)
    (fight,) = read_recorded_fights([tmp_path / "fights"])
    ticks, boss_s = np.diff(fight.moments["tick"]), np.diff(fight.moments["boss_time_s"])
    assert (ticks < TICKS_PER_DECISION).any()
    same = (np.diff(fight.moments["boss_animation"]) == 0) & (boss_s > 0.0)
    np.testing.assert_allclose(boss_s[same], ticks[same] / TICKS_PER_S, atol=1e-5)
    assert episode.masks[np.arange(len(episode.actions)), episode.actions].all()
    pressed = episode.actions[(episode.actions >= FIRST_ROLL) & (episode.actions < NOTHING)]
    assert pressed.tolist() == pressed_at
    total = int(episode.rewards.sum())
    assert total // 10000 == sum(LIGHT_ATTACK <= action <= LIGHT_ATTACK + 1 for action in pressed_at)
    assert len(episode.observations) == len(episode.actions) + 1


def test_incomplete_fights_are_skipped(judge, tmp_path):
    path = tmp_path / "keys.log"
    game = LiveFight(judge, LiveFightOptions(seed=SEED, phase="1"))
    writer = KeyLogWriter(path, game, "judge")
    for _ in range(100):
        game.tick(())
        writer.tick(game)
    game.restart()
    fight_on(game, writer, np.random.default_rng(1), 2)
    episodes = list(episodes_of_key_log(read_key_log(path), ArenaOptions(phase="1")))
    assert len(episodes) == 1


def test_a_log_becomes_a_data_set(log, tmp_path):
    with FightRecorder(tmp_path / "fights", ARENA_ID, {"phase": "1"}, "human") as recorder:
        record_key_log(recorder, log)
    assert describe(tmp_path / "fights").n_episodes == recorder.n_fights == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"phase": "2"}, "its phase is 1, but the environment has 2"),
        ({"phase": "1", "boss": "trickster"}, "its boss is"),
    ],
)
def test_a_log_with_another_boss_or_phase_is_an_error(log, options, said):
    with pytest.raises(KeyLogError, match=said):
        next(episodes_of_key_log(read_key_log(log), ArenaOptions(**options)))


def test_a_reward_function_is_an_error(log):
    options = ArenaOptions(phase="1", reward=lambda transition: transition.before["phase"] * 0.0)
    with pytest.raises(EnvironmentUsageError, match="a function cannot be evaluated for a key log"):
        next(episodes_of_key_log(read_key_log(log), options))


def test_a_log_of_a_fight_changed_by_a_program_is_an_error(judge, tmp_path):
    path = tmp_path / "keys.log"
    game = LiveFight(judge, LiveFightOptions(seed=SEED, phase="1"))
    writer = KeyLogWriter(path, game, "judge")
    digest = game.digest()
    game.duel.p_hp = 1.0
    writer.log_write(game, digest)
    writer.close(game)
    with pytest.raises(KeyLogError, match="a program changed the fight"):
        next(episodes_of_key_log(read_key_log(path), ArenaOptions(phase="1")))
