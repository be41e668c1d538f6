"""Recorded fights, and their replay."""

import json
import shutil
import struct

import psutil
import pytest

from soulslab.arena.features import FEATURE_NAMES
from soulslab.dashboard.recorded_fights import (
    film_fight,
    find_data_sets,
    find_fight_sets,
    read_fight_set,
    replay_fight,
)
from soulslab.dashboard.replay_process import END, FAILURE, ReplayProcess, ReplayRequest
from soulslab.dashboard.run_library import RunLibrary
from soulslab.envs.registration import ARENA_ID, IUDEX_ID
from soulslab.errors import DemonstrationError, IncompatibleCheckpointError
from soulslab.fights.recording import FightRecorder
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.evaluated_fights import FIGHTS_NAME, append_evaluated_fights, read_evaluated_fights
from support.fights import random_fight, record_random
from support.pixel_toys import register_pixel_toys
from support.policies import actor_critic, seeing_policy
from support.run_folders import started, write_run

OPTIONS = {"boss": "judge", "phase": "1", "observation": "features"}
SEEDS = (11, 12)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two short fights, with their episodes."""
    folder = tmp_path_factory.mktemp("fights") / "set"
    episodes = [random_fight(OPTIONS, seed) for seed in SEEDS]
    with FightRecorder(folder, "soulslab/Arena-v0", OPTIONS, "dice") as recorder:
        for episode in episodes:
            recorder.add(episode)
    return folder, episodes


def messages(folder, number, player=None):
    """Return the messages of a replay without their pictures, and the sizes of the pictures."""
    found, pictures = [], []
    for data in replay_fight(folder, number, player):
        [length] = struct.unpack(">I", data[:4])
        found.append(json.loads(data[4 : 4 + length]))
        pictures.append(len(data) - 4 - length)
    return found, pictures


def test_data_sets_are_found(recorded, tmp_path):
    folder, _ = recorded
    assert list(find_data_sets(folder.parent)) == ["set"]
    assert list(find_data_sets(folder)) == ["set"]
    # The copy of a recording that has not ended is no data set.
    shutil.copytree(folder, tmp_path / ".set.123.partial")
    assert find_data_sets(tmp_path) == {}


def test_fights_are_listed(recorded):
    folder, episodes = recorded
    found = read_fight_set(folder)
    fights = found.fights
    assert (found.player, found.env_id, found.options) == ("dice", ARENA_ID, OPTIONS)
    assert [fight.killed_by for fight in fights] == [episode.killed_by for episode in episodes]
    assert all(fight.killed_by for fight in fights)
    assert [fight.seed for fight in fights] == list(SEEDS)
    assert [fight.is_won for fight in fights] == [episode.is_won for episode in episodes]
    assert [fight.n_steps for fight in fights] == [len(episode.actions) for episode in episodes]
    assert fights[0].total_return == pytest.approx(float(episodes[0].rewards.sum()))


def test_replay_repeats_the_fight(recorded):
    folder, episodes = recorded
    (info, *moments, ending), pictures = messages(folder, 1)
    assert info["type"] == "info"
    assert [moment["action"] for moment in moments] == episodes[1].actions.tolist()
    assert [moment["reward"] for moment in moments[1:]] == pytest.approx(episodes[1].rewards[:-1].tolist(), rel=1e-3)
    assert moments[-1]["total"] == pytest.approx(float(episodes[1].rewards[:-1].sum()), rel=1e-4)
    for moment, observation in zip(moments, episodes[1].observations, strict=False):
        assert moment["features"] == pytest.approx(observation.tolist(), rel=1e-3, abs=1e-6)
    assert ending == {"type": "ending", "fight": 1, "is_won": episodes[1].is_won}
    assert all(size > 1000 for size in pictures[1:-1])
    assert moments[0]["kind"] == ""


def test_policy_is_asked_at_every_step(recorded):
    folder, episodes = recorded
    sizes = {"n_features": len(FEATURE_NAMES), "n_actions": 20, "feature_names": FEATURE_NAMES}
    player = actor_critic(env_id="soulslab/Arena-v0", env_options=OPTIONS, **sizes)
    (_, *moments, _), _ = messages(folder, 0, player)
    assert all(moment["kind"] == "probability" and len(moment["scores"]) == 20 for moment in moments)
    assert [moment["action"] for moment in moments] == episodes[0].actions.tolist()


def test_other_policies_and_fights_are_refused(recorded):
    folder, _ = recorded
    with pytest.raises(IncompatibleCheckpointError):
        next(replay_fight(folder, 0, actor_critic()))
    for number in (-1, 2):
        with pytest.raises(DemonstrationError, match="has 2 fights"):
            next(replay_fight(folder, number))


def rewrite(folder, to, spec):
    """Copy a data set with another description of its environment."""
    shutil.copytree(folder, to)
    metadata = json.loads((to / "metadata.json").read_text())
    (to / "metadata.json").write_text(json.dumps({**metadata, "env_spec": json.dumps(spec)}))
    return to


def test_fight_of_another_environment_is_shown_without_it(recorded, tmp_path):
    folder, episodes = recorded
    other = rewrite(folder, tmp_path / "other", {"id": IUDEX_ID, "kwargs": {"server": "host:1"}})
    (info, *moments, ending), pictures = messages(other, 1)
    assert info["env"] == IUDEX_ID
    assert info["features"] == list(FEATURE_NAMES)
    assert [moment["action"] for moment in moments] == episodes[1].actions.tolist()
    assert [moment["reward"] for moment in moments[1:]] == pytest.approx(episodes[1].rewards[:-1].tolist(), rel=1e-3)
    assert moments[-1]["total"] == pytest.approx(float(episodes[1].rewards[:-1].sum()), rel=1e-4)
    assert moments[0]["vitals"]["boss_hp"] == 100.0
    assert moments[-1]["vitals"]["player_hp"] < 100.0
    assert {moment["vitals"]["boss_animation"] for moment in moments} > {"Walk"}
    assert ending == {"type": "ending", "fight": 1, "is_won": False}
    assert set(pictures) == {0}
    with pytest.raises(DemonstrationError, match="no pictures"):
        film_fight(other, 1, tmp_path / "fight.mp4")


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        # The features of an environment of other people have no known names, even if there are as many.
        ({"id": "somewhere.else:Game-v0", "kwargs": {}}, []),
        # An option of a file may not select a file, so the fight is not repeated.
        ({"id": ARENA_ID, "kwargs": {**OPTIONS, "boss": "folder/boss.toml"}}, list(FEATURE_NAMES)),
    ],
)
def test_foreign_data_set_runs_nothing(recorded, tmp_path, spec, features):
    folder, episodes = recorded
    (info, *moments, ending), pictures = messages(rewrite(folder, tmp_path / "foreign", spec), 0)
    assert info["features"] == features
    assert len(moments) == len(episodes[0].actions)
    assert set(pictures) == {0}
    assert ending["type"] == "ending"


def test_repetition_that_differs_is_an_error(recorded, tmp_path):
    folder, _ = recorded
    other = rewrite(folder, tmp_path / "other", {"id": ARENA_ID, "kwargs": {**OPTIONS, "boss": "trickster"}})
    with pytest.raises(DemonstrationError, match="differs from its repetition"):
        list(replay_fight(other, 0))


def test_fights_of_evaluations_are_repeated(tmp_path):
    """The first fights of an evaluation in several environments are those of their seeds, with skipped decisions."""
    options = {**OPTIONS, "skip_locked": True}
    folder = tmp_path / "runs" / "mine"
    settings = "[env.options]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
    write_run(folder, [started()], settings=settings)
    sizes = {"n_features": len(FEATURE_NAMES), "n_actions": 20, "feature_names": FEATURE_NAMES}
    player = actor_critic(env_id=ARENA_ID, env_options=options, **sizes)
    episodes = []
    evaluation = EvaluationSettings(
        env_id=ARENA_ID, env_options=options, n_fights=9, n_envs=4, n_recorded=3, deterministic=False
    )
    evaluate(player, evaluation, record=episodes.append)
    assert len(episodes) == 3
    append_evaluated_fights(folder, 1000, episodes)
    library = RunLibrary(folder.parent)
    assert find_fight_sets(library) == {"mine": folder}
    found = read_fight_set(folder)
    assert [fight.seed for fight in found.fights] == [episode.seed for episode in episodes]
    assert {fight.env_steps for fight in found.fights} == {1000}
    for fight, episode in zip(found.fights, episodes, strict=True):
        (_, *moments, ending), pictures = messages(folder, fight.number, player)
        assert [moment["action"] for moment in moments] == episode.actions.tolist()
        assert [moment["reward"] for moment in moments[1:]] == pytest.approx(episode.rewards[:-1].tolist(), rel=1e-3)
        assert ending["is_won"] is episode.is_won
        assert all(size > 1000 for size in pictures[1:-1])


def test_evaluated_fights_survive_a_killed_process_and_a_resume(recorded, tmp_path):
    _, episodes = recorded
    append_evaluated_fights(tmp_path, 1000, episodes)
    with (tmp_path / FIGHTS_NAME).open("ab") as file:
        file.write(b'\n{"x": ' + b"[" * 100_000 + b'\n{"env_steps": 2000, "se')
    repeated = [episode._replace(killed_by="again") for episode in episodes]
    append_evaluated_fights(tmp_path, 1000, repeated)
    found = read_evaluated_fights(tmp_path)
    assert [(fight.env_steps, fight.seed, fight.killed_by) for fight in found] == [
        (1000, seed, "again") for seed in SEEDS
    ]
    (tmp_path / "config.toml").write_text('env.id = "toys/Corridor-v0"\n')
    with pytest.raises(DemonstrationError, match="evaluate --record"):
        next(replay_fight(tmp_path, 0))


def test_replay_process_that_was_killed_is_reported(tmp_path):
    with ReplayProcess() as process:
        [child] = [
            each for each in psutil.Process().children() if "soulslab.dashboard.replay_process" in each.cmdline()
        ]
        child.kill()
        process.ask(ReplayRequest(folder=str(tmp_path), fight=0))
        kind, text = process.read()
        assert (kind, process.is_waiting) == (FAILURE, False)
        assert b"has ended" in text
        assert process.read() == (END, b"")


def test_recorded_pixels_are_the_picture(tmp_path):
    register_pixel_toys()
    [episode] = record_random(tmp_path / "dots", "toys/Dot-v0", {}, 1)
    (_, *moments, _), pictures = messages(tmp_path / "dots", 0, seeing_policy())
    assert len(moments) == len(episode.actions)
    assert all(len(moment["scores"]) == 3 and moment["vitals"] == {} for moment in moments)
    assert all(size > 100 for size in pictures[1:-1])


def test_damaged_data_set_is_an_error(recorded, tmp_path):
    folder, _ = recorded
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "metadata.json").write_bytes((folder / "metadata.json").read_bytes())
    (broken / "main_data.hdf5").write_bytes(b"\x89HDF")
    with pytest.raises(DemonstrationError):
        read_fight_set(broken)
    with pytest.raises(DemonstrationError):
        next(replay_fight(broken, 0))
