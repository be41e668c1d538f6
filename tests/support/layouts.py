"""Random objects behind random pointers, and a reference implementation for reading them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

from soulslab.errors import MemoryAccessError
from soulslab.siphon.profile import Attribute, Base, Entity, Process, Profile, Value
from soulslab.testing.fake_memory import FakeMemory

PAGE = 4096
START = 0x5000_0000
#: Pages with objects; the pages between them are not mapped.
PAGES = tuple(START + 2 * PAGE * i for i in range(3))
#: Number of cells of an object, the range of offsets.
N_CELLS = 8
OBJECTS = tuple(page + 8 * N_CELLS * i for page in PAGES for i in range(6))
N_LISTED = 5
LISTS = START + 0x10_0000
FULL = (-(2.0**63), 2.0**63)


class BadChainError(Exception):
    """The reference implementation finds no value."""


class Layout:
    """A random memory with its profile.

    Attributes:
        memory: Memory with objects, and one list of pointers to objects for each entity.
        profile: Bases, entities and attributes of the memory.
        bases: Address of each base.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.memory = FakeMemory()
        self.unmapped: set[int] = set()
        for page in PAGES:
            self.memory.map(page, bytearray(PAGE))
        self.memory.map(LISTS, bytearray(PAGE))
        for one in OBJECTS:
            for cell in range(N_CELLS):
                self._write(one + 8 * cell, self._content(good=0.9))
        self.bases = {f"base{i}": random.choice(OBJECTS) for i in range(3)}
        entities = {f"entity{i}": self._entity(i) for i in range(random.randint(0, 2))}
        attributes = {f"attribute{i}": self._attribute(list(entities)) for i in range(random.randint(1, 8))}
        self.profile = Profile(
            name="made up",
            process=Process(executable="x"),
            bases={
                name: Base(offset=0, is_pointer=name.startswith("base") and random.random() < 0.4, source="made up")
                for name in self.bases
            },
            entities=entities,
            attributes=attributes,
        )

    def mutate(self) -> None:
        """Change the memory, as a game does."""
        random = self._random
        for _ in range(random.randint(0, 3)):
            page = random.choice(PAGES)
            match random.randrange(12):
                case 0 if page not in self.unmapped and len(self.unmapped) < 2:
                    self.memory.unmap(page)
                    self.unmapped.add(page)
                case 1 | 2 if page in self.unmapped:
                    self.memory.map(page, bytearray(random.randbytes(PAGE)))
                    self.unmapped.discard(page)
                case 3 | 4:
                    at = LISTS + 8 * random.randrange(2 * N_LISTED)
                    self._write(at, self._content(good=0.8))
                case _:
                    one = random.choice(OBJECTS)
                    self._write(one + 8 * random.randrange(N_CELLS), self._content(good=0.8))

    def outcomes(self, name: str) -> list[Value | type[BadChainError]]:
        """Return all valid results of reading an attribute: one value, or one for each entity with the id."""
        attribute = self.profile.attributes[name]
        found: list[Value | type[BadChainError]] = []
        try:
            starts = self._entities(attribute.entity) if attribute.entity else [self._base(attribute.base)]
        except BadChainError:
            return [BadChainError]
        for start in starts:
            try:
                found.append(self._value(self._follow(start, attribute.offsets), attribute))
            except BadChainError:
                found.append(BadChainError)
        return found or [BadChainError]

    # --- reference implementation ---------------------------------------------------------------------------

    def _base(self, name: str) -> int:
        address = self.bases[name]
        return self._pointer(address) if self.profile.bases[name].is_pointer else address

    def _pointer(self, address: int) -> int:
        (pointer,) = struct.unpack("<Q", self._read(address, 8))
        if not 4096 <= pointer < 2**56:
            raise BadChainError
        return int(pointer)

    def _follow(self, start: int, offsets: tuple[int, ...]) -> int:
        for offset in offsets[:-1]:
            start = self._pointer((start + offset) % 2**64)
        return (start + offsets[-1]) % 2**64

    def _entities(self, name: str) -> list[int]:
        entity = self.profile.entities[name]
        start = self._base(entity.base)
        begin, end = (
            struct.unpack("<Q", self._read(self._follow(start, offsets), 8))[0]
            for offsets in (entity.begin, entity.end)
        )
        if not 4096 <= begin < end < 2**56 or (end - begin) % entity.stride or (end - begin) // entity.stride > 2**16:
            raise BadChainError
        found = []
        # The complete list must be mapped.
        self._read(begin, end - begin)
        for slot in range(begin, end, entity.stride):
            try:
                one = self._pointer(slot)
                (number,) = struct.unpack("<B", self._read(self._follow(one, entity.id_offsets), 1))
            except BadChainError:
                continue
            if number == entity.id:
                found.append(one)
        return found

    def _value(self, address: int, attribute: Attribute) -> Value:
        match attribute.type:
            case "flag":
                return bool(self._read(address, 1)[0] >> attribute.bit & 1)
            case "bytes":
                return self._read(address, attribute.length)
            case "u8":
                return self._read(address, 1)[0]
        return int.from_bytes(self._read(address, 8), "little", signed=True)

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self.memory.read(address, size)
        except MemoryAccessError as error:
            raise BadChainError from error

    # --- strategies------------------------------------------------------------------------------------------

    def _entity(self, index: int) -> Entity:
        """Draw an entity; two cells of an object hold the begin and the end of its list."""
        random = self._random
        holder, cell = random.choice(OBJECTS), random.randrange(N_CELLS - 1)
        begin = LISTS + 8 * N_LISTED * index
        self._write(holder + 8 * cell, begin)
        self._write(holder + 8 * cell + 8, begin + 8 * random.randint(0, N_LISTED))
        for slot in range(N_LISTED):
            self._write(begin + 8 * slot, self._content(good=0.9))
        self.bases[f"holder{index}"] = holder
        return Entity(
            base=f"holder{index}",
            begin=(8 * cell,),
            end=(8 * cell + 8,),
            id_offsets=tuple(8 * random.randrange(N_CELLS) for _ in range(random.randint(1, 2))),
            id_type="u8",
            id=random.choice([0, 0x40, 0x80, 0xC0]),
            source="made up",
        )

    def _attribute(self, entities: list[str]) -> Attribute:
        random = self._random
        kind: Callable[[], dict[str, object]] = random.choice(
            [
                lambda: {"type": "i64", "range": FULL},
                lambda: {"type": "u8", "range": (0.0, 255.0)},
                lambda: {"type": "flag", "bit": random.randrange(8)},
                lambda: {"type": "bytes", "length": random.choice([1, 3, 8, 40])},
            ]
        )
        start = (
            {"entity": random.choice(entities)}
            if entities and random.random() < 0.4
            else {"base": f"base{random.randrange(3)}"}
        )
        # Few different offsets, so that chains have common prefixes.
        depth = random.randint(0, 4)
        offsets = (*(8 * random.choice([0, 1, 5, -1]) for _ in range(depth)), random.randrange(8 * N_CELLS))
        return Attribute(**start, offsets=offsets, source="made up", **kind())  # type: ignore[arg-type]

    def _content(self, good: float) -> int:
        """Draw the content of a cell: most are pointers to objects."""
        random = self._random
        if random.random() < good:
            return random.choice(OBJECTS)
        return random.choice([0, 5, PAGES[0] + PAGE, 2**63 + 8, 2**56, random.getrandbits(64)])

    def _write(self, address: int, content: int) -> None:
        try:
            self.memory.write(address, struct.pack("<Q", content))
        except MemoryAccessError:
            return  # the page is not mapped
