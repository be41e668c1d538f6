"""The status of an actor, and the lateness of its steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.learn.actors.actor_status import ActorState, lateness_class, lateness_quantile_s, open_status
from support.memory_parts import create_status


def test_it_is_seen_from_the_other_side(tmp_path):
    ours = create_status(tmp_path / "status", 1)
    theirs = open_status(tmp_path / "status")
    assert theirs.read().state == ActorState.NONE
    assert theirs.read().weights_version == -1
    ours.begin(123)
    ours.set_version(7)
    ours.set_state(ActorState.PLAYING)
    ours.note_step(0.001)
    ours.note_step(0.02)
    ours.note_step(None)
    status = theirs.read()
    assert (status.state, status.pid, status.weights_version) == (ActorState.PLAYING, 123, 7)
    assert (status.n_steps, status.n_late, status.n_starts) == (3, 1, 1)
    assert theirs.lateness().sum() == 2
    assert not ours.is_stop_requested
    theirs.set_stop_request(True)
    assert ours.is_stop_requested


def test_a_restarted_actor_counts_on_but_has_no_weights(tmp_path):
    board = create_status(tmp_path / "status", 1)
    board.begin(1)
    board.set_version(7)
    board.note_step(0.1)
    board.begin(2)
    board.note_step(0.1)
    status = board.read()
    assert (status.pid, status.n_starts, status.n_steps, status.n_late, status.weights_version) == (2, 2, 2, 2, -1)


@given(st.lists(st.floats(0.0, 60.0), min_size=1, max_size=50), st.floats(0.0, 1.0))
def test_a_quantile_is_right_to_a_tenth(late_s, share):
    classes = np.zeros(160, np.uint64)
    for each in late_s:
        classes[lateness_class(each)] += np.uint64(1)
    exact = float(np.quantile(late_s, share, method="inverted_cdf"))
    found = lateness_quantile_s(classes, share)
    assert exact / 1.001 - 21e-6 <= found <= 1.101 * exact + 21e-6


def test_nothing_has_no_quantile():
    assert lateness_quantile_s(np.zeros(160, np.uint64), 0.99) is None


@pytest.mark.parametrize("late_s", [0.0, -1.0, 1e-9, 1e9])
def test_any_lateness_has_a_class(late_s):
    assert 0 <= lateness_class(late_s) < 160
