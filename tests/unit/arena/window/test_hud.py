"""The recent loss of a bar: shown for some ticks of the game, then shrinking."""

from __future__ import annotations

import pytest

from soulslab.arena.window.hud import DRAIN_PER_TICK, HOLD_TICKS, Trail


def new_trail() -> Trail:
    trail = Trail()
    trail.begin(100.0, 100.0, 0)
    return trail


def test_a_loss_is_held_and_then_shrinks_to_the_value() -> None:
    trail = new_trail()
    trail.show(60.0, 100.0, 1)
    assert (trail.share, trail.lost) == (1.0, 40.0)
    trail.show(60.0, 100.0, 1 + HOLD_TICKS)
    assert (trail.share, trail.lost) == (1.0, 40.0)
    trail.show(60.0, 100.0, 11 + HOLD_TICKS)
    assert trail.share == pytest.approx(1.0 - 10 * DRAIN_PER_TICK)
    assert trail.lost == 0.0
    trail.show(60.0, 100.0, 1000)
    assert trail.share == pytest.approx(0.6)


def test_blows_in_a_row_add_up() -> None:
    trail = new_trail()
    trail.show(90.0, 100.0, 1)
    trail.show(70.0, 100.0, 20)
    assert trail.lost == 30.0
    trail.show(70.0, 100.0, 20 + HOLD_TICKS)
    assert trail.share == 1.0


def test_it_does_not_depend_on_how_often_it_is_looked_at() -> None:
    often, seldom = new_trail(), new_trail()
    for tick in range(1, 121):
        value = 50.0 if tick >= 6 else 100.0
        often.show(value, 100.0, tick)
        if tick % 6 == 0:
            seldom.show(value, 100.0, tick)
            assert seldom.share == pytest.approx(often.share)
            assert seldom.lost == often.lost


def test_health_given_back_leaves_nothing_lost_above_it() -> None:
    trail = new_trail()
    trail.show(10.0, 100.0, 1)
    trail.show(100.0, 100.0, 2)
    assert trail.share == 1.0
    trail.begin(50.0, 100.0, 3)
    assert (trail.share, trail.lost) == (0.5, 0.0)
