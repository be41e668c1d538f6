"""Order in which threads continue whose waits end in the same step."""

from __future__ import annotations

import pytest

from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.profile import ClockFacts
from support.clock_program import compile_clock_program, running_clock_program
from support.waiting import wait_for

PERIOD_MS = 10
#: Longer than all periods of the program, so that each step ends the waits of several threads.
STEP_S = 0.015
N_STEPS = 150


@pytest.fixture(scope="module")
def turns_program(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("turns_program"), "turns_program")


@pytest.fixture
def start(turns_program, tmp_path):
    """Starts the program and returns it with its clock, paused."""
    undo = []

    def start(way, *, is_held=False):
        page = LockstepPage.create("end", is_held=is_held)
        running = running_clock_program(turns_program, tmp_path, way, PERIOD_MS, page.environment())
        undo.append(lambda: running.__exit__(None, None, None))
        program = running.__enter__()
        clock = LockstepClock(page, program.pid, ClockFacts(tick_hz=1 / STEP_S))
        undo.append(clock.close)
        if not is_held:
            wait_for(lambda: program.n_waits > 5)
        clock.pause()
        return program, clock

    yield start
    for close in reversed(undo):
        close()


def advance(clock, n_steps=N_STEPS):
    for _ in range(n_steps):
        clock.advance(STEP_S)


@pytest.mark.parametrize("way", ["sleep", "poll", "select", "busy"])
def test_threads_go_on_one_at_a_time_in_the_order_of_their_deadlines(start, way):
    program, clock = start(way)
    clock.advance(STEP_S)  # from here on no turn is one of the time before the pause
    before = program.n_waits, program.n_short, program.n_backwards
    advance(clock)
    n_turns, n_overlaps, n_backwards = program.n_waits, program.n_short, program.n_backwards
    assert (n_overlaps - before[1], n_backwards - before[2]) == (0, 0)
    assert n_turns - before[0] == 3 * N_STEPS


def test_a_thread_that_waits_for_one_with_a_later_turn_does_not_stall_the_step(start):
    program, clock = start("locked")
    before = program.n_waits
    advance(clock, 10)
    assert program.n_waits - before >= 10


def test_a_step_ends_although_a_condition_returns_only_after_a_later_turn(start):
    program, clock = start("condition", is_held=True)

    def has_waited():
        clock.advance(STEP_S)  # raises an error if the step does not end
        return program.n_waits >= 5

    wait_for(has_waited)  # the program is still starting, so the first steps may have no turn


def test_threads_that_wait_for_their_turn_go_on_when_the_game_runs_freely(start):
    program, clock = start("sleep")
    advance(clock, 3)
    clock.run()
    before = program.n_waits
    wait_for(lambda: program.n_waits >= before + 10)
    clock.pause()
    advance(clock, 3)
