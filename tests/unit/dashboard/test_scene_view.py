"""Preparation of decisions for the browser."""

import json
import shutil
import struct
from contextlib import closing

import cv2
import gymnasium
import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.top_down import draw_duel
from soulslab.dashboard.scene_view import PICTURE_HEIGHT_PX, SceneView, feature_groups, pack
from soulslab.learn.live_feed import FeedInfo, Moment


@pytest.fixture
def env():
    env = gymnasium.make("soulslab/Arena-v0", boss="judge", observation="features")
    env.reset(seed=3)
    for action in (0, 0, 16):
        env.step(action)
    yield env.unwrapped
    env.close()


def info(**changes):
    fields = {"env_id": "x", "feature_names": (), "n_actions": 3, "action_names": (), "scene": {}, **changes}
    return FeedInfo(**fields)


def moment(**changes):
    values = np.array([0.5, -1.0, 2.0], np.float32)
    fields = {
        "fight": 1,
        "decision": 4,
        "wall_s": 1.5,
        "action": 2,
        "reward": 0.25,
        "kind": "value",
        "mask": bytes([1, 0, 1]),
        "features": values.tobytes(),
        "scores": values.tobytes(),
        "quantiles": np.repeat(values, 2).tobytes(),
        "value": 2.0,
        "hidden": (bytes([0, 255]),),
        "attribution": values.tobytes(),
        "scene": {},
        **changes,
    }
    return Moment(**fields)


def test_numbers_are_those_of_the_moment():
    found = SceneView(info()).describe(moment())
    assert found["scores"] == [0.5, -1.0, 2.0]
    assert found["mask"] == [1, 0, 1]
    assert found["hidden"] == [[0, 255]]
    assert (found["fight"], found["decision"], found["action"], found["reward"]) == (1, 4, 2, 0.25)
    assert found["quantiles"] == [{"action": 2, "values": [2.0, 2.0]}, {"action": 0, "values": [0.5, 0.5]}]
    assert found["vitals"] == {}


def test_numbers_that_json_lacks_are_null():
    bad = np.array([np.nan, np.inf, 1.0], np.float32).tobytes()
    found = SceneView(info()).describe(moment(scores=bad, quantiles=b"", value=float("nan")))
    assert found["scores"] == [None, None, 1.0]
    assert found["value"] is None
    json.dumps(found, allow_nan=False)


def test_duel_has_vitals_and_a_picture(env):
    view = SceneView(info(scene=env.scene_info(), n_actions=20))
    shown = moment(scene=env.scene(0))
    vitals = view.describe(shown)["vitals"]
    state = env.duel_state
    assert vitals["boss_hp"] == pytest.approx(float(state.boss_hp), rel=1e-3)
    assert vitals["player_max_hp"] == float(state.player_max_hp)
    expected = draw_duel(
        env.boss, env.simulator.fight[0], env.simulator.duels[0], height_px=PICTURE_HEIGHT_PX, has_hud=False
    )
    picture = cv2.imdecode(np.frombuffer(view.picture(shown), np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert picture.shape == expected.shape
    assert np.abs(picture.astype(int) - expected).mean() < 4.0
    assert SceneView(info(n_actions=20, env_id="soulslab/Arena-v0")).info()["actions"][19] == "nothing"
    # Twenty actions of other people have no known names.
    assert SceneView(info(n_actions=20, env_id="other/Game-v0")).info()["actions"][19] == "19"


def test_each_fight_of_a_range_is_described_with_its_boss():
    env = gymnasium.make("soulslab/Arena-v0", boss="generated:2-5", observation="features").unwrapped
    view = SceneView(info(scene=env.scene_info(), n_actions=20))
    bosses = set()
    for seed in range(4):
        env.reset(seed=seed)
        bosses.add(env.boss)
        while env.simulator.duels[0].b_move < 0:
            env.step(19)
        vitals = view.describe(moment(scene=env.scene(0)))["vitals"]
        assert vitals["boss_max_hp"] == env.boss.hp
        move = env.boss.moves[env.simulator.duels[0].b_move].id.replace("_", " ")
        assert vitals["boss_animation"].startswith(f"{move}, ")
    assert len(bosses) > 1


def test_boss_file_is_found_from_another_working_directory(tmp_path, monkeypatch):
    for name in ("training", "dashboard"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "training")
    shutil.copy(BOSS_DIR / "judge.toml", "mine.toml")
    with closing(gymnasium.make("soulslab/Arena-v0", boss="mine.toml").unwrapped) as env:
        env.reset(seed=0)
        given, shown = info(scene=env.scene_info()), moment(scene=env.scene(0))
    monkeypatch.chdir(tmp_path / "dashboard")
    view = SceneView(given)
    assert view.problem is None
    assert view.info()["boss"] == env.boss.name
    assert view.picture(shown)


def test_numbers_are_shown_without_the_boss_file(tmp_path, env):
    path = tmp_path / "gone.toml"
    view = SceneView(info(scene={**env.scene_info(), "boss": str(path).encode()}))
    assert str(path) in str(view.problem)
    assert view.info()["boss"] == ""
    shown = moment(scene=env.scene(0))
    assert view.picture(shown) == b""
    assert view.describe(shown)["vitals"]["boss_max_hp"] == env.boss.hp


@pytest.mark.parametrize("scene", [{"duel": b"short", "state": b"short"}, {"other": b""}])
def test_records_of_another_size_are_not_drawn(env, scene):
    view = SceneView(info(scene=env.scene_info()))
    shown = moment(scene=scene, picture=b"jpeg")
    assert view.picture(shown) == b"jpeg"
    assert view.describe(shown)["vitals"] == {}


def test_groups_cover_all_features_in_order():
    groups = feature_groups(FEATURE_NAMES)
    assert [first for _, first, _ in groups[1:]] == [end for _, _, end in groups[:-1]]
    assert groups[-1][2] == len(FEATURE_NAMES)
    names = [name for name, *_ in groups]
    assert "player hp, sp" in names
    assert "boss animation" in names
    assert feature_groups(()) == []


def test_packed_message_is_json_and_picture():
    data = pack({"a": 1}, b"jpeg")
    [length] = struct.unpack(">I", data[:4])
    assert json.loads(data[4 : 4 + length]) == {"a": 1}
    assert data[4 + length :] == b"jpeg"
