"""A fight in the memory of this process, read and written through the bridge."""

import os

import msgspec
import numpy as np
import pytest

from soulslab.arena.binding import Binding
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.quantities import QUANTITIES
from soulslab.arena.window.memory.profile_memory import FREED_BYTE, ProfileMemory
from soulslab.arena.window.memory.resolved_profile import VariantChoice
from soulslab.arena.window.plain_records import FightView
from soulslab.errors import EntityNotFoundError, LayoutError, PointerError, UndecidedAttributeError
from soulslab.games import dark_souls_3, elden_ring
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import Attribute, Base, Process, Profile, load_profile
from soulslab.siphon.profile.facts import variants_of

PROFILES = {
    "arena": PROFILE_PATH,
    "dark_souls_3": dark_souls_3.PROFILE_PATH,
    "elden_ring": elden_ring.PROFILE_PATH,
}
BASE = Base(pattern="48 8B 05 ?? ?? ?? ?? C3", displacement_at=3, instruction_end=7, is_pointer=True, source="test")
#: Where the world has its player, besides the first of its set of players.
MAIN_PLAYER = 0x1E508


class Played:
    """A fight in memory, and a table that reads it through the bridge."""

    def __init__(self, profile, truth=None):
        self.profile = profile
        self.binding = Binding(profile.duel, profile.attributes)
        self.game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(seed=3))
        self.memory = ProfileMemory(profile, self.binding, self.game, truth)
        self.process = LinuxMemory(os.getpid())

    def attach(self):
        """Publish the fight, and attach to it as the bridge does."""
        profile = self.profile
        self.memory.publish(self.game)
        image = read_image(self.process, profile.process.executable)
        self.table = AttributeTable(profile, self.process, resolve_addresses(profile, self.process, image))

    def turn(self, n_ticks=0, held=()):
        """Run the game's loop once."""
        self.memory.apply_writes(self.game)
        for _ in range(n_ticks):
            self.game.tick(held)
        self.memory.publish(self.game)

    def reach(self, stage):
        while self.game.stage != stage:
            self.turn(1)

    def close(self):
        self.process.close()
        self.memory.close()


@pytest.fixture
def play():
    """Return a function that starts a game with a profile."""
    started = []

    def start(profile, truth=None):
        played = Played(load_profile(PROFILES[profile]) if isinstance(profile, str) else profile, truth)
        started.append(played)
        played.attach()
        return played

    yield start
    for played in started:
        played.close()


def one(stored, quantity="player.hp", bounds=(0, 10000), **fields):
    """Return a profile with one attribute that holds a quantity."""
    attribute = Attribute(base="world", offsets=(8, 0x20), type=stored, range=bounds, source="test", **fields)
    tables = {f"{who}_animations": {"Idle": 5} for who in ("player", "boss")}
    return Profile(
        name="one",
        process=Process(executable="one.exe"),
        bases={"world": BASE},
        attributes={"value": attribute},
        duel={"attributes": {quantity: "value"}, **tables},
    )


def check_same(played):
    """Check that all bound attributes have the values of the fight."""
    found = played.table.read_many()
    for quantity, name in played.binding.attributes.items():
        wanted = QUANTITIES[quantity].get(played.game)
        value = played.binding.decode(quantity, found[name])
        if isinstance(wanted, str | bytes):
            assert value == wanted, quantity
        else:
            # Half a number where whole ones are stored, and what 32 bits keep of one.
            tolerance = 1.0 if played.profile.attributes[name].type == "i32" else 1e-3
            np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=tolerance, err_msg=quantity)


@pytest.mark.parametrize("game", PROFILES)
def test_all_of_a_fight_is_read_in_each_of_its_ticks(game, play):
    played = play(game)
    check_same(played)
    for turn in range(40):
        played.turn(7, ("forward", "roll") if turn % 3 else ("left",))
        if played.game.stage != "loading":
            check_same(played)


WRITTEN = {
    "player.hp": 123.0,
    "player.sp": 45.0,
    "player.position": np.array([140.0, 590.0, -68.0]),
    "player.angle": 1.25,
    "boss.hp": 600.0,
    "boss.position": np.array([139.0, 596.0, -68.8]),
    "boss.angle": -0.5,
    "camera.direction": np.array([0.6, 0.8, 0.0]),
    "lock_on": False,
    "game.speed": 2.5,
    "player.no_death": True,
    "player.no_gravity": True,
    "boss.no_attack": True,
    "fight.next_seed": 77,
}


