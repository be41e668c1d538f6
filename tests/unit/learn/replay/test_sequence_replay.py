"""Sequences of steps against a loop over rows: what they contain, where they start, and their priorities."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError, ReplayError
from soulslab.learn.inputs import PixelShape
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.replay.sequence_replay import SequenceReplay
from soulslab.learn.replay.step_rows import StepShape
from soulslab.learn.settings import ReplaySettings
from support.lived import SHAPE, Memory, in_pieces, lives, rows_of

REMEMBERING = msgspec.structs.replace(SHAPE, n_memory=2)
GAMMA = 0.9
N_STREAMS = 3


def rows_with_memory(life):
    rows = rows_of(life, shape=REMEMBERING)
    rows["memory"] = rows["features"] + 0.5
    return rows


def make_replay(n_per_stream=30, n_steps=2, **settings):
    capacity = N_STREAMS * n_per_stream
    fields = {"capacity": capacity, "alpha": 1.0, "sequence_steps": 4, "burn_in_steps": 2, **settings}
    return SequenceReplay(REMEMBERING, ReplaySettings(**fields), N_STREAMS, n_steps)


def starts(replay, written):
    """Return the places at which sequences start, from the definition: every T/2-th row whose sequence is stored."""
    length, every = replay.ring.n_per_stream, max(1, replay.sequence_steps // 2)
    return sorted(
        stream * length + number % length
        for stream, n in enumerate(written)
        for number in range(max(0, n - length), n - replay.length + 1)
        if number % every == 0
    )


@given(
    life=lives,
    n_per_stream=st.integers(10, 30),
    n_steps=st.integers(1, 4),
    burn_in_steps=st.integers(0, 3),
    sequence_steps=st.integers(1, 3),
    alpha=st.sampled_from([0.0, 0.5]),
)
def test_sequences_are_those_of_a_loop(life, n_per_stream, n_steps, burn_in_steps, sequence_steps, alpha):
    rows = rows_with_memory(life)
    sizes = {"burn_in_steps": burn_in_steps, "sequence_steps": sequence_steps, "alpha": alpha}
    replay, stored = make_replay(n_per_stream, n_steps, **sizes), Memory(N_STREAMS, n_per_stream)
    for piece in in_pieces(rows, seed=1):
        replay.append(piece)
        stored.append(piece)
        assert replay.ring.beginnings().tolist() == starts(replay, replay.ring.written)
        assert replay.sampler.n_places == len(replay.ring.beginnings())
    if not replay.sampler.n_places:
        return
    batch = replay.make_sequences(20)
    replay.draw(batch, gamma=GAMMA, beta=0.5, rng=np.random.default_rng(0))
    assert np.isin(batch.places, replay.ring.beginnings()).all()
    features = batch.features.view(replay.length, 20, -1).numpy()
    blocked = np.unpackbits(rows["blocked"], axis=1, count=SHAPE.n_actions).astype(bool)
    known = stored.beginnings()
    for s in range(20):
        numbers = features[:, s, 0].astype(int)
        stream = rows["stream"][numbers[0]]
        of_stream = np.flatnonzero(rows["stream"] == stream)
        first = of_stream.tolist().index(numbers[0])
        assert numbers.tolist() == of_stream[first : first + replay.length].tolist()
        assert batch.memory[s].tolist() == rows["memory"][numbers[0]].tolist()
        assert batch.is_first[:, s, 0].tolist() == rows["is_first"][numbers].astype(bool).tolist()
        np.testing.assert_array_equal(batch.blocked.view(replay.length, 20, -1)[:, s], blocked[numbers])
        for t in range(sequence_steps):
            row, number = t * 20 + s, int(numbers[burn_in_steps + t])
            assert bool(batch.is_known[row]) == (number in known)
            if number in known:
                total, discount, following = stored.transition(number, n_steps, GAMMA)
                assert batch.rewards[row].item() == pytest.approx(total, rel=1e-5, abs=1e-5)
                assert batch.discounts[row].item() == pytest.approx(discount, rel=1e-5)
                assert batch.actions[row].item() == rows["action"][number]
                assert batch.features[burn_in_steps * 20 + batch.ends[row], 0] == following


def test_a_sequence_starts_only_where_the_frames_before_it_are_stored():
    shape = StepShape(n_features=2, n_actions=11, pixels=PixelShape(1, 1, 1), frame_stack=3, n_memory=1)
    settings = ReplaySettings(capacity=20, sequence_steps=2, burn_in_steps=1)
    replay = SequenceReplay(shape, settings, 1, 1)
    rows = rows_of([(0, 0)] * 50, shape=shape)
    rows["is_first"] = 0
    rows["pixels"] = np.arange(50).reshape(-1, 1, 1, 1)
    replay.append(rows)
    batch = replay.make_sequences(200)
    replay.draw(batch, gamma=GAMMA, beta=0.5, rng=np.random.default_rng(0))
    numbers = batch.features[:, 0].to(torch.int64)
    assert batch.pixels is not None
    assert torch.equal(batch.pixels[:, 0, 0].long(), numbers[:, None] + torch.tensor([-2, -1, 0]))
    assert sorted(set(numbers[:200].tolist())) == list(range(32, 47))  # 30 to 49 are stored


def test_a_sequence_is_drawn_by_its_own_priority(tmp_path):
    replay = make_replay()
    replay.append(rows_with_memory([(0, 0)] * 20))
    batch = replay.make_sequences(50)
    draw = {"gamma": GAMMA, "beta": 0.5}
    replay.draw(batch, **draw, rng=np.random.default_rng(0))
    chosen = int(batch.places[0])
    replay.set_priorities(batch.places, (batch.places == chosen).float() * 1e6)
    store = ReplayStore(tmp_path)
    manifest, other = store.save(replay), make_replay()
    store.load(other, manifest)
    other.load(replay.state())
    for each in (replay, other):
        each.draw(batch, **draw, rng=np.random.default_rng(1))
        assert (batch.places == chosen).all()
    assert batch.weights.max() == 1.0


def test_without_a_whole_sequence_there_is_nothing_to_draw():
    replay = make_replay()
    replay.append(rows_with_memory([(0, 0)] * 7))  # a sequence has 8 rows
    with pytest.raises(ReplayError, match="none of the 7 rows is the start of a sequence"):
        replay.draw(replay.make_sequences(1), gamma=GAMMA, beta=0.5, rng=np.random.default_rng(0))


def test_a_buffer_that_holds_no_sequence_is_refused():
    with pytest.raises(ConfigError, match=r"replay\.capacity: .*needs 8; set it to at least 24, or lower replay\.seq"):
        make_replay(n_per_stream=7)
