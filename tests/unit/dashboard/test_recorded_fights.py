"""Recorded fights, and their replay."""

import json
import shutil
import struct

import pytest

from soulslab.arena.features import FEATURE_NAMES
from soulslab.dashboard.recorded_fights import film_fight, find_data_sets, list_fights, replay_fight
from soulslab.errors import DemonstrationError, IncompatibleCheckpointError
from soulslab.fights.recording import FightRecorder
from support.fights import random_fight, record_random
from support.pixel_toys import register_pixel_toys
from support.policies import actor_critic, seeing_policy

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
    assert find_data_sets(tmp_path) == {}


def test_fights_are_listed(recorded):
    folder, episodes = recorded
    description, fights = list_fights(folder)
    assert description.player == "dice"
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
        with pytest.raises(DemonstrationError, match="has 2 episodes"):
            next(replay_fight(folder, number))


def test_fight_of_another_environment_is_shown_without_it(recorded, tmp_path):
    folder, episodes = recorded
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    metadata = json.loads((other / "metadata.json").read_text())
    metadata["env_spec"] = json.dumps({"id": "somewhere.else:Game-v0", "kwargs": {"server": "host:1"}})
    (other / "metadata.json").write_text(json.dumps(metadata))
    (info, *moments, ending), pictures = messages(other, 1)
    assert info["env"] == "somewhere.else:Game-v0"
    assert info["features"] == list(FEATURE_NAMES)
    assert [moment["action"] for moment in moments] == episodes[1].actions.tolist()
    assert [moment["reward"] for moment in moments[1:]] == pytest.approx(episodes[1].rewards[:-1].tolist(), rel=1e-3)
    assert moments[0]["vitals"]["boss_hp"] == 100.0
    assert moments[-1]["vitals"]["player_hp"] < 100.0
    assert {moment["vitals"]["boss_animation"] for moment in moments} > {"Walk"}
    assert ending == {"type": "ending", "fight": 1, "is_won": False}
    assert set(pictures) == {0}
    with pytest.raises(DemonstrationError, match="no pictures"):
        film_fight(other, 1, tmp_path / "fight.mp4")


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
        list_fights(broken)
    with pytest.raises(DemonstrationError):
        next(replay_fight(broken, 0))