@pytest.mark.parametrize("game", PROFILES)
def test_writes_are_applied_to_the_fight(game, play):
    played = play(game)
    written = {name: value for name, value in WRITTEN.items() if played.binding.has(name)}
    stored = {played.binding.attributes[name]: played.binding.encode(name, value) for name, value in written.items()}
    played.table.write(stored)
    played.turn()
    for name, value in written.items():
        if name != "camera.direction":
            np.testing.assert_allclose(QUANTITIES[name].get(played.game), value, rtol=1e-5, err_msg=name)
    assert (played.game.duel.c_fx, played.game.duel.c_fy) == pytest.approx((0.6, 0.8))
    check_same(played)


def test_writes_to_computed_quantities_are_reverted(play):
    profile = load_profile(PROFILE_PATH)
    attributes = {name: msgspec.structs.replace(one, is_writable=True) for name, one in profile.attributes.items()}
    played = play(msgspec.structs.replace(profile, attributes=attributes))
    played.table.write(
        {"phase": 2, "player.max_hp": 9, "player.animation": "Dance", "camera.position": [0.0, 0.0, 0.0]}
    )
    played.turn()
    check_same(played)


def test_an_invalid_write_is_reverted_and_logged(play, caplog):
    played = play("arena")
    address = played.table.address_of("game.speed")
    played.process.write(address, np.float32("nan").tobytes())
    played.turn()
    assert "game.speed" in caplog.text
    assert played.table.read("game.speed") == played.game.speed == 1.0


@pytest.mark.parametrize("game", PROFILES)
def test_while_the_game_loads_the_fighters_are_nowhere(game, play):
    played = play(game)
    played.game.restart()
    played.turn()
    assert played.game.stage == "loading"
    for quantity in ("player.hp", "boss.hp", "boss.position"):
        with pytest.raises((PointerError, EntityNotFoundError, UndecidedAttributeError)):
            played.table.read(quantity)
    assert played.table.read("game.speed") == 1.0


def test_a_fight_is_found_by_other_facts_if_those_are_true(play):
    """The player of Elden Ring is a field of another object, whose pointer is undefined while the game loads."""
    profile = load_profile(elden_ring.PROFILE_PATH)
    all_ways = {name: variants_of(one) for name, one in profile.attributes.items()}
    other = {name: i for name, ways in all_ways.items() for i, way in enumerate(ways) if way.offsets[0] == MAIN_PLAYER}
    played = play(profile, VariantChoice(variants=other))
    played.game.restart()
    played.turn()
    for use in (lambda: played.table.read("player.hp"), lambda: played.table.write({"player.hp": 5})):
        with pytest.raises(UndecidedAttributeError):
            use()
    assert played.table.sources["player.hp"] == ""
    played.reach("fighting")
    played.turn(5)
    check_same(played)
    assert played.table.sources["player.hp"] == all_ways["player.hp"][other["player.hp"]].source
    played.table.write({"player.hp": 321})
    played.turn()
    assert played.table.read("player.hp") == 321
    check_same(played)
    played.game.restart()
    played.turn()
    with pytest.raises(PointerError):
        played.table.read("player.hp")


@pytest.mark.parametrize("game", PROFILES)
def test_each_fight_has_new_objects_and_spoils_the_old(game, play):
    played = play(game)
    names = ("player.hp", "boss.hp", "player.position")
    before = {name: played.table.address_of(name) for name in names}
    played.game.restart()
    played.reach("fighting")
    for name, address in before.items():
        assert played.table.address_of(name) != address
        assert played.process.read(address, 4) == bytes([FREED_BYTE] * 4)
    check_same(played)
    played.game.restart()
    played.reach("fighting")
    assert {name: played.table.address_of(name) for name in names} == before
    check_same(played)


def test_a_fight_that_began_unseen_is_noticed(play):
    played = play("arena")
    before = played.table.address_of("player.hp")
    played.game.begin()
    played.memory.publish(played.game)
    assert played.table.address_of("player.hp") != before
    check_same(played)


def test_writes_while_a_fight_begins_are_not_lost(play):
    played = play("arena")
    played.memory.apply_writes(played.game)
    played.table.write({"fight.next_seed": 5, "player.hp": 7.0})
    played.game.begin()
    played.memory.publish(played.game)
    played.memory.apply_writes(played.game)
    assert played.game.next_seed == 5
    assert played.game.duel.p_hp > 7.0  # that was the fight before


