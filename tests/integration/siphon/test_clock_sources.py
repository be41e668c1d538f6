"""Programs with one time source each: every source is virtual, exact, and stops with the clock."""

from __future__ import annotations

import os

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.profile import ClockFacts
from support.clock_program import compile_clock_program, running_clock_program
from support.waiting import wait_for

PERIOD_MS = 10
PERIOD_S = PERIOD_MS / 1000
TIMERS = (
    "setitimer", "setitimer_sigsuspend", "setitimer_sleep", "setitimer_once", "ualarm", "timer_signal",
    "timer_thread_id", "timer_thread", "timer_absolute", "timer_sigwaitinfo", "timer_sigwait", "signalfd",
    "timerfd_read", "timerfd_poll", "timerfd_poll_forever", "timerfd_epoll", "timerfd_select", "timerfd_copy",
)  # fmt: skip
WAITS = (
    "rwlock_timedrdlock", "rwlock_timedwrlock", "rwlock_clockrdlock", "rwlock_clockwrlock", "timedjoin", "clockjoin",
    "mtx_timedlock", "cnd_timedwait", "thrd_sleep", "mq_timedreceive", "mq_timedsend", "semtimedop", "sigtimedwait",
    "clock",
)  # fmt: skip
SYSTEM_CALLS = (
    "syscall_nanosleep", "syscall_clock_nanosleep", "syscall_futex", "syscall_futex_bitset", "syscall_futex_wall",
    "syscall_futex_waitv", "syscall_poll", "syscall_ppoll", "syscall_select", "syscall_pselect", "syscall_epoll_wait",
    "syscall_epoll_pwait", "syscall_clock_gettime",
)  # fmt: skip
#: The tick is made by a thread or a process that is new in each period.
WORKERS = ("new_thread", "new_process")
PERIODIC = tuple(name for name in TIMERS if name != "setitimer_once")


@pytest.fixture(scope="module")
def clock_sources(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("clock_sources"), "clock_sources")


@pytest.fixture
def start(clock_sources, tmp_path):
    """Start the program and return it with its clock, paused in the middle of a period."""
    undo = []

    def start(source, *, n_busy=0, tick_hz=1 / PERIOD_S, servers=(), **environment):
        own = LockstepPage.create()
        running = running_clock_program(
            clock_sources, tmp_path, source, PERIOD_MS, {**own.environment(), **environment}, n_busy
        )
        undo.append(lambda: running.__exit__(None, None, None))
        program = running.__enter__()
        clock = LockstepClock(own, program.pid, ClockFacts(tick_hz=tick_hz), servers=servers)
        undo.append(clock.close)
        wait_for(lambda: program.n_waits > 1)
        clock.pause()
        return program, clock

    yield start
    for close in reversed(undo):
        close()


def counts_of_steps(program, clock, n_steps=50):
    first, counts = program.n_waits, []
    for _ in range(n_steps):
        clock.advance(PERIOD_S)
        counts.append(program.n_waits - first)
    return counts


@pytest.mark.parametrize("source", TIMERS + WAITS + SYSTEM_CALLS + WORKERS)
def test_each_step_of_one_period_is_one_period_beside_load(start, source):
    program, clock = start(source, n_busy=2)
    assert counts_of_steps(program, clock) == list(range(1, 51))


@pytest.mark.parametrize("source", ["setitimer", "timer_thread", "timer_sigwaitinfo", "timerfd_read", "timerfd_epoll"])
def test_it_is_exact_where_the_display_server_is_unknown(start, source):
    program, clock = start(source, servers=None)
    assert counts_of_steps(program, clock, 5) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("source", TIMERS + WAITS + SYSTEM_CALLS)
def test_the_program_is_paused_while_an_equal_one_runs_in_real_time(start, clock_sources, tmp_path, source):
    program, clock = start(source)
    before = program.n_waits
    folder = tmp_path / "free"
    folder.mkdir()
    with running_clock_program(clock_sources, folder, source, PERIOD_MS, os.environ) as free:
        wait_for(lambda: free.n_waits > 10)
    assert program.n_waits == before
    clock.advance(PERIOD_S)
    assert program.n_waits == before + 1


@pytest.mark.parametrize("source", PERIODIC)
def test_periods_that_pass_at_once_are_counted_as_the_kernel_does(start, source):
    program, clock = start(source, tick_hz=2.0)
    before, n_wakes = program.n_waits, program.n_wakes
    clock.advance(20 * PERIOD_S)
    # A signal without a count says only that there was an expiration.
    counts = source.startswith(("timer_", "timerfd")) and source != "timer_thread"
    assert program.n_waits - before == (20 if counts else 1)
    assert program.n_wakes - n_wakes <= 1


@pytest.mark.parametrize("source", ["thrd_sleep", "setitimer"])
def test_a_thousand_threads_are_paused(start, source):
    program, clock = start(source, N_SLEEPERS="1000")
    assert counts_of_steps(program, clock, 10) == list(range(1, 11))


def test_too_many_threads_are_refused(start):
    with pytest.raises(ClockUnavailableError, match="more than 4096 threads"):
        start("thrd_sleep", N_SLEEPERS="4200")
