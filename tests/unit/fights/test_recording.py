"""Recording of fights of the reference player, a policy and a person."""

import os
import signal
import subprocess
import sys
from itertools import islice

import gymnasium
import h5py
import numpy as np
import pytest

from benchmarks.fit_truth import compare
from benchmarks.scripted_players import measure
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import load_boss
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.recorded_fight import TOPPED_UP_PROBE
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, N_ACTIONS, NOTHING
from soulslab.envs.duels import ArenaOptions
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.errors import ConfigError, DemonstrationError, EnvironmentUsageError, IncompatibleCheckpointError
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.fights.recording import (
    FightLog,
    FightRecorder,
    env_settings,
    fight_seeds,
    record_fight,
    reference_actions,
)
from soulslab.learn.configs import config_path
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.reading import read_outcomes
from soulslab.learn.environment import EVALUATION, TRAINING, environment_seed
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.settings import NetworkSettings
from soulslab.testing.fake_arena import FakeArenaSession
from support.fights import ARENA, check_same, play_again
from support.forked import ForkedPopen
from support.players import script
from support.waiting import PATIENCE_S

TRUNCATED_ID = "toys/ShortFight-v0"


@pytest.fixture(scope="module", autouse=True)
def short_fight():
    if TRUNCATED_ID not in gymnasium.registry:
        gymnasium.register(TRUNCATED_ID, entry_point="soulslab.envs.arena:ArenaEnv", max_episode_steps=3)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "fights"


def policy(**changes):
    header = {
        "env_id": ARENA_ID,
        "env_options": {},
        "n_features": 74,
        "n_actions": N_ACTIONS,
        "network": NetworkSettings(widths=(8,)),
        "soulslab": "",
        "commit": "",
    }
    return Policy(PolicyHeader(**{**header, **changes}))


# --- the reference player -------------------------------------------------------------------------------------


def test_win_rate_of_the_reference_player():
    boss = load_boss("judge", list(load_knight().knock_backs))
    score = measure(boss, "1", "reference", n_fights=40, seed=100)
    options = ArenaOptions(phase="1", random_pose=True)
    env = gymnasium.make(ARENA_ID, phase="1", random_pose=True)
    won = 0
    for seed in range(100, 140):
        env.reset(seed=seed)
        for action in reference_actions(options, seed):
            *_, terminated, truncated, info = env.step(action)
        assert terminated or truncated
        won += info["fight"]["won"]
    assert won / 40 == score.win_rate


@pytest.mark.parametrize("changes", [{}, {"skip_locked": False}, {"reward": "sparse", "observation": "dict"}])
def test_a_recorded_fight_equals_that_of_the_environment(out, changes):
    options = {**ARENA, **changes}
    with FightRecorder(out, ARENA_ID, options, "reference") as recorder:
        for seed in fight_seeds(3, 2):
            episode = record_fight(recorder, seed)
            check_same(episode, play_again(ARENA_ID, options, episode))
            assert len(reference_actions(ArenaOptions(**ARENA), seed)) == episode.n_decisions.sum()
            assert (len(episode.actions) < episode.n_decisions.sum()) == options["skip_locked"]
    assert (recorder.n_fights, recorder.n_steps) == (2, describe(out).n_steps)


def test_seeds_of_demonstrations_and_evaluations_are_disjoint():
    shown = set(fight_seeds(0, 1000))
    for purpose in (TRAINING, EVALUATION):
        first = environment_seed(0, purpose)
        assert shown.isdisjoint(range(first, first + 1000))


def test_the_reference_player_only_supports_the_arena(out):
    with (
        FightRecorder(out, TRUNCATED_ID, {}, "reference") as recorder,
        pytest.raises(EnvironmentUsageError, match=f"can only fight in {ARENA_ID}"),
    ):
        record_fight(recorder, 0)


# --- a policy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [ARENA_ID, TRUNCATED_ID])
def test_a_policy(out, env_id):
    player = policy(env_id=env_id)
    with FightRecorder(out, env_id, ARENA, "policy") as recorder:
        episode = recorder.play(player, 4)
    check_same(episode, play_again(env_id, ARENA, episode))
    assert episode.is_terminated == (env_id == ARENA_ID)
    assert len(episode.observations) == len(episode.masks) == len(episode.actions) + 1
    for i in range(len(episode.actions)):
        assert player.act(episode.observations[i], episode.masks[i]) == episode.actions[i]


