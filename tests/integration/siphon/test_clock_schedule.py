"""Random schedules of all that can be done to a clock: the game's time never goes back, on any of its threads."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soulslab.siphon.clock.lockstep import LockstepClock, attach_lockstep
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.profile import ClockFacts
from support.clock_program import compile_clock_program, running_clock_program
from support.waiting import wait_for


@pytest.fixture(scope="module")
def clock_program(tmp_path_factory):
    return compile_clock_program(tmp_path_factory.mktemp("clock_program"))


ACTIONS = st.one_of(
    st.tuples(st.just("run"), st.sampled_from([0.01, 0.5, 1.0, 3.0, 50.0, 1000.0])),
    st.tuples(st.just("pause"), st.just(0.0)),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 1e-9, 0.001, 1 / 35, 0.1])),
    st.tuples(st.just("flow"), st.sampled_from([0.001, 0.02])),
    st.tuples(st.just("attach"), st.just(0.0)),
    st.tuples(st.just("look"), st.just(0.0)),
)


@pytest.mark.parametrize("way", ["nanosleep", "poll", "cond_timedwait", "spin_for_events"])
def test_time_never_decreases(clock_program, tmp_path, way):
    page = LockstepPage.create()
    with running_clock_program(clock_program, tmp_path, way, 3, page.environment(), n_watchers=2) as program:
        clocks = [LockstepClock(page, program.pid, ClockFacts(tick_hz=100.0))]
        wait_for(lambda: program.n_waits > 1)

        @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(st.lists(ACTIONS, min_size=1, max_size=8))
        def play(actions):
            last_s = clocks[0].game_time_s
            for name, value in actions:
                if name == "run":
                    clocks[0].run(value)
                elif name == "pause":
                    clocks[0].pause()
                elif name == "advance":
                    clocks[0].pause()
                    before_s, n_waits = clocks[0].game_time_s, program.n_waits
                    clocks[0].advance(value)
                    assert clocks[0].game_time_s - before_s == pytest.approx(value, abs=2e-9)
                    assert program.n_waits - n_waits <= value / 0.003 + 2
                elif name == "flow":
                    clocks[0].advance(value, speed=10.0)
                elif name == "attach":
                    clocks[0].close()
                    clocks[0] = attach_lockstep(program.pid, ClockFacts(tick_hz=100.0))
                else:
                    watched = program.n_watched
                    if clocks[0].speed:
                        wait_for(lambda watched=watched: program.n_watched > watched)
                now_s = clocks[0].game_time_s
                assert now_s >= last_s
                last_s = now_s
            assert program.n_backwards == 0
            assert program.n_short == 0

        play()
        clocks[0].close()
        assert program.n_watched > 0
