"""Scripted players: bounds of their win rates against each boss."""

import numpy as np
import pytest

from benchmarks.scripted_players import PLAYERS, measure
from soulslab.arena.boss_file import boss_names
from soulslab.arena.records import MAX_DECISIONS
from soulslab.arena.reference_player import DELAY, ReferencePlayer
from soulslab.arena.vocabulary import NOTHING
from support.long_form import IS_LONG
from support.stage import make_simulator, shipped

N_FIGHTS = 1000 if IS_LONG else 300
#: Win rates: at most this for each naive player.
MOST = dict.fromkeys(PLAYERS, 0.01) | {"attack": 0.05}


@pytest.mark.parametrize("phase", ["1", "2", "full"] if IS_LONG else ["full"])
@pytest.mark.parametrize("boss", boss_names())
def test_a_boss_is_a_real_fight(boss, phase):
    scores = [measure(shipped(boss), phase, player, n_fights=N_FIGHTS, seed=0) for player in PLAYERS]
    for score in scores:
        assert score.fights == N_FIGHTS
        assert score.win_rate + score.loss_rate + score.timeout_rate == pytest.approx(1)
        if score.player == "reference":
            assert 0.5 <= score.win_rate <= 0.9
        else:
            assert score.win_rate < MOST[score.player], score.player


@pytest.mark.parametrize("boss", boss_names())
def test_no_rhythm_played_blindly_wins(boss):
    """Random rhythms of rolls, steps, attacks and waits, repeated for a whole fight."""
    rng = np.random.default_rng(0)
    n = 2000 if IS_LONG else 800
    simulator = make_simulator(boss, range(n), random_pose=True)
    length = rng.integers(2, 13, n)
    rhythm = rng.choice([0, 2, 4, 6, 8, 9, 10, 12, 14, 16, 16, 16, 17, 18, NOTHING, NOTHING], (n, 12))
    over, won = np.zeros(n, bool), np.zeros(n, bool)
    for t in range(MAX_DECISIONS):
        simulator.step(rhythm[np.arange(n), t % length])
        won |= ~over & (simulator.duels["won"] == 1)
        over |= simulator.duels["over"] == 1
        if over.all():
            break
    assert over.all()
    assert won.mean() < 0.01


def test_the_reference_sees_the_boss_200_ms_late():
    simulator = make_simulator("judge", range(64), random_pose=True, states=True)
    everyone = np.ones(64, bool)
    sees, misled = ReferencePlayer(shipped("judge"), 64), ReferencePlayer(shipped("judge"), 64)
    for player in (sees, misled):
        player.begin(simulator.states, everyone)
    differs_after = None
    for t in range(200):
        shown = simulator.states.copy()
        if t >= 100:
            # From here on one of them is shown a boss that stands far away.
            shown["boss_animation"], shown["boss_pose"] = 0, 0.0
        actions = sees.act(simulator.states, simulator.masks).copy()
        if differs_after is None and (misled.act(shown, simulator.masks) != actions).any():
            differs_after = t - 100
        simulator.step(actions)
    assert differs_after == DELAY


def test_a_measure_is_repeatable():
    first, second = (measure(shipped("judge"), "1", "random", n_fights=20, seed=4) for _ in range(2))
    assert first == second
