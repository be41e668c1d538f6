"""Detection of programs that wait for time without libc, by their system call."""

from __future__ import annotations

import pytest

from soulslab.siphon.clock.lockstep import LockstepClock, find_unheld_threads
from soulslab.siphon.clock.lockstep_page import FOREVER_NS, LockstepPage, native_library
from support.clock_program import compile_clock_program, running_clock_program
from support.waiting import wait_for

PERIOD_MS = 5
CALLS = ("nanosleep", "clock_nanosleep", "futex", "poll", "ppoll", "epoll_wait")
OTHERS = {"timerfd": "timerfd", "timer_create": "timer_create", "setitimer": "runs", "rdtsc": "runs"}


@pytest.fixture(scope="module")
def clock_bypass(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("clock_bypass"), "clock_bypass")


@pytest.fixture
def hold(clock_bypass, tmp_path):
    """Start the program, pause its time, and return it with the page."""
    undo = []

    def hold(source):
        page = LockstepPage.create()
        undo.append(page.close)
        running = running_clock_program(clock_bypass, tmp_path, source, PERIOD_MS, page.environment())
        undo.append(lambda: running.__exit__(None, None, None))
        program = running.__enter__()
        wait_for(lambda: program.n_waits > 1)
        native_library().publish(page.address, 0, 0, FOREVER_NS)
        return program, page

    yield hold
    for close in reversed(undo):
        close()


@pytest.mark.parametrize("source", CALLS + tuple(OTHERS))
def test_a_wait_without_libc_is_found_by_name(hold, source):
    program, page = hold(source)
    before = program.n_waits
    wait_for(lambda: program.n_waits > before + 2)  # it does not stand
    expected = OTHERS.get(source, source)

    def find():
        found = find_unheld_threads(page, program.pid)
        return [thread for thread in found if thread.reason == expected]

    # A look may meet a thread between two waits; then it runs.
    found = wait_for(find)
    assert (found[0].tid, found[0].name) == (program.pid, "clock_bypass")


def test_no_tick_is_found_in_a_paused_game(hold):
    program, page = hold("usleep")
    wait_for(lambda: find_unheld_threads(page, program.pid) == ())
    before = program.n_waits
    for _ in range(5):
        assert find_unheld_threads(page, program.pid) == ()
    assert program.n_waits == before
    clock = LockstepClock(page, program.pid)
    assert clock.find_unheld_threads() == ()
    clock.close()
