"""``soulslab film``: videos of the simulator and of the window."""

from contextlib import closing
from pathlib import Path

import av
import gymnasium
import numpy as np
import pytest

from soulslab import cli
from soulslab.envs.registration import ARENA_ID
from soulslab.errors import NoWinError
from soulslab.film import CHOSEN_RGB, OTHER_RGB, FilmOptions, draw_scores, film_policy
from soulslab.learn.environment import sizes_of_one
from soulslab.learn.players import load_player
from support.policies import q_policy


@pytest.fixture
def policy(tmp_path):
    file = tmp_path / "policy.safetensors"
    options = {"observation": "relative", "phase": "1"}
    q_policy(1, env_id=ARENA_ID, n_features=73, n_actions=20, env_options=options).save(file)
    return file


@pytest.fixture(autouse=True)
def last_frame_is_short(monkeypatch):
    """Each frame is drawn and encoded; the last one is held for two seconds otherwise."""
    monkeypatch.setattr("soulslab.video.HOLD_S", 0.1)


def frames_of(path):
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        pictures = [frame.to_ndarray(format="rgb24") for frame in file.decode(stream)]
        return pictures, float(stream.average_rate)


def test_video_of_the_simulator_with_and_without_scores(policy, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO", "soulslab.cli.policies")
    # A short fight: drawing takes most of the time.
    assert cli.run(["film", policy.name, "films/plain.mp4", "--boss", "trickster", "--seed", "46"]) == 0
    assert "films/plain.mp4: a fight that was lost" in caplog.text
    film_policy(load_player(policy), Path("explained.mp4"), {"boss": "trickster"}, FilmOptions(seed=46, explain=True))
    plain, rate = frames_of("films/plain.mp4")
    assert rate == 30
    assert len(plain) > 100
    assert plain[0].std() > 10
    assert (plain[0] != plain[60]).any()
    explained, _ = frames_of("explained.mp4")
    assert len(plain) == len(explained)
    # They differ only in the panel.
    height, width = plain[0].shape[:2]
    difference = np.abs(plain[60].astype(int) - explained[60]).max(axis=2)
    assert difference[height // 7 : height // 2, : width // 3].mean() > 10
    assert difference[:, width * 2 // 3 :].mean() < 3
    assert cli.run(["film", "nothing.safetensors"]) in (1, 2)


def test_bars_have_the_lengths_of_the_scores():
    frame = np.full((450, 800, 3), 200, np.uint8)
    drawn = draw_scores(frame, "probability", [("a", 0.5), ("b", 0.25)])
    assert (frame == 200).all()
    orange = (drawn == CHOSEN_RGB).all(axis=2).sum(axis=1).max()
    blue = (drawn == OTHER_RGB).all(axis=2).sum(axis=1).max()
    assert (orange, blue) == (125, 62)
    assert draw_scores(frame, "", []) is frame


def test_without_a_won_fight_no_file_is_written(policy, tmp_path, monkeypatch):
    monkeypatch.setattr("soulslab.film.MAX_ATTEMPTS", 2)
    with pytest.raises(NoWinError):
        film_policy(load_player(policy), tmp_path / "won.mp4", {}, FilmOptions(needs_win=True))
    assert not (tmp_path / "won.mp4").exists()


def test_video_of_another_game(tmp_path, caplog):
    caplog.set_level("INFO", "soulslab.cli.policies")
    options = {"observation": "features", "frame_skip": 4, "max_tics": 40}
    with closing(gymnasium.make("soulslab/Doom-v0", **options)) as env:
        sizes = sizes_of_one(env)
    file = tmp_path / "policy.safetensors"
    player = q_policy(
        env_id="soulslab/Doom-v0",
        env_options=options,
        n_features=sizes.n_features,
        n_actions=sizes.n_actions,
        feature_names=sizes.feature_names,
    )
    player.save(file)
    assert cli.run(["film", str(file), str(tmp_path / "doom.mp4"), "--explain"]) == 0
    assert "doom.mp4: an episode" in caplog.text
    pictures, _ = frames_of(tmp_path / "doom.mp4")
    assert len(pictures) > 10
    height, width = pictures[0].shape[:2]
    # The panel with the action values is dark, and has a bar for the chosen action.
    panel = pictures[5][height // 7 : height // 2, : width // 3].astype(int)
    assert (np.abs(panel - CHOSEN_RGB).max(axis=2) < 60).sum() > 50
    assert cli.run(["film", str(file), "--window"]) == 2


def test_video_of_the_window(policy, tmp_path):
    fight = {"boss": "trickster", "phase": "1"}
    assert film_policy(load_player(policy), tmp_path / "window.mp4", fight, FilmOptions(in_window=True, seed=46)) in (
        True,
        False,
    )
    pictures, rate = frames_of(tmp_path / "window.mp4")
    assert rate == 10
    assert pictures[0].shape == (450, 800, 3)
    assert len(pictures) > 20
    assert pictures[-1].std() > 5
