"""Calls at the same time."""

import threading

import pytest

from soulslab.envs.crew import Crew


@pytest.fixture
def crew():
    crew = Crew(3)
    yield crew
    crew.close()


def test_answers_come_in_the_order_of_the_calls(crew):
    assert crew.call([lambda i=i: i * i for i in range(3)]) == [0, 1, 4]
    assert crew.call([lambda: "one"]) == ["one"]
    assert crew.call([]) == []


def test_all_run_at_the_same_time(crew):
    meeting = threading.Barrier(3)
    assert sorted(crew.call([lambda: meeting.wait(20.0)] * 3)) == [0, 1, 2]


@pytest.mark.parametrize("place", [0, 2])
def test_an_error_is_an_answer(crew, place):
    def fail():
        raise ValueError("broken")

    calls = [lambda: 1] * 3
    calls[place] = fail
    answers = crew.call(calls)
    assert str(answers.pop(place)) == "broken"
    assert answers == [1, 1]


def test_an_interrupted_call_leaves_nothing_to_the_next(crew):
    def interrupt():
        raise KeyboardInterrupt

    gate = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        crew.call([interrupt, lambda: gate.wait(20.0), lambda: "late"])
    gate.set()
    assert crew.call([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_its_threads_end_with_it():
    before = set(threading.enumerate())
    crew = Crew(4)
    assert len(set(threading.enumerate()) - before) == 3
    crew.close()
    crew.close()
    assert set(threading.enumerate()) <= before
