"""Attributes in byte arrays; `tests/integration/siphon/test_attributes.py` uses a real process."""

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.errors import (
    EntityNotFoundError,
    ImplausibleValueError,
    InvalidValueError,
    PatternError,
    PointerError,
    ProcessExitedError,
    ProfileError,
    ReadOnlyError,
    UnknownAttributeError,
)
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import MAX_PLANS, AttributeTable
from soulslab.siphon.attributes.read_plan import N_ATTEMPTS, N_READS_TO_PACK
from soulslab.siphon.profile import Attribute, Base, Entity, Process, Profile
from soulslab.testing.fake_memory import FakeMemory
from support.layouts import BadChainError, Layout
from support.long_form import examples

A, B, C, D = 0x10000, 0x11000, 0x12000, 0x13000
LIST = 0x20000


def profile_of(**attributes: Attribute) -> Profile:
    return Profile(
        name="made up",
        process=Process(executable="x"),
        bases={"place": Base(offset=0, source="x"), "cell": Base(offset=0, is_pointer=True, source="x")},
        entities={
            "boss": Entity(base="place", begin=(0x30,), end=(0x38,), id_offsets=(0x8, 0x0), id=7, source="x"),
            "wide": Entity(
                base="place", begin=(0x40,), end=(0x48,), stride=12, id_offsets=(0x0,), id_type="i16", id=-2, source="x"
            ),
        },
        attributes=attributes,
    )


def fact(offsets: tuple[int, ...] = (0x0, 0x8, 0x10), kind: str = "i32", **facts: object) -> Attribute:
    facts.setdefault("base", "" if "entity" in facts else "place")
    if kind in ("i32", "f32", "u32"):
        facts.setdefault("range", (0, 1000))
    return Attribute(offsets=offsets, type=kind, source="x", **facts)


class Game:
    """A: pointer to B at 0; B: pointer to C at 8; C: 100 at 0x10."""

    def __init__(self, **attributes: Attribute) -> None:
        self.memory = FakeMemory(3)
        for page in (A, B, C, D, LIST):
            self.memory.map(page, bytearray(0x1000))
        self.point(A, B)
        self.point(B + 8, C)
        self.put(C + 0x10, 100)
        self.put(D + 0x10, 200)
        self.profile = profile_of(**attributes or {"hp": fact()})
        self.table = AttributeTable(self.profile, self.memory, ResolvedAddresses(bases={"place": A, "cell": A}))

    def point(self, at: int, to: int) -> None:
        self.memory.write(at, struct.pack("<Q", to % 2**64))

    def put(self, at: int, value: int) -> None:
        self.memory.write(at, struct.pack("<i", value))


def test_a_chain_is_followed_and_then_read_in_one_piece():
    game = Game()
    assert game.table.read("hp") == 100
    assert game.memory.n_reads == 3
    for _ in range(N_READS_TO_PACK + 2):
        before = game.memory.n_reads
        assert game.table.read_many() == {"hp": 100} == game.table.read_many(["hp"])
        assert game.memory.n_reads == before + 2


def test_a_base_that_is_a_pointer_is_followed_each_time():
    game = Game(hp=fact((0x8, 0x10), base="cell"), still=fact((0x0,), "i64", base="place", range=(0, 1e9)))
    assert game.table.read_many() == {"hp": 100, "still": B}
    game.point(A, C)
    game.point(C + 8, D)
    assert game.table.read_many() == {"hp": 200, "still": C}


def test_values_come_in_the_order_that_was_asked_for():
    game = Game(a=fact(), b=fact(kind="flag", bit=2), c=fact(kind="bytes", length=3), d=fact(scale=0.5))
    assert list(game.table.read_many()) == ["a", "b", "c", "d"]
    assert game.table.read_many(["d", "b", "d", "a"]) == {"d": 50.0, "b": True, "a": 100}
    assert list(game.table.read_many(("d", "c", "a"))) == ["d", "c", "a"]
    assert game.table.read_many([]) == {}


@pytest.mark.parametrize("n_before", [1, N_READS_TO_PACK + 2])
@pytest.mark.parametrize("level", [0, 1])
def test_a_pointer_that_moved_is_noticed(n_before: int, level: int):
    game = Game()
    for _ in range(n_before):
        assert game.table.read("hp") == 100
    game.point(D + 8, D)
    game.point((A, B + 8)[level], D)
    assert game.table.read("hp") == 200
    # The old object may go away altogether.
    game.memory.unmap(C)
    assert game.table.read("hp") == 200


