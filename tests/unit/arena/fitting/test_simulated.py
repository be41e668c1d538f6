"""Recordings of simulated fights."""

import numpy as np
import pytest

from soulslab.arena.fitting.simulated import TOP_UP_BELOW, record_simulated, thinned
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from support.stage import shipped

FULL = load_knight().vitals.hp


def record(minutes=1.0, seed=3, **options):
    probe = ProbePlayer(1, seed)
    return list(record_simulated(shipped("judge"), lambda _: probe, seed=seed, minutes=minutes, **options))


@pytest.fixture(scope="module")
def fights():
    return record(2.0)


def test_a_recording_lasts_as_long_as_asked_and_depends_only_on_its_seed(fights):
    assert sum(len(fight.moments) for fight in fights) == pytest.approx(2 * 60 * 60, abs=6 * len(fights))
    for one, other in zip(fights, record(2.0), strict=True):
        np.testing.assert_array_equal(one.moments, other.moments)
    assert not np.array_equal(record(0.1, seed=4)[0].moments, fights[0].moments[:360])


def test_every_tick_of_the_game_is_a_moment(fights):
    for fight in fights:
        assert fight.ticks_per_moment == 1
        np.testing.assert_array_equal(np.diff(fight.moments["tick"]), 1)
        names = np.asarray(fight.boss_animations)[fight.moments["boss_animation"]]
        same = names[1:] == names[:-1]
        step_s = np.diff(fight.moments["boss_time_s"])[same]
        assert ((np.abs(step_s - 1 / 60) < 1e-9) | (step_s <= 0)).all()


def test_the_health_is_restored_before_a_hit_could_kill(fights):
    moments = np.concatenate([fight.moments for fight in fights])
    assert moments["is_topped_up"].sum() > 3
    hp = moments["player_hp"]
    restored = np.flatnonzero(moments["is_topped_up"])
    assert (hp[restored - 1] < TOP_UP_BELOW * FULL).all()
    without = record(2.0, top_up=False)
    assert len(without) > len(fights)
    assert not any(fight.moments["is_topped_up"].any() for fight in without)


def test_a_thinned_fight_has_every_sixth_tick_and_keeps_what_happened_between(fights):
    fight = fights[0]
    thin = thinned(fight, 6)
    assert thin.ticks_per_moment == 6
    np.testing.assert_array_equal(thin.moments["boss_x"], fight.moments["boss_x"][5::6])
    assert thin.moments["is_topped_up"].sum() == fight.moments["is_topped_up"].sum()
