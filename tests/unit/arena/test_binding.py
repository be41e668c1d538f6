"""The ``[duel]`` table of a profile: conversion in both directions, and errors."""

import numpy as np
import pytest

from soulslab.arena.binding import Binding
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.quantities import QUANTITIES
from soulslab.errors import ProfileError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import Attribute, load_profile


def attribute(kind, length=1, scale=1.0):
    bounds = None if kind in ("bool", "flag", "utf16", "utf8", "bytes") else (-1e6, 1e6)
    return Attribute(base="b", offsets=(0,), type=kind, length=length, scale=scale, range=bounds, source="test")


STORED = {
    "hp": attribute("i32"),
    "sp": attribute("f32"),
    "where": attribute("f32", 3),
    "name": attribute("utf16", 40),
    "number": attribute("i32"),
    "bit": attribute("flag"),
    "byte": attribute("u8"),
    "pair": attribute("f32", 2),
    "share": attribute("u16", scale=0.01),
}


@pytest.fixture
def game():
    return LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions())


def bind(attributes, **fields):
    return Binding({"attributes": attributes, **fields}, STORED)


def test_the_arena_knows_all_there_is_of_its_fight(game):
    profile = load_profile(PROFILE_PATH)
    binding = Binding(profile.duel, profile.attributes)
    # Only other games need these: names that linger, and a map that is cut into blocks.
    of_others = {"boss.attack_id", "boss.next_attack_id", "player.block_position"}
    assert set(QUANTITIES) - of_others <= set(binding.attributes)
    assert set(binding.values(game)) == set(binding.attributes.values())


@pytest.mark.parametrize("axes", ["xyz", "xzy", "yxz", "yzx", "zxy", "zyx"])
def test_positions_are_stored_in_the_order_of_the_axes(game, axes):
    binding = bind({"player.position": "where"}, axes=axes)
    game.duel.p_x, game.duel.p_y, game.duel.p_z = 1.0, 2.0, 3.0
    stored = binding.values(game)["where"]
    assert dict(zip(axes, stored, strict=True)) == {"x": 1.0, "y": 2.0, "z": 3.0}
    assert binding.decode("player.position", stored).tolist() == [1.0, 2.0, 3.0]


def test_remaining_health_is_never_rounded_to_0(game):
    binding = bind({"player.hp": "hp"})
    game.duel.p_hp = 0.2
    assert binding.values(game) == {"hp": 1}


def test_a_stored_share_stays_a_share(game):
    game.duel.p_sp = 12.25
    assert bind({"player.sp": "share"}).values(game) == {"share": 12.25}


def test_animations_are_stored_by_name_or_by_number(game):
    numbers = {"Idle": 10, "Move": 20}
    assert bind({"player.animation": "name"}).values(game) == {"name": "Idle"}
    binding = bind({"player.animation": "number"}, player_animations=numbers)
    assert binding.values(game) == {"number": 10}
    assert binding.decode("player.animation", 20) == "Move"
    assert binding.decode("player.animation", 99) == "#99"


def test_an_animation_without_a_number_is_stored_as_unknown(game):
    binding = bind({"player.animation": "number"}, player_animations={"Move": 20})
    assert binding.values(game) == {"number": -1}


@pytest.mark.parametrize(("name", "stored"), [("bit", True), ("byte", 1)])
def test_flags_are_stored_as_bits_or_numbers(game, name, stored):
    binding = bind({"lock_on": name})
    assert binding.values(game) == {name: stored}
    binding.apply(game, {name: 0})
    assert game.duel.lock_on == 0


def test_written_values_are_applied_to_the_fight(game):
    binding = bind({"player.hp": "hp", "boss.position": "where", "player.animation": "name"}, axes="xzy")
    binding.apply(game, {"hp": 50, "where": np.array([140.0, -60.0, 600.0]), "name": "Move", "sp": 3.0})
    assert (game.duel.p_hp, game.duel.b_x, game.duel.b_y) == (50.0, 140.0, 600.0)
    assert bind({"player.animation": "name"}).values(game) == {"name": "Idle"}


@pytest.mark.parametrize(
    ("table", "place", "problem"),
    [
        (None, "duel", "is missing"),
        ({}, "duel.attributes", "missing"),
        ({"attributes": {}, "axis": "xyz"}, "duel.axis", "unknown"),
        ({"attributes": {}, "axes": "xyy"}, "duel.axes", "in some order"),
        ({"attributes": {"player.hq": "hp"}}, 'duel.attributes."player.hq"', "did you mean 'player.hp'"),
        ({"attributes": {"player.hp": "hq"}}, 'duel.attributes."player.hp"', "known: bit, byte, hp"),
        ({"attributes": {"player.hp": "name"}}, 'duel.attributes."player.hp"', "must be a number"),
        ({"attributes": {"player.position": "pair"}}, 'duel.attributes."player.position"', "vector of 3"),
        ({"attributes": {"lock_on": "name"}}, "duel.attributes.lock_on", "must be a bool"),
        ({"attributes": {"player.animation": "where"}}, 'duel.attributes."player.animation"', "a text or a number"),
        (
            {"attributes": {"player.hp": "hp", "boss.hp": "hp"}},
            'duel.attributes."boss.hp"',
            "already bound to player.hp",
        ),
        ({"attributes": {"player.animation": "number"}}, "duel.player_animations", "holds a number"),
        (
            {"attributes": {"player.animation": "number"}, "player_animations": {"Idle": 1, "Move": 1}},
            "duel.player_animations.Move",
            "is already the number of 'Idle'",
        ),
    ],
)
def test_every_mistake_is_reported_with_its_place(table, place, problem):
    with pytest.raises(ProfileError, match=problem) as caught:
        Binding(table, STORED, "game.toml")
    assert caught.value.path == place
    assert "game.toml" in str(caught.value)
