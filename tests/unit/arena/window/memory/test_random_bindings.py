"""Random profiles whose attributes hold a fight: the bridge reads its values, and writes are applied to it."""

import os

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from soulslab.arena.binding import Binding
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.window.memory.profile_memory import ProfileMemory
from soulslab.errors import LayoutError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile.validation import find_mistakes
from support.long_form import examples
from support.random_profiles import profiles

FLAGS = ("player.no_death", "player.no_gravity", "boss.no_attack", "lock_on")
NUMBERS = ("player.hp", "boss.hp", "player.sp", "game.speed")
VECTORS = ("player.position", "boss.position")
TEXTS = ("player.animation", "boss.animation")
#: Fits into every type, and into most of the ranges; times 0.5 it is stored exactly.
BEFORE, AFTER = 16.0, 24.0


def quantities_for(attribute):
    """Return the quantities that an attribute can hold."""
    if attribute.type in ("bool", "flag"):
        return FLAGS
    if attribute.type in ("utf8", "utf16"):
        return TEXTS if attribute.length >= 40 else ()
    if attribute.type == "bytes" or not attribute.range[0] <= BEFORE <= AFTER <= attribute.range[1]:
        return ()
    return VECTORS if attribute.length == 3 else NUMBERS


def bind(profile):
    """Bind each attribute to a quantity that it can hold, each quantity once."""
    bound = {}
    for name, attribute in profile.attributes.items():
        free = [quantity for quantity in quantities_for(attribute) if quantity not in bound]
        if free:
            bound[free[0]] = name
    return msgspec.structs.replace(profile, duel={"axes": "yzx", "attributes": bound})


def set_all(game, value, flag):
    """Give all quantities one value."""
    for quantity in (*NUMBERS, *FLAGS):
        QUANTITIES[quantity].put(game, flag if quantity in FLAGS else value)
    for quantity in VECTORS:
        QUANTITIES[quantity].put(game, np.array([value, value, value]))
    game.fight.floor = value


@pytest.fixture(scope="module")
def game():
    """Return a game whose values fit into the smallest types."""
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions())
    f = game.fight
    f.p_max_hp = f.b_max_hp = f.p_max_sp = 60.0
    f.centre_x, f.centre_y, f.radius, f.death_z, f.floor = 30.0, 30.0, 20.0, 0.0, BEFORE
    return game


@given(profile=profiles())
@settings(max_examples=examples(20, in_long_form=2400), suppress_health_check=list(HealthCheck))
def test_a_fight_is_kept_by_any_profile(game, profile):
    profile = bind(profile)
    assume(profile.duel["attributes"] and not list(find_mistakes(profile)))
    binding = Binding(profile.duel, profile.attributes)
    try:
        memory = ProfileMemory(profile, binding, game)
    except LayoutError:
        assume(False)
    process = LinuxMemory(os.getpid())
    try:
        set_all(game, BEFORE, flag=True)
        memory.publish(game)
        image = read_image(process, profile.process.executable)
        table = AttributeTable(profile, process, resolve_addresses(profile, process, image))
        found = table.read_many()
        for quantity, name in binding.attributes.items():
            wanted = QUANTITIES[quantity].get(game)
            np.testing.assert_array_equal(binding.decode(quantity, found[name]), wanted, err_msg=quantity)
        written = {
            quantity: not wanted if isinstance(wanted, bool) else wanted * 0 + AFTER
            for quantity in binding.attributes
            if not isinstance(wanted := QUANTITIES[quantity].get(game), str)
        }
        table.write({binding.attributes[name]: binding.encode(name, value) for name, value in written.items()})
        memory.apply_writes(game)
        for quantity, value in written.items():
            axes = 2 if quantity == "boss.position" else None  # its height is the ground's
            np.testing.assert_array_equal(
                np.atleast_1d(QUANTITIES[quantity].get(game))[:axes], np.atleast_1d(value)[:axes], err_msg=quantity
            )
    finally:
        process.close()
        memory.close()
