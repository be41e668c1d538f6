"""First priorities from the values with which actions were chosen, against a loop over rows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from soulslab.errors import ReplayError
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.samplers import EPSILON
from soulslab.learn.replay.step_rows import Outcome, row_type
from soulslab.learn.settings import ReplaySettings
from support.lived import SHAPE, Memory, in_pieces, lives, rows_of
from support.long_form import examples

VALUED = replace(SHAPE, has_values=True)
ALPHA = 0.6
LARGEST = 1.0
"""Largest priority of a buffer without updates."""


def valued_rows(life, seed):
    """Return rows of which some have values; most errors are less than 1."""
    rows, rng = rows_of(life, seed, VALUED), np.random.default_rng(seed)
    rows["reward"] *= 0.2
    rows["is_valued"] = (rng.random(len(rows)) < 0.8) & (rows["outcome"] != Outcome.FINAL)
    for name in ("action_value", "best_value"):
        rows[name] = rng.normal(scale=0.2, size=len(rows)) * rows["is_valued"]
    return rows


def error_of(rows, begun, transition):
    """Return the error of a transition from the values of two rows, None if one is unknown, and its last row."""
    total, discount, end = transition
    is_known = rows["is_valued"][begun] and (discount == 0.0 or rows["is_valued"][end])
    following = discount * rows["best_value"][end] if discount else 0.0
    return (abs(total + following - rows["action_value"][begun]) if is_known else None), end


@settings(max_examples=examples(40))
@given(life=lives, n_per_stream=st.integers(2, 30), n_steps=st.integers(1, 8), seed=st.integers(0, 9))
def test_they_are_the_errors_of_the_steps_that_are_known(life, n_per_stream, n_steps, seed):
    rows = valued_rows(life, seed)
    buffer = ReplayBuffer(VALUED, ReplaySettings(capacity=3 * n_per_stream, alpha=ALPHA), 3)
    memory, expected = Memory(3, n_per_stream), {}
    for piece in in_pieces(rows, seed):
        buffer.append(piece, n_steps=n_steps, gamma=0.97)
        memory.append(piece)
        new = set(piece["features"][:, 0].astype(int).tolist())
        for begun in memory.beginnings():
            expected.setdefault(begun, LARGEST)
            error, end = error_of(rows, begun, memory.transition(begun, n_steps, 0.97))
            if error is not None and end in new:
                expected[begun] = min((error + EPSILON) ** ALPHA, LARGEST)
    places = buffer.ring.beginnings()
    numbers = buffer.ring.rows["features"][places, 0].astype(int).tolist()
    assert sorted(numbers) == memory.beginnings()
    np.testing.assert_allclose(buffer.sampler.priorities(places), [expected[number] for number in numbers], rtol=1e-4)
    assert buffer.sampler.priority_max == LARGEST


def test_later_rows_do_not_change_the_priorities_of_complete_transitions():
    rows = np.zeros(8, row_type(VALUED))
    rows["n_decisions"], rows["is_valued"], rows["action_value"], rows["is_first"][[0, 4]] = 1, 1, 0.5, 1
    rows["outcome"][3] = Outcome.TERMINATED
    buffer = ReplayBuffer(VALUED, ReplaySettings(capacity=60, alpha=ALPHA), 1)
    buffer.append(rows[:4], n_steps=3, gamma=0.9)
    np.testing.assert_allclose(buffer.sampler.priorities(np.arange(4)), 0.5**ALPHA, rtol=1e-4)
    buffer.set_priorities(torch.arange(4), torch.full((4,), 3.0))
    buffer.append(rows[4:], n_steps=3, gamma=0.9)
    np.testing.assert_allclose(buffer.sampler.priorities(np.arange(7)), [3.0**ALPHA] * 4 + [0.5**ALPHA] * 3, rtol=1e-4)


def test_values_that_no_network_computes_give_no_higher_priority_than_none():
    rows = np.zeros(3, row_type(VALUED))
    rows["n_decisions"], rows["is_valued"], rows["is_first"][0] = 1, 1, 1
    rows["action_value"], rows["best_value"] = -3e38, 3e38
    buffer = ReplayBuffer(VALUED, ReplaySettings(capacity=60, alpha=ALPHA), 1)
    buffer.append(rows, n_steps=1, gamma=0.9)
    assert buffer.sampler.priorities(np.arange(2)).tolist() == [LARGEST] * 2
    assert buffer.sampler.priority_max == LARGEST


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("column", ["action_value", "best_value"])
def test_values_that_are_not_finite_are_refused_before_anything_changes(column, value):
    buffer, rows = ReplayBuffer(VALUED, ReplaySettings(capacity=60, alpha=ALPHA), 3), valued_rows([(0, 0)] * 5, 0)
    rows[column][3] = value
    with pytest.raises(ReplayError, match=r"row 3 of 5: the values .* are not finite"):
        buffer.append(rows)
    assert len(buffer.ring) == 0


def test_rows_are_stored_without_values():
    plain, valued = (ReplayBuffer(shape, ReplaySettings(capacity=60, alpha=0.5), 3) for shape in (SHAPE, VALUED))
    life = [(i % 3, 0) for i in range(40)]
    plain.append(rows_of(life))
    valued.append(rows_of(life, shape=VALUED))
    # A checkpoint has the same rows, whether its run learns in one process or from a fleet.
    assert plain.ring.rows.dtype == valued.ring.rows.dtype
    np.testing.assert_array_equal(plain.ring.bytes, valued.ring.bytes)
    assert valued.n_bytes > plain.n_bytes
    uniform = ReplayBuffer(VALUED, ReplaySettings(capacity=60, alpha=0.0), 3)
    uniform.append(valued_rows(life, 1))
    assert uniform.n_bytes < plain.n_bytes
