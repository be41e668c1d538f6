"""Videos: complete or absent, size and duration, won fights only."""

import av
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import soulslab  # noqa: F401 (registers the arena)
from soulslab import video
from soulslab.errors import EnvironmentUsageError, NoWinError, VideoError
from soulslab.video import CODECS, HOLD_S, Mp4Writer, find_won_fight, record_won_fight


class Coin(gymnasium.Env):
    """Fight of 4 steps, won if the seed is divisible by 3; each image is brighter than the last."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium declares it)
    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode
        self.seeds, self.masks = [], []

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.time = 0
        return np.zeros(1, np.float32), {"action_mask": np.array([True, False])}

    def step(self, action):  # noqa: ARG002 (as above)
        self.time += 1
        info = {"fight": {"won": self.seeds[-1] % 3 == 0}} if self.time == 4 else {}
        return np.zeros(1, np.float32), 0.0, self.time == 4, False, info

    def render(self):
        return np.full((33, 65, 3), 20 + 40 * self.time, np.uint8)


def frames(path):
    with av.open(str(path)) as file:
        return [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]


def act(observation, mask, n_decisions):
    return 0


def test_the_won_fight_is_recorded(tmp_path):
    env = Coin()
    path = tmp_path / "new" / "won.mp4"
    assert record_won_fight(env, act, path, seed=1) == 3
    assert env.seeds == [1, 2, 3]
    film = frames(path)
    assert len(film) == 5 + 10 * HOLD_S
    assert film[0].shape == (32, 64, 3)
    np.testing.assert_allclose([frame.mean() for frame in film[:5]], [20, 60, 100, 140, 180], atol=4)
    assert film[-1].mean() == pytest.approx(180, abs=4)
    assert [file.name for file in path.parent.iterdir()] == ["won.mp4"]


def test_colours_are_preserved(tmp_path):
    colours = np.array([[200, 40, 40], [40, 180, 60], [50, 60, 210]], np.uint8)
    with Mp4Writer(tmp_path / "a.mp4", 30) as film:
        film.write(np.repeat(np.repeat(colours[None], 32, axis=0), 32, axis=1))
        film.keep()
    [frame] = frames(tmp_path / "a.mp4")
    np.testing.assert_allclose(frame[16, [16, 48, 80]], colours, atol=12)


def test_browsers_can_play_it(tmp_path):
    path = tmp_path / "won.mp4"
    record_won_fight(Coin(), act, path)
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == 10
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_the_policy_gets_the_mask(tmp_path):
    seen = []
    record_won_fight(Coin(), lambda _, mask, n_decisions: seen.append((mask, n_decisions)) or 0, tmp_path / "won.mp4")
    np.testing.assert_array_equal(seen[0][0], [True, False])
    assert [mask for mask, _ in seen[1:]] == [None] * 3
    assert [n_decisions for _, n_decisions in seen] == [0, 1, 2, 3]


def test_without_a_win_there_is_an_error_and_no_file(tmp_path):
    path = tmp_path / "won.mp4"
    path.write_bytes(b"of an earlier run")
    with pytest.raises(NoWinError, match="none of 2 fights was won") as error:
        record_won_fight(Coin(), act, path, seed=1, max_attempts=2)
    assert error.value.attempts == 2
    assert path.read_bytes() == b"of an earlier run"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_in_the_fight_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        record_won_fight(Coin(), lambda *_: 1 // 0, tmp_path / "won.mp4")
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_is_an_error(tmp_path):
    with pytest.raises(EnvironmentUsageError, match="render_mode"):
        record_won_fight(Coin(render_mode=None), act, tmp_path / "won.mp4")
    with pytest.raises(EnvironmentUsageError, match="max_attempts"):
        record_won_fight(Coin(), act, tmp_path / "won.mp4", max_attempts=0)


def test_frames_of_another_size_are_errors(tmp_path):
    with Mp4Writer(tmp_path / "a.mp4", 30) as film:
        film.write(np.zeros((20, 30, 3), np.uint8))
        with pytest.raises(VideoError, match="40 x 20 follows frames of 30 x 20"):
            film.write(np.zeros((20, 40, 3), np.uint8))
        with pytest.raises(VideoError, match="must be uint8"):
            film.write(np.zeros((20, 30), np.uint8))
    assert list(tmp_path.iterdir()) == []


def test_the_second_encoder_works(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "CODECS", {"mpeg4": CODECS["mpeg4"]})
    record_won_fight(Coin(), act, tmp_path / "won.mp4")
    assert len(frames(tmp_path / "won.mp4")) == 5 + 10 * HOLD_S


def test_a_missing_encoder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "CODECS", {"none-such": {}})
    with pytest.raises(VideoError, match="none of the encoders none-such"):
        Mp4Writer(tmp_path / "won.mp4", 30)


# --- the arena ----------------------------------------------------------------------------------------------


def test_the_arena_is_recorded_at_30_frames_per_second(tmp_path):
    env = gymnasium.make("soulslab/Arena-v0", render_mode="rgb_array_list", phase="1")
    simulator = env.unwrapped.simulator

    def act(observation, mask, n_decisions):
        if simulator.duels["decision"][0] == 4:
            simulator.duels["b_hp"] = simulator.fight["phase_two_hp"]  # it falls with this step
        return 19

    assert record_won_fight(env, act, tmp_path / "won.mp4", seed=7) == 1
    film = frames(tmp_path / "won.mp4")
    # The first picture, four decisions of three, and the tick in which the fight is over.
    assert len(film) == 1 + 4 * 3 + 1 + 30 * HOLD_S
    assert film[0].shape == (540, 960, 3)


def test_frames_of_the_arena_are_returned_once():
    env = gymnasium.make("soulslab/Arena-v0", render_mode="rgb_array_list")
    assert env.metadata["render_fps"] == 30
    env.reset(seed=0)
    assert len(env.render()) == 1
    env.step(19)
    env.step(0)
    assert len(env.render()) == 6
    assert env.render() == []
    env.step(19)
    env.reset()
    assert len(env.render()) == 1


def test_recording_does_not_change_the_fight():
    plain, filmed = (gymnasium.make("soulslab/Arena-v0", render_mode=mode) for mode in (None, "rgb_array_list"))
    for env in (plain, filmed):
        env.reset(seed=5)
    rng = np.random.default_rng(5)
    for action in rng.integers(20, size=40):
        one, other = plain.step(action), filmed.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        filmed.render()
    assert plain.unwrapped.simulator.duels.tobytes() == filmed.unwrapped.simulator.duels.tobytes()


def test_a_won_fight_is_found_without_drawing():
    assert find_won_fight(Coin(), act, seed=1, max_attempts=3) == 3
    with pytest.raises(NoWinError, match="none of 2 fights was won"):
        find_won_fight(Coin(), act, seed=1, max_attempts=2)
