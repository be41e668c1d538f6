"""N-step transitions against a loop over rows, with the compiler on and off; stacks of frames against the observer."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.spaces import Dict as DictSpace
from hypothesis import given
from hypothesis import strategies as st

from soulslab.learn.inputs import Layout, Observer, PixelShape
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings
from support.lived import BREAKS, ENDS, IS_CUT, SHAPE, Memory, lives, rows_of

HERE = Path(__file__).parent
TESTS = HERE.parents[2]


def number(features):
    return int(features[0])


@given(
    life=lives,
    n_per_stream=st.integers(2, 30),
    n_steps=st.integers(1, 12),
    gamma=st.sampled_from([0.9, 0.99, 1.0]),
    alpha=st.sampled_from([0.0, 0.5]),
)
def test_transitions_are_those_of_a_loop(life, n_per_stream, n_steps, gamma, alpha):
    rows = rows_of(life)
    buffer = ReplayBuffer(SHAPE, ReplaySettings(capacity=3 * n_per_stream, alpha=alpha), 3)
    memory = Memory(3, n_per_stream)
    buffer.append(rows)
    memory.append(rows)
    assert buffer.sampler.n_places == len(memory.beginnings())
    if not buffer.sampler.n_places:
        return
    batch = buffer.make_batch(60)
    buffer.sample(batch, n_steps=n_steps, gamma=gamma, beta=0.5, rng=np.random.default_rng(0))
    blocked = np.unpackbits(rows["blocked"], axis=1, count=SHAPE.n_actions).astype(bool)
    for i in range(60):
        begun, reached = number(batch.features[i]), number(batch.next_features[i])
        total, discount, expected = memory.transition(begun, n_steps, gamma)
        assert reached == expected
        assert batch.rewards[i].item() == pytest.approx(total, rel=1e-5, abs=1e-5)
        assert batch.discounts[i].item() == pytest.approx(discount, rel=1e-5)
        assert batch.actions[i].item() == rows["action"][begun]
        np.testing.assert_array_equal(batch.features[i], rows["features"][begun])
        np.testing.assert_array_equal(batch.next_features[i], rows["features"][expected])
        np.testing.assert_array_equal(batch.blocked[i], blocked[begun])
        np.testing.assert_array_equal(batch.next_blocked[i], blocked[expected])
        assert buffer.ring.rows["features"][batch.places[i], 0] == begun


def digest():
    """Return a digest of what is drawn, over a life with everything in it."""
    rng = np.random.default_rng(5)
    found = hashlib.sha256()
    for shape in (SHAPE, StepShape(n_features=3, n_actions=9, pixels=PixelShape(2, 3, 3), frame_stack=2)):
        life = [(int(rng.integers(3)), int(rng.choice([0, 0, 0, 0, ENDS, IS_CUT, BREAKS]))) for _ in range(150)]
        rows = rows_of(life, 7, shape)
        if shape.pixels:
            rows["pixels"] = rng.integers(256, size=rows["pixels"].shape)
        for alpha in (0.0, 0.5):
            buffer = ReplayBuffer(shape, ReplaySettings(capacity=120, alpha=alpha), 3)
            batch = buffer.make_batch(16)
            for i in range(0, len(rows), 20):
                buffer.append(rows[i : i + 20])
                buffer.sample(batch, n_steps=1 + i % 5, gamma=0.97, beta=0.5, rng=rng)
                buffer.set_priorities(batch.places, batch.rewards)
                for column in batch:
                    if column is not None:
                        found.update(np.round(column.numpy().astype(np.float64), 5).tobytes())
    return found.hexdigest()


_WITHOUT_JIT = """
import numba
assert numba.config.DISABLE_JIT
from test_n_step_accumulator import digest
print(digest())
"""


def test_the_same_is_drawn_with_the_compiler_off():
    places = [str(HERE), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", _WITHOUT_JIT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == digest()


@pytest.mark.parametrize(("n_frames", "n_channels"), [(1, 1), (1, 3), (3, 1), (2, 3)])
@pytest.mark.parametrize("n_per_stream", [7, 40, 500])
def test_stacks_are_those_that_the_observer_made(n_frames, n_channels, n_per_stream):
    pixels = PixelShape(4, 5, n_channels)
    shape = StepShape(n_features=1, n_actions=2, pixels=pixels, frame_stack=n_frames)
    frame_box = Box(0, 255, (4, 5, n_channels) if n_channels > 1 else (4, 5), np.uint8)
    layout = Layout(DictSpace({"number": Box(0, np.inf, (1,), np.float32), "pixels": frame_box}), "toy")
    assert layout.pixels == pixels
    buffer = ReplayBuffer(shape, ReplaySettings(capacity=2 * n_per_stream, alpha=0.0), 2)
    memory = Memory(2, n_per_stream, n_frames)
    observer = Observer(layout, 2, n_frames)
    rng = np.random.default_rng(n_frames)
    seen = {}

    def look(i):
        return {
            "number": np.array([[i], [i + 1]], np.float32),
            "pixels": rng.integers(256, size=(2, *frame_box.shape), dtype=np.uint8),
        }

    def note(numbers, inputs):
        seen.update({int(each[0]): stack.copy() for each, stack in zip(numbers, inputs.pixels, strict=True)})

    def record(streams, obs, firsts, outcomes):
        rows = np.zeros(len(streams), row_type(shape))
        rows["stream"], rows["is_first"], rows["outcome"] = streams, firsts, outcomes
        rows["features"], rows["pixels"] = obs["number"][streams], layout.view_pixels(obs)[streams]
        buffer.append(rows)
        memory.append(rows)

    n_looks = 0
    actions = np.zeros(2, np.int64)
    obs, firsts = look(0), np.array([True, True])
    observer.begin(obs)
    for _ in range(100):
        note(obs["number"], observer.inputs)
        outcomes = rng.choice([Outcome.GOES_ON] * 6 + [Outcome.TERMINATED, Outcome.TRUNCATED], size=2)
        record(np.arange(2), obs, firsts, outcomes)
        cut = np.flatnonzero(outcomes == Outcome.TRUNCATED)
        if len(cut):
            n_looks += 2
            last = look(n_looks)
            ends = np.array([{name: part[i] for name, part in last.items()} for i in range(2)], object)
            note(last["number"][cut], observer.final(ends, cut, actions, np.ones(2, np.int64)))
            record(cut, last, False, Outcome.FINAL)
        n_looks += 2
        obs, firsts = look(n_looks), outcomes != Outcome.GOES_ON
        observer.follow(obs, firsts, actions, np.ones(2, np.int64))
    assert buffer.sampler.n_places == len(memory.beginnings())
    batch = buffer.make_batch(300)
    buffer.sample(batch, n_steps=3, gamma=0.9, beta=1.0, rng=rng)
    for i in range(300):
        np.testing.assert_array_equal(batch.pixels[i], seen[number(batch.features[i])])
        np.testing.assert_array_equal(batch.next_pixels[i], seen[number(batch.next_features[i])])
    assert batch.pixels.dtype == torch.uint8
