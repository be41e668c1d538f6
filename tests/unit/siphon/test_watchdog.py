"""Deadlines of messages."""

import threading
import time
from functools import partial

import pytest

from soulslab.siphon.watchdog import Watchdog
from support.waiting import PATIENCE_S


@pytest.fixture
def watchdog():
    watchdog = Watchdog()
    yield watchdog
    watchdog.close()


def test_it_acts_once_the_deadline_has_passed(watchdog):
    for _ in range(3):
        acted = threading.Event()
        watchdog.arm(0.01, acted.set)
        assert acted.wait(PATIENCE_S)


def test_a_shorter_deadline_wakes_it(watchdog):
    first, second = threading.Event(), threading.Event()
    watchdog.arm(3600.0, first.set)
    watchdog.disarm()
    watchdog.arm(0.01, second.set)
    assert second.wait(PATIENCE_S)
    assert not first.is_set()


def test_a_cancelled_deadline_does_nothing(watchdog):
    late, passed, last = [], [], threading.Event()
    for n in range(1000):
        armed_s = time.monotonic()
        watchdog.arm(0.02, partial(late.append, n))
        watchdog.disarm()
        if time.monotonic() - armed_s > 0.02:
            passed.append(n)  # on a busy machine, before it was cancelled
    watchdog.arm(0.05, last.set)  # passes after all of those would have
    assert last.wait(PATIENCE_S)
    assert set(late) <= set(passed)
    assert len(passed) < 1000


def test_closing_ends_its_thread():
    before = set(threading.enumerate())
    watchdog = Watchdog()
    watchdog.arm(3600.0, lambda: None)
    watchdog.close()
    watchdog.close()
    assert set(threading.enumerate()) <= before
