"""The probing player: what its fights show of a boss, and what it learns from them."""

import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names
from soulslab.arena.fitting.attacks import STAGGER
from soulslab.arena.fitting.fit import fit_boss
from soulslab.arena.fitting.simulated import record_simulated
from soulslab.arena.knight_file import load_knight
from soulslab.arena.probe_player import ProbePlayer
from soulslab.arena.records import ATTACKING
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import ACTIONS, BOSS_ANIMATIONS, BOSS_ATTACKS, FIRST_ROLL, LIGHT_ATTACK, NOTHING, PARRY
from support.stage import shipped


def recorded(boss, minutes, seed=3):
    probe = ProbePlayer(1, seed)
    return probe, list(record_simulated(shipped(boss), lambda _: probe, seed=seed, minutes=minutes))


@pytest.fixture(scope="module")
def judge():
    """Return the probing player after 20 minutes against the judge, and its fights."""
    return recorded("judge", 20.0)


@pytest.mark.parametrize("boss", boss_names())
def test_it_shows_the_whole_boss(boss, judge):
    fights = judge[1] if boss == "judge" else recorded(boss, 12.0)[1]
    moments = np.concatenate([fight.moments for fight in fights])
    # Both phases, and nearly all attacks.
    assert (moments["phase"] == 2).mean() > 0.2
    names = np.concatenate([np.array(f.boss_animations)[f.moments["boss_animation"]] for f in fights])
    attacks = {move.animation for move in shipped(boss).moves}
    assert len(attacks & set(names.tolist())) >= 0.85 * len(attacks)
    if boss == "frost_beast":
        assert "Attack3007" in names  # chosen only against a player at its back
        assert (names == "Attack3003").sum() > 1000  # chosen only against a player that is far away
    else:
        assert STAGGER in names
    # Varied distances, and positions beside and behind the boss.
    dx, dy = moments["player_x"] - moments["boss_x"], moments["player_y"] - moments["boss_y"]
    near, far = np.quantile(np.hypot(dx, dy), (0.1, 0.9))
    assert near < 3.0
    assert far > 5.0
    ahead = (-np.sin(moments["boss_angle"]) * dx - np.cos(moments["boss_angle"]) * dy) / np.hypot(dx, dy)
    assert (ahead < 0.5).mean() > 0.05
    assert (ahead < -0.5).mean() > 0.014


def test_it_learns_when_attacks_hit(judge):
    probe, _ = judge
    true_s = {
        BOSS_ANIMATIONS.index(move.animation): [(window.start_s, window.end_s) for window in move.windows]
        for move in shipped("judge").moves
        if move.animation in BOSS_ANIMATIONS
    }
    blows = [(number, blow) for number, all_ in probe.blows.items() if number >= 0 for blow in all_]
    assert len(blows) >= 10
    right = [any(start - 0.1 <= blow <= end + 0.1 for start, end in true_s[number]) for number, blow in blows]
    assert np.mean(right) > 0.9


def test_it_stands_where_the_reach_of_attacks_may_end(judge):
    boss = shipped("judge")
    fit = fit_boss(judge[1], load_knight(), ground=boss.ground)
    true = {move.animation: move for move in boss.moves}
    errors = [
        abs(window.reach_m - true[move.animation].windows[j].reach_m)
        for i, move in enumerate(fit.boss.moves)
        for j, window in enumerate(move.windows)
        if f"moves[{i}].windows[{j}].reach_m" not in fit.uncertainty.unknown
    ]
    assert len(errors) >= 6  # near misses bound them from above
    assert np.median(errors) < 0.15


def test_it_answers_attacks_in_varied_ways():
    simulator = Simulator(shipped("judge"), 8, FightOptions(states=True, features=False, random_pose=True))
    everyone = np.ones(8, np.bool_)
    simulator.seed(np.arange(8, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    probe = ProbePlayer(8, 1)
    probe.begin(simulator.states, everyone)
    counts, rolls = np.zeros(len(ACTIONS), np.int64), []
    for _ in range(4000):
        over = simulator.duels["decision"] == 0
        probe.begin(simulator.states, over)
        simulator.states["player_hp"] = simulator.duels["p_hp"] = 454.0  # its health is restored
        actions = probe.act(simulator.states, simulator.masks)
        is_roll = (actions >= FIRST_ROLL) & (actions < LIGHT_ATTACK) & (simulator.duels["b_mode"] == ATTACKING)
        rolls += simulator.states["boss_animation_duration"][is_roll].tolist()
        counts += np.bincount(actions, minlength=len(ACTIONS))
        simulator.step(actions)
    assert (counts[[0, 2, 4, 6, LIGHT_ATTACK, NOTHING]] > 50).all()
    assert (counts[FIRST_ROLL:LIGHT_ATTACK] > 0).all()
    assert counts[PARRY] > 10
    assert np.ptp(np.quantile(rolls, (0.1, 0.9))) > 0.5


def test_the_same_seed_plays_the_same_fights():
    first, second = (recorded("trickster", 1.0)[1] for _ in range(2))
    assert all(np.array_equal(a.moments, b.moments) for a, b in zip(first, second, strict=True))
    other = recorded("trickster", 1.0, seed=4)[1]
    assert not np.array_equal(first[0].moments, other[0].moments)


def test_its_knowledge_names_no_animation_that_cannot_hit(judge):
    probe, _ = judge
    assert all(number < len(BOSS_ATTACKS) for number in probe.blows)
