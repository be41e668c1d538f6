"""The tick timer: exact at every speed, without drift, and bounded after an interruption."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from soulslab.arena.window.game_loop import MAX_BEHIND_NS, TickTimer

S_NS = 1_000_000_000


def test_any_100_ms_have_six_ticks():
    timer = TickTimer(0)
    assert [timer.due(n * S_NS // 10, 1.0) for n in range(1, 36_001)] == [6] * 36_000


@given(st.lists(st.integers(0, S_NS // 2), max_size=200))
def test_however_time_is_cut_no_tick_is_lost(parts):
    timer, now, n = TickTimer(7), 7, 0
    for part in parts:
        now += part
        n += timer.due(now, 1.0)
    # A tick that would be due within the rounding of a nanosecond may come a nanosecond later.
    assert (now - 7) * 60 // S_NS - n in (0, 1)
    assert n <= (now - 7) * 60 // S_NS


def test_no_tick_is_due_while_the_game_stands():
    timer = TickTimer(0)
    assert timer.due(S_NS, 0.0) == 0
    assert timer.due(S_NS + S_NS // 10, 1.0) == 6


@pytest.mark.parametrize(("speed", "n_ticks"), [(0.5, 30), (2.0, 120), (10.0, 600)])
def test_speed_scales_time(speed, n_ticks):
    timer = TickTimer(0)
    assert sum(timer.due(n * S_NS // 100, speed) for n in range(1, 101)) in (n_ticks - 1, n_ticks)


def test_after_a_long_standstill_the_game_does_not_race():
    timer = TickTimer(0)
    assert timer.due(1000 * S_NS, 1.0) == 60 * MAX_BEHIND_NS // S_NS


@example(passed=0, speed=5e-324)
@given(st.integers(0, S_NS), st.floats(0.0, 100.0))
def test_the_wait_leads_to_the_next_tick(passed, speed):
    timer = TickTimer(0)
    timer.due(passed, speed)
    wait = timer.wait_ns(speed)
    assert 0 <= wait <= S_NS // 60 + 1
    if speed >= 1.0:
        assert timer.due(passed + wait, speed) >= 1
