"""Threads that make calls at the same time."""

import threading

import pytest

from soulslab.envs.game.vector_env import CallThreads
from support.waiting import PATIENCE_S


@pytest.fixture
def threads():
    threads = CallThreads(3)
    yield threads
    threads.close()


def test_results_are_in_the_order_of_the_calls(threads):
    assert threads.call([lambda i=i: i * i for i in range(3)]) == [0, 1, 4]
    assert threads.call([lambda: "one"]) == ["one"]
    assert threads.call([]) == []


def test_calls_run_at_the_same_time(threads):
    meeting = threading.Barrier(3)
    assert sorted(threads.call([lambda: meeting.wait(PATIENCE_S)] * 3)) == [0, 1, 2]


@pytest.mark.parametrize("place", [0, 2])
def test_errors_are_returned_as_results(threads, place):
    def fail():
        raise ValueError("broken")

    calls = [lambda: 1] * 3
    calls[place] = fail
    results = threads.call(calls)
    assert str(results.pop(place)) == "broken"
    assert results == [1, 1]


def test_results_of_an_interrupted_call_are_dropped(threads):
    def interrupt():
        raise KeyboardInterrupt

    gate = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        threads.call([interrupt, lambda: gate.wait(PATIENCE_S), lambda: "late"])
    gate.set()
    assert threads.call([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_close_ends_the_threads():
    before = set(threading.enumerate())
    threads = CallThreads(4)
    assert len(set(threading.enumerate()) - before) == 3
    threads.close()
    threads.close()
    assert set(threading.enumerate()) <= before
