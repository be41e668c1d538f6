"""The buffer as its users see it: what it refuses, what it shares, and that it goes on exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError, NonFiniteError, NonFinitePriorityError, ReplayError
from soulslab.learn.replay.replay_buffer import MAP_NAME, ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings
from support.lived import SHAPE, lives, rows_of
from support.mappings import mapped_bytes

LIFE = [(i % 2, 0) for i in range(40)]
HOW = {"n_steps": 3, "gamma": 0.99, "beta": 0.5}


def filled(alpha=0.5, rows=None):
    buffer = ReplayBuffer(SHAPE, ReplaySettings(capacity=60, alpha=alpha), 2)
    buffer.append(rows if rows is not None else rows_of(LIFE))
    return buffer


def contents(buffer):
    """Return copies of all that a buffer holds, each byte of it."""
    return {**buffer.state(), "rows": buffer.ring.bytes.copy(), "heads": buffer.ring.heads.copy()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_nothing_to_draw_is_an_error(alpha):
    buffer = ReplayBuffer(SHAPE, ReplaySettings(capacity=60, alpha=alpha), 2)
    rng = np.random.default_rng(0)
    with pytest.raises(ReplayError, match="nothing to draw yet: none of the 0 rows"):
        buffer.sample(buffer.make_batch(4), **HOW, rng=rng)
    buffer.append(rows_of([(0, 0), (1, 0)]))  # the next step is not known yet
    with pytest.raises(ReplayError, match="none of the 2 rows is a step with a known successor"):
        buffer.sample(buffer.make_batch(4), **HOW, rng=rng)
    assert (len(buffer.ring), buffer.sampler.n_places) == (2, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("what", "column"), [("reward", "reward"), ("observation", "features")])
def test_a_number_that_is_none_is_refused_before_anything_changes(what, column, value):
    buffer = filled()
    before = contents(buffer)
    rows = rows_of(LIFE)
    rows["is_first"] = False
    rows["is_first"][6] = True
    bad = rows.copy()
    if column == "reward":
        bad[column][10] = value
    else:
        bad[column][10, 1] = value
    with pytest.raises(NonFiniteError, match="environment 0") as caught:
        buffer.append(bad)
    # Row 10 is the third of environment 0 since row 6: its observation came after two steps, its reward with the third.
    assert (caught.value.what, caught.value.env_index, caught.value.step) == (what, 0, 2 + (what == "reward"))
    assert_same(contents(buffer), before)


def test_the_reward_of_a_final_row_means_nothing():
    rows = rows_of(LIFE)
    rows["outcome"][38], rows["reward"][38], rows["action"][38] = Outcome.FINAL, np.nan, -1
    assert len(filled(rows=rows).ring) == 40


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("stream", 2, r"row 10 of 40 \(environment 2\): the buffer has only environments 0 to 1"),
        ("action", 11, r"row 10 of 40 .* action 11 is not one of 0 to 10"),
        ("action", -1, r"action -1 is not one of"),
        ("outcome", 4, r"outcome 4 is not one of 0 to 3"),
    ],
)
def test_a_row_of_something_else_is_refused(column, value, message):
    buffer = filled()
    before = contents(buffer)
    rows = rows_of(LIFE)
    rows[column][10] = value
    with pytest.raises(ReplayError, match=message):
        buffer.append(rows)
    assert_same(contents(buffer), before)


def test_rows_of_another_shape_are_refused():
    other = StepShape(n_features=3, n_actions=11)
    with pytest.raises(ReplayError, match=r"make them with row_type\(shape\)"):
        filled().append(np.zeros(3, row_type(other)))


def test_places_of_another_buffer_are_refused():
    buffer = filled()
    for places in ([60], [-1], [0, 99]):
        with pytest.raises(ReplayError, match="are not all in 0 to 59"):
            buffer.set_priorities(torch.tensor(places), torch.ones(len(places)))
    with pytest.raises(ReplayError, match="places must be int64"):
        buffer.set_priorities(torch.tensor([0.0]), torch.ones(1))
    with pytest.raises(ReplayError, match="there are 2 places, but errors of shape"):
        buffer.set_priorities(torch.tensor([0, 1]), torch.ones(2, 1))


def test_an_error_that_is_none_is_refused():
    buffer = filled()
    before = contents(buffer)
    with pytest.raises(NonFinitePriorityError, match="transition 1 of the batch is nan"):
        buffer.set_priorities(torch.tensor([0, 1]), torch.tensor([1.0, torch.nan]))
    assert_same(contents(buffer), before)


def test_errors_may_hang_on_a_graph_and_set_what_is_drawn():
    buffer = filled()
    errors = torch.tensor([2.0, -3.0], requires_grad=True) * 1.0
    buffer.set_priorities(torch.tensor([0, 1]), errors)
    np.testing.assert_allclose(buffer.priorities(torch.tensor([0, 1])), [2.0**0.5, 3.0**0.5], rtol=1e-5)
    assert buffer.sampler.priority_max == pytest.approx(3.0**0.5)


def test_a_part_of_a_batch_is_filled_alone():
    first, second = filled(), filled(rows=rows_of([(1, 0)] * 20, seed=3))
    batch = first.make_batch(10)
    for column in batch:
        if column is not None:
            column.zero_()
    rng = np.random.default_rng(0)
    half, rest = batch.part(slice(6)), batch.part(slice(6, 10))
    for _ in range(3):  # by turns, as a learner does
        first.sample(half, **HOW, rng=rng)
        before = [column.clone() for column in half if column is not None]
        second.sample(rest, **HOW, rng=rng)
        assert all(torch.equal(a, b) for a, b in zip(before, (c for c in half if c is not None), strict=True))
    assert (batch.features[6:, 1] == 1.0).all()
    assert (batch.weights > 0.0).all()
    first.sample(batch.part(slice(3, 3)), **HOW, rng=rng)


def test_a_batch_keeps_its_memory():
    buffer = filled()
    batch = buffer.make_batch(8)
    addresses = [column.data_ptr() for column in batch if column is not None]
    buffer.sample(batch, **HOW, rng=np.random.default_rng(0))
    assert addresses == [column.data_ptr() for column in batch if column is not None]


def test_n_and_gamma_can_change_at_any_time():
    buffer = filled()
    batch = buffer.make_batch(8)
    for n_steps, gamma in ((1, 0.9), (10, 0.97), (3, 1.0)):
        buffer.sample(batch, n_steps=n_steps, gamma=gamma, beta=0.5, rng=np.random.default_rng(0))
        assert ((batch.next_features[:, 0] - batch.features[:, 0]) <= 2 * n_steps).all()


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@given(life=lives, more=lives, seed=st.integers(0, 99))
def test_continues_exactly_from_its_state(alpha, life, more, seed):
    settings = ReplaySettings(capacity=60, alpha=alpha)
    buffer, again = (ReplayBuffer(SHAPE, settings, 3) for _ in range(2))
    batches = [each.make_batch(16) for each in (buffer, again)]

    def learn(each, batch, rng):
        if each.sampler.n_places:
            each.sample(batch, **HOW, rng=rng)
            each.set_priorities(batch.places, batch.rewards)

    buffer.append(rows_of(life, seed))
    learn(buffer, batches[0], np.random.default_rng(seed))
    again.ring.bytes[:] = buffer.ring.bytes
    again.ring.restore(buffer.ring.written)
    again.load(buffer.state())
    for each, batch in zip((buffer, again), batches, strict=True):
        rng = np.random.default_rng(seed + 1)
        for rows in np.array_split(rows_of(more, seed), 4):
            each.append(rows)
            learn(each, batch, rng)
    assert_same(contents(buffer), contents(again))
    assert buffer.sampler.priority_max == again.sampler.priority_max
    assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True) if a is not None)


def test_a_state_without_its_rows_is_refused():
    buffer = filled()
    with pytest.raises(ReplayError, match="load the rows of the same checkpoint first"):
        ReplayBuffer(SHAPE, ReplaySettings(capacity=60), 2).load(buffer.state())


def test_the_error_for_a_state_of_anything_is_short():
    buffer = filled()
    with pytest.raises(ReplayError, match="load the rows of the same checkpoint first") as caught:
        buffer.load({**buffer.state(), "written": np.full(100_000, 91, np.uint8)})
    assert len(str(caught.value)) < 1000


def test_clear_forgets_everything():
    buffer = filled()
    buffer.set_priorities(torch.tensor([0]), torch.tensor([9.0]))
    buffer.clear()
    assert (len(buffer.ring), buffer.sampler.n_places, buffer.sampler.priority_max) == (0, 0, 1.0)
    buffer.append(rows_of(LIFE))
    assert buffer.sampler.n_places == filled().sampler.n_places


def test_a_mapped_buffer_draws_the_same(tmp_path):
    settings = ReplaySettings(capacity=60, is_mapped=True)
    with pytest.raises(ConfigError, match=r"replay\.is_mapped: a mapped buffer needs a folder"):
        ReplayBuffer(SHAPE, settings, 2)
    mapped, plain = ReplayBuffer(SHAPE, settings, 2, tmp_path), filled()
    mapped.append(rows_of(LIFE))
    assert mapped_bytes(tmp_path / MAP_NAME) >= mapped.ring.bytes.nbytes
    batches = [each.make_batch(16) for each in (mapped, plain)]
    for each, batch in zip((mapped, plain), batches, strict=True):
        each.sample(batch, **HOW, rng=np.random.default_rng(4))
    assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True) if a is not None)


def test_a_million_steps_of_the_arena_take_less_than_a_gigabyte():
    buffer = ReplayBuffer(StepShape(n_features=74, n_actions=20), ReplaySettings(), 1)
    assert len(buffer.ring.rows) == 1_000_000
    assert (
        buffer.n_bytes + sum(array.nbytes for array in vars(buffer.ring).values() if hasattr(array, "nbytes")) < 2**30
    )
