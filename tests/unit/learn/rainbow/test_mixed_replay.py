"""Two buffers fill their shares of a batch, and each gets the errors of its own transitions."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ReplayError
from soulslab.learn.rainbow.demonstration_learning import MixedReplay, shown_replay
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings

SHAPE = StepShape(n_features=1, n_actions=3)
SETTINGS = ReplaySettings(capacity=64, alpha=1.0)
SHOWN, OWN = 1.0, 2.0
N_STEPS = 1


def steps(feature, n):
    rows = np.zeros(n, row_type(SHAPE))
    rows["features"] = feature
    rows["n_decisions"] = 1
    rows["outcome"] = Outcome.TERMINATED
    rows["is_first"] = True
    rows["reward"] = np.arange(n)
    return rows


def mixed(share, n_own=8, n_shown=8):
    own = ReplayBuffer(SHAPE, SETTINGS, 1)
    if n_own:
        own.append(steps(OWN, n_own))
    return MixedReplay(own, shown_replay(steps(SHOWN, n_shown), SHAPE, SETTINGS), share)


def draw(replay, batch, seed=0):
    replay.sample(batch, n_steps=N_STEPS, gamma=0.9, beta=0.4, rng=np.random.default_rng(seed))


@given(share=st.floats(0.0, 1.0), batch_size=st.integers(1, 70))
def test_each_fills_its_share(share, batch_size):
    replay = mixed(share)
    batch = replay.make_batch(batch_size)
    draw(replay, batch)
    n_shown = round(share * batch_size)
    assert batch.features[:, 0].tolist() == [SHOWN] * n_shown + [OWN] * (batch_size - n_shown)
    assert torch.isfinite(batch.weights).all()
    replay.set_priorities(batch.places, torch.ones(batch_size))


@given(errors=st.lists(st.floats(0.0, 100.0, width=32), min_size=16, max_size=16), seed=st.integers(0, 99))
def test_each_buffer_receives_its_own_errors(errors, seed):
    replay = mixed(0.5)
    batch = replay.make_batch(16)
    draw(replay, batch, seed)
    alone = ReplayBuffer(SHAPE, SETTINGS, 1), ReplayBuffer(SHAPE, SETTINGS, 1)
    wrong = torch.tensor(errors)
    replay.set_priorities(batch.places, wrong)
    for buffer, source, part in zip(alone, (replay.shown, replay.own), (slice(8), slice(8, 16)), strict=True):
        buffer.append(steps(SHOWN, 8))
        buffer.set_priorities(batch.places[part], wrong[part])
        every = torch.arange(8)
        np.testing.assert_array_equal(source.priorities(every), buffer.priorities(every))


def test_recorded_rows_fill_a_batch_without_own_rows():
    replay = mixed(0.25, n_own=0)
    batch = replay.make_batch(8)
    draw(replay, batch)
    assert (batch.features == SHOWN).all()
    replay.own.append(steps(OWN, 4))
    draw(replay, batch)
    assert (batch.features == OWN).sum() == 6


def test_another_batch_is_split_again():
    replay = mixed(0.5)
    for batch_size in (8, 4, 8):
        batch = replay.make_batch(batch_size)
        draw(replay, batch)
        assert (batch.features == SHOWN).sum() == batch_size // 2
        replay.set_priorities(batch.places, torch.full((batch_size,), 2.0))


def test_no_recorded_row_is_dropped():
    rows = steps(SHOWN, 1000)
    replay = shown_replay(rows, SHAPE, msgspec.structs.replace(SETTINGS, capacity=2))
    assert replay.sampler.n_places == 1000


def test_an_empty_replay_is_an_error():
    own = ReplayBuffer(SHAPE, SETTINGS, 1)
    replay = MixedReplay(own, ReplayBuffer(SHAPE, SETTINGS, 1), 0.5)
    with pytest.raises(ReplayError, match="there is nothing to draw yet"):
        draw(replay, replay.make_batch(4))