def test_a_policy_with_extra_inputs_gets_those_of_an_evaluation(out):
    player = Watcher(policy(extras=ExtraInputs(previous_actions=1, time_left_decisions=100)))
    with FightRecorder(out, ARENA_ID, ARENA, "policy") as recorder:
        episode = recorder.play(player, 4)
    n_decisions = np.concatenate(([0], episode.n_decisions.cumsum()))
    for i, features in enumerate(player.seen):
        np.testing.assert_array_equal(features[:74], episode.observations[i])
        assert features[74:-1].nonzero()[0].tolist() == ([episode.actions[i - 1]] if i else [])
        assert features[-1] == np.float32(max(0.0, 1 - n_decisions[i] / 100))


class Watcher:
    """Player that takes the first allowed action, and keeps its inputs."""

    def __init__(self, player):
        self.header = player.header
        self.seen = []

    def act(self, inputs, mask=None, *, deterministic=True):  # noqa: ARG002 (a player's signature)
        self.seen.append(inputs.features[0].copy())
        return mask.argmax(1)


def test_a_policy_of_another_environment(out):
    with (
        FightRecorder(out, ARENA_ID, ARENA, "policy") as recorder,
        pytest.raises(IncompatibleCheckpointError, match="was trained on toys/Lights-v0"),
    ):
        recorder.play(policy(env_id="toys/Lights-v0"), 0)


@pytest.mark.parametrize("options", [ARENA, {"boss": "generated:1-3"}])
def test_an_evaluation_records_the_states_of_the_duels(options):
    episodes = []
    settings = EvaluationSettings(env_id=ARENA_ID, env_options=options, n_fights=4, n_envs=2)
    evaluate(policy(), settings, record=episodes.append)
    assert len(episodes) == 4
    seeded = [episode for episode in episodes if episode.seed is not None]
    assert len(seeded) == 2
    for episode in seeded:
        # The last state is that before the last step, because the environment shows its next fight already.
        np.testing.assert_array_equal(episode.duel_states[:-1], play_again(ARENA_ID, options, episode).duel_states[:-1])
        assert len(episode.duel_states) == len(episode.actions) + 1


def test_fights_are_recorded_until_their_game_time_is_over(out):
    n_fights = 0
    for _ in range(2):
        with FightRecorder(out, ARENA_ID, ARENA, "reference", is_continued=True) as recorder:
            taken = [
                record_fight(recorder, seed).n_decisions.sum() for seed in islice(recorder.seeds(3, minutes=0.5), 100)
            ]
        # A decision has 100 ms, also in a step that skips locked moments.
        assert sum(taken[:-1]) < 300 <= sum(taken)
        assert recorder.game_time_s == pytest.approx(sum(taken) / 10)
        n_fights += recorder.n_fights
    assert [outcome["seed"] for outcome in read_outcomes(describe(out))] == fight_seeds(3, n_fights)


def test_a_decision_of_a_game_has_another_game_time(out):
    options = {"session": FakeArenaSession, "step_ms": 50}
    with FightRecorder(out, ARENA_LIVE_ID, options, "probe") as recorder:
        episode = recorder.probe(ProbePlayer(1, 0), 3)
    assert recorder.game_time_s == pytest.approx(episode.n_decisions.sum() * 0.05)
    (fight,) = read_recorded_fights([out])
    assert set(np.diff(fight.moments["tick"]).tolist()) == {3}


# --- a person -------------------------------------------------------------------------------------------------