@pytest.mark.parametrize("n_before", [0, 1, N_READS_TO_PACK + 2])
@pytest.mark.parametrize(
    ("pointer", "says"),
    [(0, "null"), (8, "not an address"), (2**63, "not an address"), (-8, "not an address"), (0x666000, "mapped")],
)
@pytest.mark.parametrize("level", [0, 1])
def test_a_chain_that_leads_nowhere_names_its_place(n_before: int, pointer: int, says: str, level: int):
    game = Game()
    for _ in range(n_before):
        game.table.read("hp")
    game.point((A, B + 8)[level], pointer)
    with pytest.raises(PointerError, match=says) as caught:
        game.table.read("hp")
    error = caught.value
    assert (error.attribute, error.pid) == ("hp", 3)
    if says == "mapped":
        assert (error.level, error.address) == (level + 1, pointer + (8, 0x10)[level])
    else:
        assert (error.level, error.address) == (level, (A, B + 8)[level])
    game.point((A, B + 8)[level], (B, C)[level])
    assert game.table.read("hp") == 100


def test_a_null_pointer_whose_offset_leads_into_memory_is_still_null():
    game = Game(hp=fact((0x0, C + 0x10)))
    game.point(A, 0)
    with pytest.raises(PointerError, match="null"):
        game.table.read("hp")


def test_the_attribute_with_the_broken_chain_is_named():
    game = Game(good=fact(), bad=fact((0x0, 0x10, 0x10)), worse=fact((0x18, 0x0)))
    with pytest.raises(PointerError) as caught:
        game.table.read_many(["good", "bad"])
    assert (caught.value.attribute, caught.value.level, caught.value.address) == ("bad", 1, B + 0x10)
    with pytest.raises(PointerError) as caught:
        game.table.read_many()
    assert (caught.value.attribute, caught.value.level) == ("worse", 0)
    assert game.table.read_many(["good"]) == {"good": 100}


def test_an_implausible_value_is_read_again():
    game = Game()
    assert game.table.read("hp") == 100
    game.put(C + 0x10, -1)
    before = game.memory.n_reads
    with pytest.raises(ImplausibleValueError) as caught:
        game.table.read("hp")
    assert game.memory.n_reads == before + 4
    error = caught.value
    assert (error.attribute, error.value, error.low, error.high) == ("hp", -1, 0, 1000)
    game.put(C + 0x10, 5)
    assert game.table.read("hp") == 5


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7F800000])
def test_nan_and_infinity_are_never_plausible(bits: int):
    for scale in (1.0, 0.5):
        game = Game(x=fact(kind="f32", scale=scale), y=fact(kind="f32", range=None))
        game.memory.write(C + 0x10, struct.pack("<I", bits))
        with pytest.raises(ImplausibleValueError):
            game.table.read("x")
        if bits != 0x7F800000:
            with pytest.raises(ImplausibleValueError):
                game.table.read("y")


def test_unknown_names_are_reported():
    game = Game(player_hp=fact())
    for use in (
        lambda: game.table.read("player.hp"),
        lambda: game.table.read_many(["player_hp", "player.hp"]),
        lambda: game.table.write({"player.hp": 5}),
        lambda: game.table.address_of("player.hp"),
    ):
        with pytest.raises(UnknownAttributeError, match="did you mean 'player_hp'"):
            use()


def test_a_base_without_address_is_reported():
    game = Game()
    with pytest.raises(PatternError, match="has no address") as caught:
        AttributeTable(game.profile, game.memory, ResolvedAddresses(bases={})).read("hp")
    assert caught.value.base == "place"


def test_after_the_end_of_the_process():
    game = Game()
    game.table.read("hp")
    game.memory.has_ended = True
    for use in (
        lambda: game.table.read("hp"),
        lambda: game.table.write({"hp": 5}),
        lambda: game.table.address_of("hp"),
    ):
        with pytest.raises(ProcessExitedError):
            use()


# --- writing --------------------------------------------------------------------------------------------------------


