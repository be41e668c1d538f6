"""Event flags in the memory of a simulated game, in the layout of both real games."""

import ctypes
import struct

from soulslab.games import dark_souls_3 as table
from soulslab.games import elden_ring as tree

#: Blocks of Elden Ring: number of flags of a block, its bytes, and index of the used one.
DIVISOR, BLOCK_BYTES, LOCATION = 1000, 125, 3
#: Dark Souls III's categories from here on are those of the two blocks, and where the flags of a thousand begin among
#: the profile's own: VordtFlags is at 0xF67, IudexFlags at 0x5A67, each the byte of its flag 800.
CATEGORY = 5
WORDS = {13000: 0xF00, 14000: 0x5A00}


def make_flags(game, process, bases, profile):
    """Return the event flags of a game, without a layout."""
    return (TreeFlags if game == "elden_ring" else TableFlags)(process, bases, profile)


class _Flags:
    """Separate memory, to which pointers of the game lead."""

    def __init__(self, process, bases, profile):
        self._process, self._bases = process, bases
        del profile
        self._kept = []

    def _new(self, size):
        buffer = ctypes.create_string_buffer(size)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def _put(self, address, code, value):
        self._process.write(address, struct.pack(f"<{code}", value))

    def _get(self, address):
        return struct.unpack("<Q", self._process.read(address, 8))[0]

    def is_set(self, number):
        """Return whether a flag is set."""
        address, bit = self._place(number)
        return bool(self._process.read(address, 1)[0] >> bit & 1)

    def set(self, number, is_on):
        """Set or clear a flag, as the game does."""
        address, bit = self._place(number)
        old = self._process.read(address, 1)[0]
        self._process.write(address, bytes([old | 1 << bit if is_on else old & ~(1 << bit)]))


class TreeFlags(_Flags):
    """Event flags of Elden Ring: one block of a search tree."""

    def __init__(self, process, bases, profile):
        super().__init__(process, bases, profile)
        self._manager, self._blocks = self._new(0x40), self._new(8 * BLOCK_BYTES)
        head, self._root = self._new(0x38), self._new(0x38)
        self._put(self._manager + tree.DIVISOR, "i", DIVISOR)
        self._put(self._manager + tree.BLOCK_BYTES, "i", BLOCK_BYTES)
        self._put(self._manager + tree.BLOCKS, "Q", self._blocks)
        self._put(self._manager + tree.HEAD, "Q", head)
        self._put(head + tree.IS_NIL, "B", 1)
        self._put(head + tree.PARENT, "Q", self._root)
        for side in (tree.LEFT, tree.RIGHT):
            self._put(self._root + side, "Q", head)
        self._put(self._root + tree.KIND, "i", tree.CONTIGUOUS)
        self._put(self._root + tree.LOCATION, "i", LOCATION)
        self._put(self._root + tree.KEY, "I", profile.entities["boss"].id // DIVISOR)

    def lay_out(self):
        """Set the pointer of the game to this memory."""
        self._put(self._bases[tree.BASE], "Q", self._manager)

    def _place(self, number):
        byte, bit = divmod(number % DIVISOR, 8)
        return self._blocks + LOCATION * BLOCK_BYTES + byte, 7 - bit


class TableFlags(_Flags):
    """Event flags of Dark Souls III: tables by group, category and thousand; all areas are loaded."""

    def __init__(self, process, bases, profile):
        super().__init__(process, bases, profile)
        self._manager, self._flags = self._new(0x300), 0
        self._groups = self._new(10 * table.GROUP_SIZE)
        self._put(self._manager + table.GROUPS, "Q", self._groups)
        world, owner = self._new(0x40), self._new(0x40)
        self._put(world + table.OWNER, "Q", owner)
        areas = (30, 40)  # from the digits of the number
        self._put(owner + table.N_AREAS, "i", len(areas))
        listed = self._new(len(areas) * table.AREA_SIZE)
        self._put(owner + table.AREAS, "Q", listed)
        for i, area in enumerate(areas):
            at, blocks = listed + i * table.AREA_SIZE, self._new(table.BLOCK_SIZE)
            self._put(at + table.AREA_NUMBER, "B", area)
            self._put(at + table.N_BLOCKS, "B", 1)
            self._put(at + table.BLOCKS, "Q", blocks)
            self._put(blocks + table.BLOCK_NUMBER, "I", area << 24)
            self._put(blocks + table.CATEGORY, "i", CATEGORY + i - 1)
        self._world, self._owner = world, owner

    def forget_areas(self):
        """Remove all areas, as while another one is loading."""
        self._put(self._owner + table.N_AREAS, "i", 0)

    def lay_out(self):
        """Set the pointers of the game to these tables, which contain the bytes of the profile's flags."""
        at = self._bases[table.FLAGS]
        if self._get(at) != self._manager:
            self._flags = self._get(self._get(at))
            self._put(self._manager, "Q", self._flags)
            entries = self._new(8 * table.CATEGORY_SIZE + 10 * table.THOUSAND_SIZE)
            self._put(self._groups + table.GROUP_SIZE, "Q", entries)
            # Both flags, 13000800 and 14000800, have the thousand 0 in their blocks.
            for i, words in enumerate(WORDS.values()):
                self._put(entries + (CATEGORY + i) * table.CATEGORY_SIZE, "Q", self._flags + words)
            self._put(at, "Q", self._manager)
        self._put(self._bases[table.WORLD], "Q", self._world)

    def _place(self, number):
        byte, bit = divmod(31 - number % 1000 % 32, 8)
        return self._flags + WORDS[number // 1000] + number % 1000 // 32 * 4 + byte, bit
