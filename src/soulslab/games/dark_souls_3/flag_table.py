"""Where Dark Souls III keeps its event flags: a table for each block of the world that is loaded.

The layout is what SoulSplitter's ReadEventFlag goes by. The digits of a number say where it is: g.aa.b.t.nnn is flag
nnn of the thousand t, in block b of area aa, in group g. Which category the block has the world itself says.
"""

from __future__ import annotations

from soulslab.errors import EntityNotFoundError
from soulslab.siphon.attributes.chain_number import ChainNumber
from soulslab.siphon.profile import NumberType
from soulslab.siphon.session import Session

FLAGS, WORLD = "event_flags", "field_area"
#: From the flag manager: the table of groups, an entry of it, one of a thousand flags, and one of a category.
GROUPS, GROUP_SIZE, THOUSAND_SIZE, CATEGORY_SIZE = 0x218, 0x18, 0x10, 0xA8
WORD_BITS = 32
#: From what lies at 0x10 of the world: how many areas, and the list of them.
OWNER, N_AREAS, AREAS = 0x10, 0x8, 0x10
#: An area: its number, how many blocks it has, and the list of them.
AREA_SIZE, AREA_NUMBER, N_BLOCKS, BLOCKS = 0x38, 0xB, 0x20, 0x28
#: A block: its area (byte 3) and its number (byte 2), and its category, less 1.
BLOCK_SIZE, BLOCK_NUMBER, CATEGORY = 0x70, 0x8, 0x20
#: From this area on flags are of no place, and so are those of area 0, block 0.
GLOBAL_AREA = 90
#: More is no world, but what lies where one was.
MAX_AREAS = 100


class FlagTable:
    """Finds flags (`soulslab.games.flag_memory.FlagPlaces`).

    Args:
        session: Of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def place_of(self, number: int) -> ChainNumber:
        """See `FlagPlaces.place_of`."""
        category = self._category(number)
        group, thousand = number // 10_000_000 % 10, number // 1000 % 10
        word, place = divmod(number % 1000, WORD_BITS)
        # Words are stored with their lowest byte first, and counted from their highest bit.
        byte, bit = divmod(WORD_BITS - 1 - place, 8)
        entry = thousand * THOUSAND_SIZE + category * CATEGORY_SIZE
        offsets = (GROUPS, group * GROUP_SIZE, entry, word * WORD_BITS // 8 + byte)
        return ChainNumber(base=FLAGS, offsets=offsets, type="flag", bit=bit)

    def _category(self, number: int) -> int:
        """Return the category of the block that a flag is of."""
        area, block = number // 100_000 % 100, number // 10_000 % 10
        if area >= GLOBAL_AREA or (area, block) == (0, 0):
            return 0
        n_areas = self._read("i32", OWNER, N_AREAS)
        if not 0 <= n_areas <= MAX_AREAS:
            raise EntityNotFoundError(f"event flag {number}", f"the world cannot have {n_areas} areas", 0)
        for i in range(n_areas):
            if self._read("u8", OWNER, AREAS, i * AREA_SIZE + AREA_NUMBER) != area:
                continue
            for j in range(self._read("u8", OWNER, AREAS, i * AREA_SIZE + N_BLOCKS)):
                way = (OWNER, AREAS, i * AREA_SIZE + BLOCKS)
                found = self._read("u32", *way, j * BLOCK_SIZE + BLOCK_NUMBER)
                if (found >> 24, found >> 16 & 0xFF) == (area, block):
                    return self._read("i32", *way, j * BLOCK_SIZE + CATEGORY) + 1
        raise EntityNotFoundError(
            f"event flag {number}", f"the world has no block {block} of area {area} among {n_areas} areas now", n_areas
        )

    def _read(self, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=WORLD, offsets=offsets, type=kind)))
