"""Event flags, read from hand-made memory in the layouts of the two games."""

import struct

import msgspec
import numpy as np
import pytest

from soulslab.errors import ConfigError, EntityNotFoundError
from soulslab.games.dark_souls_3 import FlagTable
from soulslab.games.elden_ring import FlagTree
from soulslab.games.facts import load_event_flags
from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Base, Process, Profile
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_game import FakeGame, FakeOpener, fake_info
from soulslab.testing.fake_session import WINDOW_PX, Toy

PAGE = 0x1000
FLAGS, WORLD = 0x50_0000, 0x60_0000
BASES = {"event_flags": FLAGS, "field_area": WORLD}
PROFILE = Profile(
    name="flags",
    process=Process(executable="flags"),
    bases={name: Base(offset=0, is_pointer=True, source="made up") for name in BASES},
    attributes={},
)


class Heap:
    """Memory for tables."""

    def __init__(self, memory):
        self._memory = memory
        self._next = 0x100_0000
        for address in BASES.values():
            memory.map(address, bytearray(PAGE))

    def make(self, size):
        """Return the address of new zero bytes."""
        address = self._next
        self._memory.map(address, bytearray(-(-size // PAGE) * PAGE))
        self._next += (-(-size // PAGE) + 1) * PAGE
        return address

    def put(self, address, code, value):
        """Write a number."""
        self._memory.write(address, struct.pack(f"<{code}", value))

    def new(self, at, size):
        """Allocate bytes, write their address, and return it."""
        address = self.make(size)
        self.put(at, "Q", address)
        return address


class FlagSession(LocalSession):
    """A session with empty memory that a test fills."""

    def __init__(self):
        super().__init__(PROFILE, SessionOptions(), FakeOpener(self._start))

    def _start(self, profile, options):
        toy = Toy()
        self.heap = Heap(toy.memory)
        table = AttributeTable(profile, toy.memory, ResolvedAddresses(bases=BASES))
        return FakeGame(toy, table, options, fake_info(1, "/flags", WINDOW_PX, options))


@pytest.fixture
def session():
    with FlagSession() as one:
        yield one


def lay_table(heap, blocks):
    """Write the flag table of Dark Souls III for ``{(area, block): category}``; return the address of each category."""
    groups = heap.new(heap.new(FLAGS, 0x300) + 0x218, 10 * 0x18)
    owner = heap.new(heap.new(WORLD, 0x40) + 0x10, 0x40)
    areas = sorted({area for area, _ in blocks})
    heap.put(owner + 0x8, "i", len(areas))
    listed = heap.new(owner + 0x10, len(areas) * 0x38)
    for i, area in enumerate(areas):
        own = sorted(block for of, block in blocks if of == area)
        heap.put(listed + i * 0x38 + 0xB, "B", area)
        heap.put(listed + i * 0x38 + 0x20, "B", len(own))
        at = heap.new(listed + i * 0x38 + 0x28, len(own) * 0x70)
        for j, block in enumerate(own):
            heap.put(at + j * 0x70 + 0x8, "I", area << 24 | block << 16)
            heap.put(at + j * 0x70 + 0x20, "i", blocks[area, block] - 1)
    places = {}
    for group in range(10):
        entries = heap.new(groups + group * 0x18, 8 * 0xA8)
        for category in range(8):
            for thousand in range(10):
                words = heap.new(entries + thousand * 0x10 + category * 0xA8, 128)
                places[group, category, thousand] = words
    return places


def test_a_flag_of_dark_souls_3_is_in_the_category_of_its_block(session):
    places = lay_table(session.heap, {(30, 0): 2, (40, 0): 5, (40, 1): 6})
    flags = FlagTable(session, load_event_flags("dark_souls_3"))
    # 14000800: word 25, its highest bit, which is bit 7 of byte 103, as the profile has it of Iudex (0x5A67).
    iudex = places[1, 5, 0]
    assert not flags.is_defeated("Iudex Gundyr")
    session.heap.put(iudex + 103, "B", 0x80)
    assert flags.is_defeated("Iudex Gundyr")
    flags.set_defeated("Iudex Gundyr", is_defeated=False)
    assert session.read_number(flags.locate(14000800)) is False
    flags.set_defeated("Vordt of the Boreal Valley", is_defeated=True)
    word = struct.unpack("<I", session._game.attributes._memory.read(places[1, 2, 0] + 100, 4))[0]
    assert word == 1 << 31


def test_a_flag_without_a_block_is_in_the_first_category(session):
    places = lay_table(session.heap, {(40, 0): 5})
    flags = FlagTable(session, load_event_flags("dark_souls_3"))
    for number in (9_000_033, 19_000_033, 2_033):
        flags[number] = True
        group, thousand = number // 10_000_000 % 10, number // 1000 % 10
        data = session._game.attributes._memory.read(places[group, 0, thousand] + 4, 4)
        assert struct.unpack("<I", data) == (1 << 30,)


def test_flags_of_dark_souls_3_are_separate(session):
    lay_table(session.heap, {(40, block): block + 1 for block in range(3)})
    flags = FlagTable(session, load_event_flags("dark_souls_3"))
    numbers = np.random.default_rng(3).choice(30_000, 60, replace=False) + 14_000_000
    chosen = set(numbers[:30].tolist())
    for number in chosen:
        flags[number] = True
    assert {number for number in numbers.tolist() if flags[number]} == chosen


def test_a_block_that_is_not_loaded_is_an_error(session):
    lay_table(session.heap, {(40, 0): 5})
    flags = FlagTable(session, load_event_flags("dark_souls_3"))
    for number in (13000800, 14010800):
        with pytest.raises(EntityNotFoundError, match=f"event flag {number}.*block . of area .. is not loaded"):
            flags[number]
    with pytest.raises(ConfigError, match="did you mean 'Iudex Gundyr'"):
        flags.is_defeated("Iudex Gundir")


def lay_tree(heap, blocks, divisor=1000, size=125):
    """Write the flag tree of Elden Ring for ``{block: (kind, number)}``; return the address of all blocks."""
    manager = heap.new(FLAGS, 0x80)
    heap.put(manager + 0x1C, "i", divisor)
    heap.put(manager + 0x20, "i", size)
    in_one = heap.new(manager + 0x28, size * 40)
    head = heap.new(manager + 0x38, 0x40)
    heap.put(head + 0x19, "B", 1)
    others = {}

    def grow(at, keys):
        if not keys:
            heap.put(at, "Q", head)
            return
        middle = len(keys) // 2
        node = heap.new(at, 0x40)
        kind, number = blocks[keys[middle]]
        heap.put(node + 0x20, "I", keys[middle])
        heap.put(node + 0x28, "i", kind)
        if kind == 3:
            others[keys[middle]] = heap.new(node + 0x30, size)
        else:
            heap.put(node + 0x30, "i", number)
        grow(node, keys[:middle])
        grow(node + 0x10, keys[middle + 1 :])

    grow(head + 0x8, sorted(blocks))
    return in_one, others


def test_a_flag_of_elden_ring_is_found_in_the_tree(session):
    blocks = {10000 + n: ((1, n) if n % 3 else (3, 0)) for n in range(25)} | {71: (1, 30)}
    in_one, others = lay_tree(session.heap, blocks)
    flags = FlagTree(session, load_event_flags("elden_ring"))
    # 10000850: flag 850 of block 10000, bit 7 - 850 % 8 of byte 106.
    assert not flags.is_defeated("Margit, the Fell Omen")
    session.heap.put(others[10000] + 106, "B", 1 << 5)
    assert flags.is_defeated("Margit, the Fell Omen")
    flags.set_defeated("Margit, the Fell Omen", is_defeated=False)
    assert not flags[10000850]
    flags[71003] = True
    assert session._game.attributes._memory.read(in_one + 30 * 125, 1) == bytes([1 << 4])


def test_flags_of_elden_ring_are_separate(session):
    lay_tree(session.heap, {n: (1, n) for n in range(40)})
    flags = FlagTree(session, load_event_flags("elden_ring"))
    numbers = np.random.default_rng(4).choice(40_000, 60, replace=False)
    chosen = set(numbers[:30].tolist())
    for number in chosen:
        flags[number] = True
    assert {number for number in numbers.tolist() if flags[number]} == chosen


def test_a_flag_that_is_not_in_the_tree_is_an_error(session):
    lay_tree(session.heap, {5: (1, 0), 6: (2, 0)})
    flags = FlagTree(session, load_event_flags("elden_ring"))
    with pytest.raises(EntityNotFoundError, match="event flag 7001': the tree has no block 7"):
        flags[7001]
    with pytest.raises(EntityNotFoundError, match="block 6 holds no flags"):
        flags[6001]
    lay_tree(session.heap, {5: (1, 0)}, divisor=0)
    with pytest.raises(EntityNotFoundError, match="not initialised"):
        flags[5001]


def test_a_remote_session_walks_the_same_tree(session, tmp_path):
    lay_tree(session.heap, {n: (1, n) for n in range(20)})
    options = ServerOptions(address=f"unix:{tmp_path / 'socket'}", token="t" * 16, allow_raw_writes=True)
    with serve(session, options) as server, connect(server.address, token=options.token) as remote:
        flags = FlagTree(remote, load_event_flags("elden_ring"))
        flags[7007] = True
        assert flags[7007]
        assert not flags[7006]
    assert FlagTree(session, load_event_flags("elden_ring"))[7007]
    assert msgspec.to_builtins(FlagTree(session, load_event_flags("elden_ring")).locate(7007))["bit"] == 0
