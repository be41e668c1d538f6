"""Who is drawn how often, and what survives bad errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import NonFinitePriorityError, ReplayError
from soulslab.learn.replay.samplers import EPSILON, PrioritisedSampler, UniformSampler

BOTH = [lambda: UniformSampler(50), lambda: PrioritisedSampler(50, 0.6)]
events = st.lists(st.integers(0, 49), max_size=120)


def toggled(numbers):
    """Return events that add a place when it is out and remove it when it is in, and what is in at the end."""
    inside, found = set(), []
    for place in numbers:
        found.append(~place if place in inside else place)
        inside ^= {place}
    return np.array(found, np.int64), inside


def draw(sampler, n, rng, beta=0.5):
    places, weights = np.empty(n, np.int64), np.empty(n, np.float32)
    sampler.draw(places, weights, beta=beta, rng=rng)
    return places, weights


@pytest.mark.parametrize("make", BOTH)
@given(numbers=events, seed=st.integers(0, 99))
def test_draws_what_can_be_drawn_and_all_of_it(make, numbers, seed):
    sampler = make()
    changes, inside = toggled(numbers)
    for piece in np.array_split(changes, 3):
        sampler.change(piece)
    assert sampler.n_places == len(inside)
    if inside:
        places, weights = draw(sampler, 2000, np.random.default_rng(seed))
        assert set(places.tolist()) == inside
        np.testing.assert_array_equal(weights, 1.0)


@pytest.mark.parametrize("make", BOTH)
@given(numbers=events, seed=st.integers(0, 99))
def test_continues_exactly_from_its_state(make, numbers, seed):
    sampler, again = make(), make()
    changes, inside = toggled(numbers)
    sampler.change(changes)
    rng = np.random.default_rng(seed)
    if inside:
        places, _ = draw(sampler, 8, rng)
        sampler.set_errors(places, rng.normal(size=8).astype(np.float32))
    again.load(sampler.state(), np.array(sorted(inside), np.int64))
    assert (again.n_places, again.priority_max) == (sampler.n_places, sampler.priority_max)
    more = np.array([~place for place in sorted(inside)[:3]] + sorted(set(range(50)) - inside)[:3], np.int64)
    for each in (sampler, again):
        each.change(more)
    if sampler.n_places:
        first, second = (draw(each, 64, np.random.default_rng(seed)) for each in (sampler, again))
        np.testing.assert_array_equal(first, second)


def test_draws_in_proportion_to_priorities():
    sampler = PrioritisedSampler(10, alpha=0.5)
    sampler.change(np.arange(10))
    errors = np.arange(10, dtype=np.float32) ** 2
    sampler.set_errors(np.arange(10), errors)
    expected = (errors + EPSILON) ** 0.5
    np.testing.assert_allclose(sampler.priorities(np.arange(10)), expected, rtol=1e-6)
    places, _ = draw(sampler, 100_000, np.random.default_rng(1))
    found = np.bincount(places, minlength=10) / 100_000
    np.testing.assert_allclose(found, expected / expected.sum(), atol=2e-5)  # stratified: as even as can be


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_paper(beta):
    sampler = PrioritisedSampler(10, alpha=1.0)
    sampler.change(np.arange(10))
    sampler.set_errors(np.arange(10), np.linspace(0.1, 3.0, 10, dtype=np.float32))
    places, weights = draw(sampler, 32, np.random.default_rng(2), beta)
    chances = sampler.priorities(np.arange(10)) / sampler.priorities(np.arange(10)).sum()
    expected = (10 * chances[places]) ** -beta
    np.testing.assert_allclose(weights, expected / expected.max(), rtol=1e-5)


def test_a_new_place_gets_the_largest_priority_so_far():
    sampler = PrioritisedSampler(4, alpha=1.0)
    sampler.change(np.array([0, 1]))
    sampler.set_errors(np.array([0]), np.array([-5.0], np.float32))
    sampler.set_errors(np.array([0]), np.array([1.0], np.float32))
    sampler.change(np.array([2]))
    assert sampler.priority_max == pytest.approx(5.0)
    np.testing.assert_allclose(sampler.priorities(np.array([0, 1, 2, 3])), [1.0, 1.0, 5.0, 0.0], rtol=1e-5)


@given(
    errors=st.lists(st.floats(width=32), min_size=1, max_size=20),
    alpha=st.floats(0.0, 1.0, exclude_min=True),
    seed=st.integers(0, 99),
)
def test_priorities_stay_finite_and_a_bad_error_changes_nothing(errors, alpha, seed):
    sampler = PrioritisedSampler(20, alpha)
    sampler.change(np.arange(20))
    before = sampler.state()
    places = np.random.default_rng(seed).integers(20, size=len(errors))
    if np.isfinite(errors).all():
        sampler.set_errors(places, np.array(errors, np.float32))
        priorities = sampler.priorities(np.arange(20))
        assert np.isfinite(priorities).all() and (priorities > 0.0).all()
        assert np.isfinite(sampler.priority_max) and np.isfinite(sampler._tree.total)
        _, weights = draw(sampler, 64, np.random.default_rng(seed))
        assert np.isfinite(weights).all() and weights.max() <= 1.0
    else:
        with pytest.raises(
            NonFinitePriorityError, match=r"is (nan|inf|-inf), .* no priority was changed; the learner has"
        ):
            sampler.set_errors(places, np.array(errors, np.float32))
        for name, array in sampler.state().items():
            np.testing.assert_array_equal(array, before[name])


def test_the_uniform_one_refuses_bad_errors_too():
    with pytest.raises(NonFinitePriorityError) as caught:
        UniformSampler(3).set_errors(np.array([0, 1]), np.array([0.0, np.nan], np.float32))
    assert caught.value.index == 1


def test_an_error_of_a_forgotten_place_is_passed_over():
    sampler = PrioritisedSampler(3, alpha=1.0)
    sampler.change(np.array([0, 1, ~0]))
    sampler.set_errors(np.array([0, 1]), np.array([9.0, 2.0], np.float32))
    assert sampler.priorities(np.arange(3)).tolist() == [0.0, pytest.approx(2.0, rel=1e-5), 0.0]
    assert sampler.priority_max == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("make", BOTH)
def test_the_state_of_other_places_is_refused(make):
    sampler = make()
    sampler.change(np.array([1, 2, 3]))
    with pytest.raises(ReplayError, match="to other transitions than the rows"):
        make().load(sampler.state(), np.array([1, 2, 3, 4]))