def test_writes_are_all_checked_before_the_first():
    game = Game(hp=fact(), mp=fact((0x0, 0x8, 0x14)), fixed=fact(is_writable=False), lost=fact((0x8, 0x0)))
    game.table.write({"hp": 7, "mp": 8})
    assert game.table.read_many(["hp", "mp"]) == {"hp": 7, "mp": 8}
    for bad, error in (
        ({"hp": 1, "mp": 1001}, InvalidValueError),
        ({"hp": 1, "mp": "2"}, InvalidValueError),
        ({"hp": 1, "fixed": 2}, ReadOnlyError),
        ({"hp": 1, "lost": 2}, PointerError),
        ({"hp": 1, "nothing": 2}, UnknownAttributeError),
    ):
        with pytest.raises(error):
            game.table.write(bad)
    assert game.table.read_many(["hp", "mp"]) == {"hp": 7, "mp": 8}
    game.table.write({})


def test_a_write_follows_the_current_pointers():
    game = Game()
    game.table.read("hp")
    game.point(B + 8, D)
    game.table.write({"hp": 9})
    assert game.memory.read(C + 0x10, 4) == struct.pack("<i", 100)
    assert game.memory.read(D + 0x10, 4) == struct.pack("<i", 9)
    assert game.table.address_of("hp") == D + 0x10


def test_flags_of_one_byte_leave_its_other_bits():
    game = Game(a=fact(kind="flag", bit=0), b=fact(kind="flag", bit=7))
    game.memory.write(C + 0x10, b"\x5a")
    game.table.write({"a": True, "b": True})
    assert game.memory.read(C + 0x10, 1) == b"\xdb"
    game.table.write({"a": False})
    assert game.memory.read(C + 0x10, 1) == b"\xda"


def test_an_implausible_value_can_be_overwritten():
    game = Game()
    game.put(C + 0x10, -5)
    game.table.write({"hp": 1})
    assert game.table.read("hp") == 1


# --- entities -------------------------------------------------------------------------------------------------------


def game_with_list(ids: list[int | None]) -> Game:
    """Entities are pages with a pointer, at 8, to their id, and 1000 + id, at 0x10; None is a null pointer."""
    game = Game(
        boss_hp=fact((0x10,), entity="boss", range=(0, 2000)), boss_mana=fact((0x8, 0x4), entity="boss"), hp=fact()
    )
    for i, number in enumerate(ids):
        add(game, i, number)
    game.point(A + 0x30, LIST)
    game.point(A + 0x38, LIST + 8 * len(ids))
    return game


def add(game: Game, place: int, number: int | None) -> int:
    one = 0x50000 + 0x2000 * place
    if number is not None:
        game.memory.map(one, bytearray(0x100))
        game.point(one + 8, one + 0x20)
        game.put(one + 0x20, number)
        game.put(one + 0x24, 10 * number)
        game.put(one + 0x10, 1000 + number)
    game.point(LIST + 8 * place, one if number is not None else 0)
    return one


def test_an_entity_is_found_by_its_id():
    game = game_with_list([3, None, 5, 7, 8])
    for _ in range(N_READS_TO_PACK + 2):
        before = game.memory.n_reads
        assert game.table.read_many() == {"boss_hp": 1007, "boss_mana": 70, "hp": 100}
    assert game.memory.n_reads == before + 1


def test_freed_objects_in_the_list_are_passed_over():
    game = game_with_list([3, 4, 5, 7, 8])
    game.memory.unmap(0x50000 + 0x2000)
    game.point(0x50000 + 8, 0x666000)
    game.point(LIST + 16, 2**60)
    assert game.table.read("boss_hp") == 1007


def test_an_entity_is_searched_again_when_something_moved():
    game = game_with_list([3, 7, 5])
    assert game.table.read("boss_hp") == 1007
    # Another one of that id, and the old one is given another.
    add(game, 3, 7)
    game.point(A + 0x38, LIST + 32)
    game.put(0x52000 + 0x20, 9)
    game.put(0x56000 + 0x10, 1500)
    assert game.table.read("boss_hp") == 1500
    # The list moves elsewhere.
    game.memory.write(LIST + 0x800, game.memory.read(LIST, 32))
    game.memory.write(LIST, bytes(32))
    game.point(A + 0x30, LIST + 0x800)
    game.point(A + 0x38, LIST + 0x820)
    assert game.table.read("boss_hp") == 1500


