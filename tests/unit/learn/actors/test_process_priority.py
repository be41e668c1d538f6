"""Scheduling priority of an actor: when it becomes real-time, and that a game does not inherit it."""

import logging
import os
import sys

import pytest

from soulslab.learn.actors.actor_process import PriorityController, batch_scheduling, raise_priority, reset_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of processes are Linux's")


@pytest.fixture(autouse=True)
def restored():
    yield
    reset_priority()


def test_a_learner_gives_way_while_it_learns():
    before = os.sched_getscheduler(0)
    with batch_scheduling():
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_what_a_learner_starts_is_normal_again():
    with batch_scheduling():
        reset_priority()
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_an_actor_has_real_time_priority_if_permitted_and_its_children_have_not(caplog):
    caplog.set_level(logging.INFO)
    raise_priority()
    goes_first = os.sched_getscheduler(0) == os.SCHED_RR | os.SCHED_RESET_ON_FORK
    assert ("has real-time priority" if goes_first else "may not set real-time priority") in caplog.text


def test_an_actor_without_the_permission_logs_a_hint(monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError

    caplog.set_level(logging.INFO)
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_setscheduler", refuse)
        raise_priority()
    assert "ulimit -r" in caplog.text


@pytest.mark.parametrize(
    ("busy_s_of_step", "has_pace", "goes_after"),
    [
        (lambda _: 0.01, True, 20),
        (lambda n: 0.09 if n < 35 else 0.01, True, 60),  # it compiles its code in the first steps
        (lambda _: 0.09, True, None),
        (lambda _: 0.01, False, None),
    ],
)
def test_who_sleeps_and_has_a_pace_goes_first_once(busy_s_of_step, has_pace, goes_after):
    went, wall_s, busy_s = [], [0.0], [0.0]
    precedence = PriorityController(lambda: went.append(n), (lambda: wall_s[0], lambda: busy_s[0]))
    for n in range(1, 101):
        wall_s[0] += 0.1
        busy_s[0] += busy_s_of_step(n)
        precedence.after_step(has_pace=has_pace)
    assert went == ([goes_after] if goes_after is not None else [])
