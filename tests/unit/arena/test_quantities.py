"""Quantities of a fight: each can be read, and changes of the writable ones last."""

import math

import numpy as np
import pytest

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.quantities import QUANTITIES
from soulslab.errors import InvalidValueError

WRITABLE = {
    "player.hp": 100.0,
    "player.sp": 12.5,
    "player.position": np.array([140.0, 590.0, -68.8]),
    "player.angle": 1.25,
    "boss.hp": 900.0,
    "boss.position": np.array([145.0, 588.0, -68.8]),
    "boss.angle": -2.5,
    "camera.direction": np.array([0.0, math.cos(0.3), -math.sin(0.3)]),
    "lock_on": False,
    "game.speed": 0.5,
    "fight.next_seed": 17,
    "player.no_death": True,
    "player.no_gravity": True,
    "boss.no_attack": True,
}


@pytest.fixture
def game():
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(seed=5))
    for _ in range(40):
        game.tick(("forward",))
    return game


@pytest.mark.parametrize("name", QUANTITIES)
def test_each_quantity_has_the_type_of_its_kind(game, name):
    value = QUANTITIES[name].get(game)
    match QUANTITIES[name].kind:
        case "vector":
            assert value.shape == (3,)
            assert np.isfinite(value).all()
        case "flag":
            assert isinstance(value, bool)
        case "animation":
            assert isinstance(value, str)
            assert value
        case "number":
            assert math.isfinite(value)


@pytest.mark.parametrize("name", WRITABLE)
def test_a_changed_quantity_is_read_back(game, name):
    put = QUANTITIES[name].put
    assert put is not None
    put(game, WRITABLE[name])
    assert QUANTITIES[name].get(game) == pytest.approx(WRITABLE[name])


def test_all_that_can_be_put_is_tried_above():
    assert {name for name, quantity in QUANTITIES.items() if quantity.put is not None} == set(WRITABLE)


@pytest.mark.parametrize(("name", "limit"), [("player.hp", "player.max_hp"), ("boss.hp", "boss.max_hp")])
def test_health_stays_between_nothing_and_all(game, name, limit):
    put = QUANTITIES[name].put
    assert put is not None
    put(game, 1e6)
    assert QUANTITIES[name].get(game) == QUANTITIES[limit].get(game)
    put(game, -5.0)
    assert QUANTITIES[name].get(game) == 0.0


@pytest.mark.parametrize("speed", [-1.0, math.nan, math.inf])
def test_a_speed_that_is_none_is_refused(game, speed):
    put = QUANTITIES["game.speed"].put
    assert put is not None
    with pytest.raises(InvalidValueError, match=r"game\.speed"):
        put(game, speed)
    assert game.speed == 1.0


def test_a_boss_in_a_move_without_a_name_is_named_by_the_move(game):
    moves = [move.id for move in game.boss.moves]
    game.duel.b_move, game.duel.b_anim = moves.index("transformation"), -1
    assert QUANTITIES["boss.animation"].get(game) == "Attack1500"


def test_putting_the_player_back_on_the_ground_ends_its_fall(game):
    game.duel.p_falling, game.duel.p_z = 1, game.fight.floor - 12.0
    put = QUANTITIES["player.position"].put
    assert put is not None
    put(game, WRITABLE["player.position"])
    assert game.duel.p_falling == 0