def test_fights_of_a_person_are_replayed_with_the_steps_of_the_learner(out):
    with FightRecorder(out, ARENA_ID, ARENA, "human") as recorder:
        kept = []
        rules = {name: value for name, value in ARENA.items() if name != "skip_locked"}
        log = FightLog(gymnasium.make(ARENA_ID, **rules), 7, lambda seed, actions: kept.append((seed, actions)))
        fights = []
        for n in range(2):
            log.reset(seed=None)
            rewards, is_over = [], False
            actions = iter(script(n, 3000))
            while not is_over:
                _, reward, terminated, truncated, info = log.step(next(actions))
                rewards.append(reward)
                is_over = terminated or truncated
            fights.append((sum(rewards), len(rewards), info["fight"]["won"]))
        for (seed, actions), (total, n_decisions, won) in zip(kept, fights, strict=True):
            episode = recorder.record_actions(actions, seed)
            assert episode.rewards.sum() == pytest.approx(total)
            assert (episode.n_decisions.sum(), episode.is_won) == (n_decisions, won)
            assert episode.masks[np.arange(len(episode.actions)), episode.actions].all()
    assert [seed for seed, _ in kept] == [7, 8]


def test_an_incomplete_fight_is_discarded():
    kept = []
    log = FightLog(gymnasium.make(ARENA_ID), 2**31 - 1, lambda seed, _: kept.append(seed))
    log.reset()
    log.step(NOTHING)
    log.reset()
    is_over = False
    while not is_over:
        *_, terminated, truncated, _ = log.step(NOTHING)
        is_over = terminated or truncated
    assert kept == [0]


def test_a_fight_with_other_rules_is_an_error(out):
    actions = reference_actions(ArenaOptions(phase="2", random_pose=True), 5)
    with (
        FightRecorder(out, ARENA_ID, ARENA, "human") as recorder,
        pytest.raises(DemonstrationError, match=rf"with seed 5 took {len(actions)} decisions, but \d+ in the replay"),
    ):
        recorder.record_actions(actions, 5)
    assert describe(out).n_episodes == 0


# --- the file -------------------------------------------------------------------------------------------------


def test_an_existing_data_set_is_extended_and_not_overwritten(out):
    for n in range(2):
        with FightRecorder(out, ARENA_ID, ARENA, "reference", is_continued=True) as recorder:
            record_fight(recorder, n)
    assert [outcome["seed"] for outcome in read_outcomes(describe(out))] == [0, 1]
    with pytest.raises(DemonstrationError, match="already exists; name another folder"):
        FightRecorder(out, ARENA_ID, ARENA, "reference")
    with pytest.raises(DemonstrationError, match="phase is '1' in the recording and '2' here"):
        FightRecorder(out, ARENA_ID, {**ARENA, "phase": "2"}, "reference", is_continued=True)


def test_a_fight_is_recorded_once(out):
    with FightRecorder(out, ARENA_ID, ARENA, "reference") as recorder:
        episode = record_fight(recorder, 0)
    with FightRecorder(out, ARENA_ID, ARENA, "reference", is_continued=True) as recorder:
        assert recorder.writer.seeds == {0}
        assert recorder.writer.is_recorded(episode)
        with pytest.raises(DemonstrationError, match=r"episode 0: already holds this fight \(seed 0\)"):
            record_fight(recorder, 0)
        other = episode._replace(actions=episode.actions.copy())
        other.actions[-1] = NOTHING
        assert not recorder.writer.is_recorded(other)
        assert fight_seeds(3, 3, fight_seeds(3, 1)) == fight_seeds(3, 4)[1:]
    assert describe(out).n_episodes == 1


def change_name(path):
    """Change the name of an attribute to one that is not UTF-8."""
    path.write_bytes(path.read_bytes().replace(b"total_steps", b"total_\xff\xffeps"))


def change_seed(path):
    with h5py.File(path, "a") as file:
        file["episode_0"].attrs["seed"] = [1, 2]


@pytest.mark.parametrize("damage", [change_name, change_seed, lambda path: os.truncate(path, 3000)])
def test_a_damaged_data_set_is_not_extended(out, damage):
    with FightRecorder(out, ARENA_ID, ARENA, "reference") as recorder:
        record_fight(recorder, 0)
    path = out / "main_data.hdf5"
    damage(path)
    damaged = path.read_bytes()
    with pytest.raises(DemonstrationError, match="is damaged, truncated or not a set of episodes"):
        FightRecorder(out, ARENA_ID, ARENA, "reference", is_continued=True)
    assert path.read_bytes() == damaged
    assert list(out.parent.iterdir()) == [out]


