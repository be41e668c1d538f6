"""The ring against a deque for each environment."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import CheckpointError, ConfigError
from soulslab.learn.inputs import PixelShape
from soulslab.learn.replay.row_ring import Ring
from soulslab.learn.replay.step_rows import StepShape
from support.lived import SHAPE, Memory, in_pieces, lives, rows_of
from support.mappings import mapped_bytes

STACKED = StepShape(n_features=2, n_actions=11, pixels=PixelShape(1, 2, 1), frame_stack=3)


def kept(ring, stream):
    """Return the rows of a stream, the oldest first."""
    first = int(ring.oldest()[stream])
    return ring.rows[ring.places(stream, first, int(ring.written[stream]) - first)]


def begun(ring):
    return sorted(ring.rows["features"][ring.beginnings(), 0].astype(int).tolist())


def replayed(opened, events):
    """Apply events to a set of places; each must change something."""
    for event in events.tolist():
        if event >= 0:
            assert event not in opened
            opened.add(event)
        else:
            opened.remove(~event)


@pytest.mark.parametrize("shape", [SHAPE, STACKED])
@given(life=lives, n_per_stream=st.integers(4, 30), seed=st.integers(0, 99))
def test_holds_what_a_deque_holds(shape, life, n_per_stream, seed):
    ring, memory = Ring(shape, 3 * n_per_stream, 3), Memory(3, n_per_stream, shape.frame_stack)
    opened = set()
    for rows in in_pieces(rows_of(life, seed, shape), seed):
        replayed(opened, ring.append(rows))
        memory.append(rows)
        assert begun(ring) == memory.beginnings()
        assert opened == set(ring.beginnings().tolist())
        assert len(ring) == sum(map(len, memory.streams))
    for stream in range(3):
        expected = np.array(list(memory.streams[stream]), ring.rows.dtype)
        for name in expected.dtype.names:
            np.testing.assert_array_equal(kept(ring, stream)[name], expected[name])


@pytest.mark.parametrize("shape", [SHAPE, STACKED])
@given(life=lives, seed=st.integers(0, 99))
def test_finds_the_same_links_again(shape, life, seed):
    ring = Ring(shape, 3 * 8, 3)
    ring.append(rows_of(life, seed, shape))
    heads = ring.heads.copy()
    ring.heads[:] = np.zeros((), heads.dtype)
    ring.restore(ring.written.copy())
    filled = np.concatenate([ring.places(e, int(ring.oldest()[e]), min(8, int(ring.written[e]))) for e in range(3)])
    for name in heads.dtype.names:
        np.testing.assert_array_equal(ring.heads[filled][name], heads[filled][name])


def test_more_rows_than_there_is_room_for_leave_the_newest():
    life = [(i % 3, 0) for i in range(5000)]
    rows = rows_of(life)
    ring, memory = Ring(SHAPE, 30, 3), Memory(3, 10)
    replayed(opened := set(), ring.append(rows))
    memory.append(rows)
    assert begun(ring) == memory.beginnings()
    assert opened == set(ring.beginnings().tolist())


def test_a_capacity_too_small_is_refused_with_the_least_that_does():
    with pytest.raises(ConfigError, match=r"replay\.capacity: 11 steps for 3 environments .* set it to at least 12"):
        Ring(STACKED, 11, 3)
    Ring(STACKED, 12, 3)


def test_a_file_holds_the_same_rows(tmp_path):
    rows = rows_of([(0, 0)] * 50)
    path = tmp_path / "new" / "rows"
    mapped, plain = Ring(SHAPE, 20, 1, path), Ring(SHAPE, 20, 1)
    assert mapped_bytes(path) >= 20 * rows.itemsize
    for ring in (mapped, plain):
        ring.append(rows)
    assert mapped.bytes.tobytes() == plain.bytes.tobytes()


def test_a_file_is_removed_with_its_rows_and_others_cannot_overwrite_it(tmp_path):
    rows = rows_of([(0, 0)] * 50)
    first, second = (Ring(SHAPE, 20, 1, tmp_path / "rows") for _ in range(2))
    first.append(rows)
    assert not second.bytes.any()
    assert list(tmp_path.iterdir()) == []
    n_bytes = mapped_bytes(tmp_path / "rows")
    del first, second
    gc.collect()
    assert n_bytes > mapped_bytes(tmp_path / "rows") == 0


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/rows: could not be written"):
        Ring(SHAPE, 20, 1, tmp_path / "file" / "rows")


def test_a_file_larger_than_the_disk_is_refused_before_anything_is_lost(tmp_path):
    with pytest.raises(CheckpointError, match=r"rows: could not be written: (File too large|No space left)"):
        Ring(SHAPE, 2**55, 1, tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []
