"""A fight tick by tick: buttons, the button buffer, and the stages before and after a fight."""

import numpy as np
import pytest

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import (
    BUFFER_TICKS,
    END_TICKS,
    LOADING_TICKS,
    LiveFight,
    LiveFightOptions,
    buttons_of,
    is_press_action,
)
from soulslab.arena.records import ROAMING
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, HEAVY_ATTACK, LIGHT_ATTACK, N_ACTIONS, NOTHING, PARRY

FORWARD, RIGHT, BACKWARD = 0, 2, 4


@pytest.fixture(scope="module")
def judge():
    return load_boss("judge", list(load_knight().knock_backs))


@pytest.fixture
def game(judge):
    return LiveFight(judge, LiveFightOptions(seed=3))


def actions(game, held=(), pressed=(), n_ticks=1):
    """Play ticks with the same buttons, pressed in the first tick; return the actions."""
    done = []
    for i in range(n_ticks):
        game.tick(held, pressed if i == 0 else ())
        done.append((game.action, game.is_press))
    return done


@pytest.mark.parametrize("action", range(N_ACTIONS))
def test_the_buttons_of_an_action_do_it(game, action):
    buttons = buttons_of(action)
    pressed = buttons if is_press_action(action) else ()
    assert actions(game, buttons, pressed) == [(action, is_press_action(action))]


def test_opposite_directions_cancel_each_other(game):
    assert actions(game, ("forward", "backward")) == [(NOTHING, False)]
    assert actions(game, ("forward", "backward", "right")) == [(RIGHT, False)]


def test_a_roll_without_a_direction_goes_back(game):
    assert actions(game, ("roll",), ("roll",)) == [(FIRST_ROLL + BACKWARD, True)]


def test_a_button_that_stays_down_acts_once(game):
    done = actions(game, ("light_attack",), ("light_attack",), 10)
    assert done == [(LIGHT_ATTACK, True), *[(NOTHING, False)] * 9]


def test_a_button_pressed_too_early_waits_until_it_can_act(game):
    actions(game, (), ("parry",))
    lock = int(game.fight.animations[game.duel.p_anim].attack_lock)
    actions(game, (), (), lock - 10)
    done = actions(game, (), ("heavy_attack",), 12)
    assert [action for action, _ in done].count(HEAVY_ATTACK) == 1
    assert done[0] == (NOTHING, False)


def test_a_button_pressed_far_too_early_is_forgotten(game):
    actions(game, (), ("parry",))
    done = actions(game, (), ("light_attack",), BUFFER_TICKS + 80)
    assert LIGHT_ATTACK not in [action for action, _ in done]


def test_the_last_of_two_buttons_counts(game):
    actions(game, (), ("heavy_attack",))
    actions(game, (), ("light_attack",))
    done = actions(game, (), ("parry",), 200)
    assert LIGHT_ATTACK not in [action for action, _ in done]


def test_the_same_seed_and_buttons_give_the_same_fight(judge):
    def play(seed):
        game = LiveFight(judge, LiveFightOptions(seed=seed, random_pose=True))
        rng = np.random.default_rng(7)
        for _ in range(300):
            buttons = buttons_of(int(rng.integers(N_ACTIONS)))
            game.tick(buttons, buttons if rng.random() < 0.2 else ())
        return bytes(game.duel.tobytes())

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_a_lost_fight_is_shown_then_the_next_one_loads(game):
    game.duel.p_hp = 0.0
    game.tick(())
    assert game.stage == "lost"
    ticks = game.duel.tick
    actions(game, ("forward",), (), END_TICKS)
    assert game.stage == "loading"
    assert game.duel.tick == ticks, "nothing moves once the fight is over"
    actions(game, (), (), LOADING_TICKS)
    assert (game.stage, game.n_fights, int(game.duel.tick)) == ("fighting", 2, 0)
    assert game.duel.p_hp == game.fight.p_max_hp


def test_a_boss_without_health_is_a_won_fight(game):
    game.duel.b_hp = 0.0
    game.tick(())
    assert game.stage == "won"


def test_restart_leaves_a_fight_at_once(game):
    actions(game, ("forward",), (), 30)
    game.restart()
    assert game.stage == "loading"
    actions(game, (), (), LOADING_TICKS)
    assert (game.stage, game.n_fights) == ("fighting", 2)


def test_a_seed_for_the_next_fight_gives_the_fight_of_that_seed(judge, game):
    game.next_seed = 11
    game.restart()
    actions(game, (), (), LOADING_TICKS)
    other = LiveFight(judge, LiveFightOptions(seed=11))
    assert game.duel.tobytes() == other.duel.tobytes()
    assert (game.seed, game.next_seed) == (11, None)


def test_without_a_seed_the_next_fight_continues_the_generator(game):
    first = int(game.duel.rng)
    game.restart()
    actions(game, (), (), LOADING_TICKS)
    assert game.seed is None
    assert int(game.duel.rng) != first


def test_no_death_keeps_the_player_alive(game):
    game.no_death = True
    game.duel.p_hp = 0.0
    game.tick(())
    assert (game.stage, float(game.duel.p_hp)) == ("fighting", 1.0)


def test_no_attack_keeps_the_boss_from_beginning_one(game):
    game.no_attack = True
    for _ in range(900):
        game.tick(("forward",))
        assert game.duel.b_mode == ROAMING


def test_a_player_in_the_air_can_be_put_back(game):
    d = game.duel
    d.p_falling, d.p_z, d.p_fall_speed = 1, game.fight.floor - 20.0, 0.3
    game.stand_up()
    assert d.p_falling == 1, "it is put back first"
    d.p_z = game.fight.floor
    game.stand_up()
    game.tick(())
    assert (int(d.p_falling), float(d.p_z)) == (0, float(game.fight.floor))


def test_no_gravity_holds_a_falling_player(game):
    d = game.duel
    game.no_gravity = True
    d.p_falling, d.p_x = 1, game.fight.centre_x + 26.0
    before = float(d.p_z)
    actions(game, (), (), 60)
    assert before - float(d.p_z) < 0.2


def test_every_press_is_an_action_that_acts_when_it_goes_down():
    assert [a for a in range(N_ACTIONS) if is_press_action(a)] == [*range(FIRST_ROLL, PARRY + 1)]
    assert buttons_of(FORWARD) == ACTIONS[0]