def test_a_recording_that_fails_before_its_first_fight_leaves_no_files(tmp_path):
    with (
        pytest.raises(EnvironmentUsageError),
        FightRecorder(tmp_path / "new" / "fights", TRUNCATED_ID, {}, "reference") as recorder,
    ):
        record_fight(recorder, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_without_fights_does_not_block_the_next_recording(out):
    with FightRecorder(out, ARENA_ID, ARENA, "human"):
        pass
    assert describe(out).n_episodes == 0
    (out / "main_data.hdf5").write_bytes(b"cut off")
    with FightRecorder(out, ARENA_ID, ARENA, "reference") as recorder:
        record_fight(recorder, 0)
    assert describe(out).n_episodes == 1


def test_one_process_at_a_time_records_into_a_data_set(out):
    with (
        FightRecorder(out, ARENA_ID, ARENA, "reference") as recorder,
        pytest.raises(DemonstrationError, match="another process records into this data set"),
    ):
        record_fight(recorder, 0)
        recorder.writer.publish()
        FightRecorder(out, ARENA_ID, ARENA, "reference", is_continued=True)
    assert describe(out).n_episodes == 1


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DemonstrationError, match="cannot be made"):
        FightRecorder(tmp_path / "file" / "fights", ARENA_ID, ARENA, "reference")
    with pytest.raises(DemonstrationError, match="already exists"):
        FightRecorder(tmp_path / "file", ARENA_ID, ARENA, "reference")


FULL_DISK = """
import resource, sys
from pathlib import Path
import soulslab
from soulslab.fights.recording import record_fight
from soulslab.fights.recording import FightRecorder
with FightRecorder(Path(sys.argv[1]), "soulslab/Arena-v0", {"phase": "1"}, "reference") as recorder:
    record_fight(recorder, 0)
    recorder.writer.publish()
    size = (Path(sys.argv[1]) / "main_data.hdf5").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, size + 20_000))
    for seed in range(1, 50):
        record_fight(recorder, seed)
"""


