"""Calls at the same time."""

import threading

import pytest

from soulslab.envs.game.vector_env import CallThreads


@pytest.fixture
def threads():
    threads = CallThreads(3)
    yield threads
    threads.close()


def test_answers_come_in_the_order_of_the_calls(threads):
    assert threads.call([lambda i=i: i * i for i in range(3)]) == [0, 1, 4]
    assert threads.call([lambda: "one"]) == ["one"]
    assert threads.call([]) == []


def test_all_run_at_the_same_time(threads):
    meeting = threading.Barrier(3)
    assert sorted(threads.call([lambda: meeting.wait(20.0)] * 3)) == [0, 1, 2]


@pytest.mark.parametrize("place", [0, 2])
def test_an_error_is_an_answer(threads, place):
    def fail():
        raise ValueError("broken")

    calls = [lambda: 1] * 3
    calls[place] = fail
    answers = threads.call(calls)
    assert str(answers.pop(place)) == "broken"
    assert answers == [1, 1]


def test_an_interrupted_call_leaves_nothing_to_the_next(threads):
    def interrupt():
        raise KeyboardInterrupt

    gate = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        threads.call([interrupt, lambda: gate.wait(20.0), lambda: "late"])
    gate.set()
    assert threads.call([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_its_threads_end_with_it():
    before = set(threading.enumerate())
    threads = CallThreads(4)
    assert len(set(threading.enumerate()) - before) == 3
    threads.close()
    threads.close()
    assert set(threading.enumerate()) <= before
