"""Event flags in the memory of Dark Souls III: one table for each loaded block of the world.

The layout follows ReadEventFlag of SoulSplitter. The digits of a flag number give its location: in g.aa.b.t.nnn, g is
the group, aa the area, b the block, t the thousand, and nnn the flag. The world data gives the category of the block.
"""

from __future__ import annotations

from soulslab.errors import EntityNotFoundError
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.profile import NumberType
from soulslab.siphon.session import Session

FLAGS, WORLD = "event_flags", "field_area"
#: Offset of the table of groups in the flag manager; sizes of a group, of one thousand flags, and of a category.
GROUPS, GROUP_SIZE, THOUSAND_SIZE, CATEGORY_SIZE = 0x218, 0x18, 0x10, 0xA8
WORD_BITS = 32
#: Offset of the owner of the areas in the world; in it, offsets of the number of areas and of the list of areas.
OWNER, N_AREAS, AREAS = 0x10, 0x8, 0x10
#: An area: its size, and the offsets of its number, its number of blocks, and its list of blocks.
AREA_SIZE, AREA_NUMBER, N_BLOCKS, BLOCKS = 0x38, 0xB, 0x20, 0x28
#: A block: its size, and the offsets of its number (byte 2; byte 3 is the area) and of its category minus 1.
BLOCK_SIZE, BLOCK_NUMBER, CATEGORY = 0x70, 0x8, 0x20
#: Flags of areas from this number on belong to no place; neither do flags of area 0, block 0.
GLOBAL_AREA = 90
#: Upper bound on the number of areas; a larger number means that the pointer is stale.
MAX_AREAS = 100


class FlagTable:
    """Finds event flags (`soulslab.games.event_flags.FlagLocator`).

    Args:
        session: Session of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def locate(self, number: int) -> ChainNumber:
        """See `FlagLocator.locate`."""
        category = self._category(number)
        group, thousand = number // 10_000_000 % 10, number // 1000 % 10
        word, place = divmod(number % 1000, WORD_BITS)
        # Words are little-endian; bits are counted from the most significant one.
        byte, bit = divmod(WORD_BITS - 1 - place, 8)
        entry = thousand * THOUSAND_SIZE + category * CATEGORY_SIZE
        offsets = (GROUPS, group * GROUP_SIZE, entry, word * WORD_BITS // 8 + byte)
        return ChainNumber(base=FLAGS, offsets=offsets, type="flag", bit=bit)

    def _category(self, number: int) -> int:
        """Return the category of the block that contains a flag."""
        area, block = number // 100_000 % 100, number // 10_000 % 10
        if area >= GLOBAL_AREA or (area, block) == (0, 0):
            return 0
        n_areas = self._read("i32", OWNER, N_AREAS)
        if not 0 <= n_areas <= MAX_AREAS:
            raise EntityNotFoundError(f"event flag {number}", f"{n_areas} is not a possible number of areas", 0)
        for i in range(n_areas):
            if self._read("u8", OWNER, AREAS, i * AREA_SIZE + AREA_NUMBER) != area:
                continue
            for j in range(self._read("u8", OWNER, AREAS, i * AREA_SIZE + N_BLOCKS)):
                blocks = (OWNER, AREAS, i * AREA_SIZE + BLOCKS)
                found = self._read("u32", *blocks, j * BLOCK_SIZE + BLOCK_NUMBER)
                if (found >> 24, found >> 16 & 0xFF) == (area, block):
                    return self._read("i32", *blocks, j * BLOCK_SIZE + CATEGORY) + 1
        raise EntityNotFoundError(
            f"event flag {number}", f"block {block} of area {area} is not loaded; {n_areas} areas are", n_areas
        )

    def _read(self, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=WORLD, offsets=offsets, type=kind)))