def test_flags_keep_the_bits_of_others(play):
    played = play("arena")
    address = played.table.address_of("player.no_death")
    played.process.write(address, b"\xa4")
    played.turn(1)
    played.game.no_death = True
    played.turn(1)
    assert played.process.read(address, 1) == b"\xa5"
    assert played.game.no_death


def test_an_unbound_attribute_keeps_a_written_value(play):
    played = play("dark_souls_3")
    assert played.table.read("vordt.attack_id") == 0
    address = played.table.address_of("vordt.attack_id")
    played.process.write(address, (3004).to_bytes(4, "little"))
    played.turn(30)
    assert played.table.read("vordt.attack_id") == 3004


@pytest.mark.parametrize(
    ("stored", "fields", "wanted"),
    [
        ("i16", {}, 300),
        ("u64", {}, 300),
        ("f64", {}, 299.25),
        ("u16", {"scale": 0.5, "bounds": (0, 1000)}, 299.5),
        ("i32", {"scale": 1 / 65536, "bounds": (0, 1000)}, 299.25),
        ("f32", {"scale": 100.0}, 299.25),
    ],
)
def test_a_number_is_stored_as_the_attribute_says(play, stored, fields, wanted):
    played = play(one(stored, **fields))
    played.game.duel.p_hp = 299.25
    played.turn()
    assert played.table.read("value") == pytest.approx(wanted)
    played.table.write({"value": 120 if fields == {} and stored != "f64" else 120.0})
    played.turn()
    assert played.game.duel.p_hp == pytest.approx(120.0)


@pytest.mark.parametrize(
    ("stored", "quantity", "fields", "problem"),
    [
        ("i8", "boss.hp", {}, "a i8 cannot hold 1037.0, a possible value of boss.hp; use a wider type"),
        ("u8", "player.sp", {"scale": 0.01}, "cannot hold .*, stored as .*, a possible value of player.sp"),
        ("i8", "boss.position", {"length": 3}, r"cannot hold \[.*\], stored as .*, a possible value of boss.position"),
        ("u8", "camera.direction", {"length": 3}, "a possible value of camera.direction"),
        ("u8", "boss.animation", {}, "cannot hold 'Attack3000', stored as -1, a possible value of boss.animation"),
        ("u16", "fight.tick", {}, "a possible value of fight.tick"),
        ("i32", "fight.digest", {}, "cannot hold 4294967295, a possible value of fight.digest"),
        ("utf16", "player.animation", {"length": 38}, "has 38 bytes, but 'RollingMediumSelftra', .* needs 40"),
        ("utf16", "boss.animation", {"length": 36}, "has 36 bytes, but 'TurnBattle_Right180', .* needs 38"),
    ],
)
def test_a_too_small_attribute_is_reported_before_anything_is_mapped(stored, quantity, fields, problem):
    profile = one(stored, quantity, bounds=None if stored == "utf16" else (0, 100), **fields)
    binding = Binding(profile.duel, profile.attributes)
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions())
    with pytest.raises(LayoutError, match=problem) as error:
        ProfileMemory(profile, binding, game)
    assert error.value.place.startswith("attributes.value")
    assert error.value.other == f'duel.attributes."{quantity}"'


@pytest.mark.parametrize("stored", ["utf8", "i32"])
def test_animations_are_names_or_numbers(play, stored):
    fields = {"bounds": None, "length": 40} if stored == "utf8" else {"bounds": (-1, 100)}
    played = play(one(stored, "player.animation", **fields))
    assert played.table.read("value") == ("Idle" if stored == "utf8" else 5)


def test_the_program_bears_its_name_and_leaves_no_file(play, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    played = play("elden_ring")
    assert list(tmp_path.iterdir()) == []
    image = read_image(played.process, "eldenring.exe")
    assert image.path.endswith("/eldenring.exe")
    assert image.version == "2.6.2.0"
    code = next(region for region in played.process.regions() if region.start == image.base + 0x1000)
    assert (code.is_executable or code.is_readable) and not code.is_writable


def test_a_view_of_a_fight_equals_the_fight():
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(seed=5))
    view = FightView(game)
    for _ in range(100):
        game.tick(("forward",))
        view.refresh()
        for name, quantity in QUANTITIES.items():
            np.testing.assert_array_equal(quantity.get(view), quantity.get(game), err_msg=name)