def test_no_entity_of_that_id():
    game = game_with_list([3, None, 5])
    with pytest.raises(EntityNotFoundError, match="none of 3 has id 7") as caught:
        game.table.read("boss_hp")
    assert (caught.value.entity, caught.value.n_entities) == ("boss", 3)
    add(game, 1, 7)
    assert game.table.read("boss_hp") == 1007
    game.point(A + 0x38, LIST)
    with pytest.raises(EntityNotFoundError, match="empty"):
        game.table.read("boss_hp")


@pytest.mark.parametrize(
    ("begin", "end"), [(LIST, LIST + 9), (LIST, LIST - 8), (0, 80), (2**63, 2**63 + 8), (LIST, LIST + 8 * 2**17)]
)
def test_an_invalid_list_is_reported(begin: int, end: int):
    game = game_with_list([7])
    game.point(A + 0x30, begin)
    game.point(A + 0x38, end)
    with pytest.raises(EntityNotFoundError, match="not those of a list"):
        game.table.read("boss_hp")


def test_an_unmapped_list_is_reported():
    game = game_with_list([7])
    game.point(A + 0x30, 0x666000)
    game.point(A + 0x38, 0x666010)
    with pytest.raises(PointerError, match="list") as caught:
        game.table.read("boss_hp")
    assert (caught.value.attribute, caught.value.address) == ("boss", 0x666000)


def test_lists_with_gaps_between_their_pointers():
    game = Game(wide_hp=fact((0x10,), entity="wide"))
    for i, (number, hp) in enumerate([(1, 11), (-2, 22)]):
        game.point(LIST + 12 * i, D + 0x100 * i)
        game.memory.write(D + 0x100 * i, struct.pack("<h", number))
        game.put(D + 0x100 * i + 0x10, hp)
    game.point(A + 0x40, LIST)
    game.point(A + 0x48, LIST + 24)
    assert game.table.read("wide_hp") == 22


def test_an_id_that_does_not_fit_its_type():
    game = Game()
    entity = Entity(base="place", begin=(0,), end=(8,), id_offsets=(0,), id_type="u8", id=256, source="x")
    profile = Profile(name="x", process=Process(executable="x"), entities={"e": entity})
    with pytest.raises(ProfileError, match="does not fit u8") as caught:
        AttributeTable(profile, game.memory, ResolvedAddresses(bases={}))
    assert caught.value.path == "entities.e.id"


# --- all of it ------------------------------------------------------------------------------------------------------


def test_a_value_that_changes_with_every_read_is_an_error():
    class Restless(FakeMemory):
        n = 0

        def _read(self, address: int, size: int) -> bytes:
            if address == A:
                self.n += 1
                return struct.pack("<Q", B if self.n % 2 else C)
            return super()._read(address, size)

    memory = Restless()
    for page in (A, B, C):
        memory.map(page, bytearray(0x1000))
    table = AttributeTable(profile_of(hp=fact((0x0, 0x10))), memory, ResolvedAddresses(bases={"place": A}))
    with pytest.raises(PointerError, match="changes while it is read") as caught:
        table.read("hp")
    assert (caught.value.attribute, caught.value.level, caught.value.address) == ("hp", 0, A)
    assert memory.n_reads == 2 * N_ATTEMPTS


def test_plans_do_not_pile_up():
    names = [f"a{i}" for i in range(MAX_PLANS + 20)]
    game = Game(**{name: fact() for name in names})
    for name in names:
        assert game.table.read(name) == 100
    assert len(game.table._queries) == MAX_PLANS
    game.table.forget()
    before = game.memory.n_reads
    game.table.read(names[-1])
    assert game.memory.n_reads == before + 3


@settings(max_examples=examples(100, in_long_form=12000))
@given(st.randoms(use_true_random=True))
def test_reads_equal_a_plain_walk_while_pointers_move(random: Random):
    layout = Layout(random)
    table = AttributeTable(layout.profile, layout.memory, ResolvedAddresses(bases=layout.bases))
    names = list(layout.profile.attributes)
    some = random.sample(names, random.randint(1, len(names)))
    for _ in range(12):
        for asked in (some, names, *([name] for name in some)):
            outcomes = {name: layout.outcomes(name) for name in asked}
            try:
                found = table.read_many(asked)
            except (PointerError, EntityNotFoundError):
                assert any(BadChainError in possible for possible in outcomes.values())
            else:
                assert list(found) == list(dict.fromkeys(asked))
                for name, value in found.items():
                    assert value in outcomes[name]
        if random.random() < 0.7:
            layout.mutate()