def test_a_full_disk_does_not_damage_earlier_fights(out):
    with ForkedPopen([sys.executable, "-c", FULL_DISK, str(out)], stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate(timeout=PATIENCE_S)
    assert "DemonstrationError" in said
    assert "cannot be written: file too large; free some space and record the rest with --append" in said
    assert [outcome["seed"] for outcome in read_outcomes(describe(out))] == [0]
    assert sorted(path.name for path in out.parent.rglob("*")) == ["fights", "main_data.hdf5", "metadata.json"]


KILLED = """
import os, signal, sys
from pathlib import Path
import soulslab
from soulslab.fights.recording import record_fight
from soulslab.fights.recording import FightRecorder
recorder = FightRecorder(Path(sys.argv[1]), "soulslab/Arena-v0", {"phase": "1"}, "reference")
for seed in range(2):
    record_fight(recorder, seed)
    recorder.writer.publish()
record_fight(recorder, 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_loses_only_unpublished_fights(out):
    with ForkedPopen([sys.executable, "-c", KILLED, str(out)]) as process:
        assert process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
    assert [outcome["seed"] for outcome in read_outcomes(describe(out))] == [0, 1]
    assert list(out.parent.glob(".fights.*.partial"))
    with FightRecorder(out, ARENA_ID, {"phase": "1"}, "reference", is_continued=True) as recorder:
        record_fight(recorder, 2)
    assert sorted(path.name for path in out.parent.rglob("*")) == ["fights", "main_data.hdf5", "metadata.json"]


def test_an_interrupt_keeps_the_recorded_fights(out):
    with pytest.raises(KeyboardInterrupt), FightRecorder(out, ARENA_ID, ARENA, "reference") as recorder:
        record_fight(recorder, 0)
        raise KeyboardInterrupt
    assert describe(out).n_episodes == 1


def test_unknown_options(out):
    with pytest.raises(EnvironmentUsageError, match="no option 'bos'"):
        FightRecorder(out, ARENA_ID, {"bos": "judge"}, "reference")
    with pytest.raises(EnvironmentUsageError, match="cannot be made with these options"):
        FightRecorder(out, "toys/Dot-v0", {"colour": 3}, "reference")


def test_the_environment_comes_from_any_config(tmp_path):
    settings = env_settings(config_path("demo.toml"), ["env.options.phase=2"])
    assert (settings.id, settings.options["phase"], settings.options["skip_locked"]) == (ARENA_ID, 2, True)
    (tmp_path / "rainbow.toml").write_text('algorithm = "rainbow"\n[env]\nid = "x/Y-v3"\n[replay]\ncapacity = 3\n')
    assert env_settings(tmp_path / "rainbow.toml").id == "x/Y-v3"
    (tmp_path / "wrong.toml").write_text("[env]\nn_env = 3\n")
    with pytest.raises(ConfigError, match="n_env"):
        env_settings(tmp_path / "wrong.toml")


def test_the_reference_player_rolls_and_attacks():
    actions = reference_actions(ArenaOptions(), 1)
    assert {LIGHT_ATTACK, NOTHING} < set(actions.tolist())
    assert ((actions >= FIRST_ROLL) & (actions < LIGHT_ATTACK)).any()


@pytest.mark.parametrize("options", [{}, {"observation": "dict", "phase": "2"}, {"held_out_rules": "development"}])
def test_the_probing_player_is_recorded(out, options):
    options = {"boss": "generated:1", "random_pose": True, **options}
    with FightRecorder(out, ARENA_ID, options, "probe") as recorder:
        probe = ProbePlayer(1, 0)
        episodes = [recorder.probe(probe, seed) for seed in fight_seeds(0, 2)]
    assert recorder.n_fights == 2
    for episode in episodes:
        assert episode.masks[np.arange(len(episode.actions)), episode.actions].all()
        assert len(set(episode.actions.tolist())) >= 3
    check_same(episodes[0], play_again(ARENA_ID, options, episodes[0]))


@pytest.mark.parametrize("episodes", ["in_place", "demo"])
def test_the_health_of_the_probing_player_is_restored_in_a_game(out, episodes):
    """Only the window is a fake. The fight is one of both phases, and each hit in it has the true damage."""
    options = {"session": FakeArenaSession, "episodes": episodes}
    with FightRecorder(out, ARENA_LIVE_ID, options, TOPPED_UP_PROBE) as recorder:
        episode = recorder.probe(ProbePlayer(1, 0), 3, is_restored=True)
    health = episode.duel_states["player_hp"]
    assert episode.is_won
    assert episode.rewards.sum() < -2.0  # far more damage than a player survives
    assert (np.diff(health) > 0).sum() >= 3
    with pytest.raises(DemonstrationError, match=r"'probe, health restored'.* continued with 'probe'.*another folder"):
        FightRecorder(out, ARENA_LIVE_ID, options, "probe", is_continued=True)
    (fight,) = read_recorded_fights([out])
    assert set(fight.moments["phase"].tolist()) == {1, 2}
    found = compare(fit_boss([fight], load_knight()), find_boss("judge"))
    damages = [number for number in found.numbers if number.kind == "damage"]
    assert len(damages) >= 5
    assert all(number.is_covered for number in damages)


def test_the_health_is_restored_in_games_only(out):
    with (
        FightRecorder(out, ARENA_ID, {}, TOPPED_UP_PROBE) as recorder,
        pytest.raises(EnvironmentUsageError, match=r"only be restored in a game, .* soulslab boss record"),
    ):
        recorder.probe(ProbePlayer(1), 0, is_restored=True)


def test_the_probing_player_only_fights_duels(out):
    with (
        FightRecorder(out, "CartPole-v1", {}, "probe") as recorder,
        pytest.raises(EnvironmentUsageError, match="can only fight duels, not CartPole-v1"),
    ):
        recorder.probe(ProbePlayer(1), 0)


@pytest.mark.parametrize("option", [{"late_share": 0.1}, {"position_noise_m": 0.1}])
def test_the_reference_cannot_be_recorded_with_errors(out, option):
    with (
        FightRecorder(out, ARENA_ID, option, "reference") as recorder,
        pytest.raises(EnvironmentUsageError, match="only a policy or the probe can be recorded"),
    ):
        record_fight(recorder, 1)


def test_the_reference_is_recorded_with_latency_and_held_out_rules(out):
    with FightRecorder(
        out, ARENA_ID, {"latency_ms": (50, 50), "held_out_rules": "development"}, "reference"
    ) as recorder:
        assert len(record_fight(recorder, 1).actions) > 20
