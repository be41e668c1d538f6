"""A fight tick by tick, controlled by buttons, equals the simulator's for the same seed and actions."""

import numpy as np
import pytest

from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions, buttons_of, is_press_action
from soulslab.arena.records import DUEL, PHASES, TICKS_PER_DECISION
from soulslab.arena.simulator import FightOptions, Simulator

#: What is counted once a decision or at the end of a fight, and not by the rules of a tick.
BOOKKEEPING = {"decision", "over", "won", "truncated", "n_rolls", "n_attacks", "streak_gain"}
BOOKKEEPING |= {"s_masked", "s_rolls", "s_attacks", "s_return", "s_decisions_by_phase", "s_actions_by_situation"}
FIELDS = [name for name in DUEL.names if name not in BOOKKEEPING]
N_DECISIONS = 260


def same_fight(boss, phase, seed, random_pose):
    """Return a simulator and a live fight at the beginning of the same fight."""
    options = FightOptions(phase=phase, random_pose=random_pose, features=False, autoreset="disabled")
    simulator = Simulator(boss, 1, options)
    everyone = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), everyone)
    simulator.reset(everyone)
    return simulator, LiveFight(boss, LiveFightOptions(phase=phase, random_pose=random_pose, seed=seed))


def play_decision(game, action):
    """Hold the buttons of an action for a decision, as an environment holds keys; stop at the end of the fight."""
    buttons = buttons_of(action)
    for k in range(TICKS_PER_DECISION):
        game.tick(buttons, buttons if k == 0 and is_press_action(action) else ())
        if game.stage != "fighting":
            return


def check_same(simulator, game, after):
    for name in FIELDS:
        assert np.array_equal(simulator.duels[0][name], game.duel[name]), f"{name} after {after} decisions"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", boss_names())
def test_buttons_give_the_states_of_the_simulator(name, phase):
    boss = load_boss(name, list(load_knight().knock_backs))
    ends = set()
    for seed in range(8):
        simulator, game = same_fight(boss, phase, seed, random_pose=seed % 2 == 1)
        rng = np.random.default_rng(seed)
        check_same(simulator, game, 0)
        for i in range(N_DECISIONS):
            action = int(rng.choice(np.flatnonzero(simulator.masks[0])))
            simulator.step(np.array([action]))
            play_decision(game, action)
            check_same(simulator, game, i + 1)
            is_over = bool(simulator.duels[0]["over"])
            assert is_over == (game.stage != "fighting")
            if is_over:
                assert bool(simulator.duels[0]["won"]) == (game.stage == "won")
                ends.add(game.stage)
                break
    assert "lost" in ends


def test_the_next_fight_is_the_simulators_next():
    boss = load_boss("judge", list(load_knight().knock_backs))
    simulator, game = same_fight(boss, "1", 4, random_pose=True)
    game.restart()
    while game.stage == "loading":
        game.tick(())
    simulator.reset(np.ones(1, np.bool_))
    check_same(simulator, game, 0)
