import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation

from soulslab.errors import EnvironmentUsageError
from soulslab.learn.inputs import Layout, Observer, PixelShape
from support.pixel_toys import LENGTH, SIZE_PX, Dot


def pixels(*shape):
    return Box(0, 255, shape, np.uint8)


FLAT = Box(-1.0, 1.0, (3,), np.float32)
NOTHING_DONE = (np.zeros(3, np.int64), np.ones(3, np.int64))


@pytest.mark.parametrize(
    ("space", "n_features", "shape"),
    [
        (FLAT, 3, None),
        (Box(0, 255, (128,), np.uint8), 128, None),
        (pixels(60, 84), 0, PixelShape(60, 84, 1)),
        (pixels(60, 84, 3), 0, PixelShape(60, 84, 3)),
        (pixels(4, 60, 84), 0, PixelShape(60, 84, 4)),
        (pixels(4, 60, 84, 3), 0, PixelShape(60, 84, 12)),
        (DictSpace({"pixels": pixels(60, 84), "state": FLAT, "time_s": Box(0.0, 9.0, ())}), 4, PixelShape(60, 84, 1)),
    ],
)
def test_spaces_are_told_apart(space, n_features, shape):
    layout = Layout(space, "toys/Any-v0")
    assert (layout.n_features, layout.pixels) == (n_features, shape)


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3),
        Box(0.0, 1.0, (84, 84), np.float32),
        pixels(1, 2, 60, 84, 3),
        DictSpace({"pixels": pixels(60, 84), "animation": Discrete(5)}),
        DictSpace({"pixels": pixels(60, 84), "map": pixels(60, 84)}),
        DictSpace({"picture": pixels(60, 84)}),
        DictSpace({"state": FLAT}),
    ],
)
def test_what_cannot_be_looked_at_is_an_error(space):
    with pytest.raises(EnvironmentUsageError, match="toys/Any-v0: observations must be a flat Box, pixels"):
        Layout(space, "toys/Any-v0")


def test_features_are_not_stacked():
    with pytest.raises(
        EnvironmentUsageError, match="frame_stack = 2 stacks pixels, but the observations have no pixels"
    ):
        Observer(Layout(FLAT, "toys/Any-v0"), 2, 2)


def test_the_channels_of_stacked_frames_stand_one_frame_after_the_other():
    frames = np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(1, 2, 5, 6, 3)
    arranged = Layout(pixels(2, 5, 6, 3), "").view_pixels(frames)
    np.testing.assert_array_equal(arranged[0], np.concatenate([frames[0, 0], frames[0, 1]], axis=-1))


def test_a_dict_gives_both_parts():
    space = DictSpace({"b": FLAT, "a": Box(0.0, 9.0, ()), "pixels": pixels(5, 6)})
    obs = {"a": np.array([7.0, 8.0]), "b": np.arange(6.0).reshape(2, 3), "pixels": np.ones((2, 5, 6), np.uint8)}
    observer = Observer(Layout(space, ""), 2)
    observer.begin(obs)
    np.testing.assert_array_equal(observer.inputs.features, [[7, 0, 1, 2], [8, 3, 4, 5]])
    assert observer.inputs.pixels.shape == (2, 5, 6, 1)


@pytest.mark.parametrize("form", ["hw", "hwc", "dict"])
def test_stacks_are_those_of_gymnasium_also_where_episodes_end(form):
    """Three environments of different ages; what ends in one must not be seen in the next episode."""
    n_frames = 3
    ours = SyncVectorEnv([lambda: Dot(form)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    theirs = [FrameStackObservation(Dot(), n_frames) for _ in range(3)]
    observer = Observer(Layout(ours.single_observation_space, ""), 3, n_frames)

    def stacked(obs):
        return np.moveaxis(np.stack(obs), 1, -1)

    observer.begin(ours.reset(seed=5)[0])
    expected = [env.reset(seed=5 + i)[0] for i, env in enumerate(theirs)]
    np.testing.assert_array_equal(observer.inputs.pixels, stacked(expected))
    for i, env in enumerate((*ours.envs,)):
        env._age = theirs[i].unwrapped._age = 2 * i
    n_ended = 0
    for _ in range(2 * LENGTH):
        obs, _, _, truncated, info = ours.step(np.zeros(3, np.int64))
        expected = [env.step(0)[0] for env in theirs]
        ended = np.flatnonzero(truncated)
        if len(ended):
            final = observer.final(info["final_obs"], ended, *NOTHING_DONE)
            np.testing.assert_array_equal(final.pixels, stacked(expected)[ended])
            n_ended += len(ended)
            for i in ended:
                expected[i] = theirs[i].reset()[0]
        observer.follow(obs, truncated, *NOTHING_DONE)
        np.testing.assert_array_equal(observer.inputs.pixels, stacked(expected))
    assert n_ended >= 6
    ours.close()


def test_a_saved_stack_continues():
    observers = [Observer(Layout(pixels(SIZE_PX, SIZE_PX), ""), 2, 3) for _ in range(2)]
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(5, 2, SIZE_PX, SIZE_PX), dtype=np.uint8)
    observers[0].begin(frames[0])
    observers[0].follow(frames[1], np.zeros(2, np.bool_), *(each[:2] for each in NOTHING_DONE))
    observers[1].load(observers[0].state())
    for observer in observers:
        observer.follow(frames[2], np.array([False, True]), *(each[:2] for each in NOTHING_DONE))
    np.testing.assert_array_equal(observers[1].inputs.pixels, observers[0].inputs.pixels)
    np.testing.assert_array_equal(observers[1].inputs.pixels[0], np.moveaxis(frames[:3, 0], 0, -1))
