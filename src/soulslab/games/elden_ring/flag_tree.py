"""Where Elden Ring keeps its event flags: in blocks of bits, which a search tree finds by the number of the block.

The layout is what SoulSplitter's ReadEventFlag goes by; the tree is a ``std::map`` of the compiler that the game was
built with. Each node is reached by the way from the tree's head, so that any session can walk it.
"""

from __future__ import annotations

from soulslab.errors import EntityNotFoundError
from soulslab.siphon.attributes.chain_number import ChainNumber
from soulslab.siphon.profile import NumberType
from soulslab.siphon.session import Session

BASE = "event_flags"
#: From the flag manager: flags of a block, bytes of a block, the blocks in one piece, the tree's head.
DIVISOR, BLOCK_BYTES, BLOCKS, HEAD = 0x1C, 0x20, 0x28, 0x38
#: From a node (the head's parent is the root): its neighbours, whether it is none, its key, and its block.
LEFT, PARENT, RIGHT, IS_NIL, KEY, KIND, LOCATION = 0x0, 0x8, 0x10, 0x19, 0x20, 0x28, 0x30
#: Kinds of blocks: one of those in one piece, whose number is its location; none. All others have an address there.
IN_ONE_PIECE, NONE = 1, 2
#: A deeper tree is none, but what lies where one was.
MAX_DEPTH = 64


class FlagTree:
    """Finds flags (`soulslab.games.flag_memory.FlagPlaces`).

    Args:
        session: Of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def place_of(self, number: int) -> ChainNumber:
        """See `FlagPlaces.place_of`."""
        divisor = self._read("i32", DIVISOR)
        if divisor <= 0:
            raise EntityNotFoundError(f"event flag {number}", "the game has not set up its flags yet", 0)
        block, place = divmod(number, divisor)
        node = self._find(block, number)
        kind = self._read("i32", *node, KIND)
        if kind == NONE:
            raise EntityNotFoundError(f"event flag {number}", f"block {block} holds no flags", 0)
        byte, bit = place // 8, 7 - place % 8
        if kind == IN_ONE_PIECE:
            byte += self._read("i32", BLOCK_BYTES) * self._read("i32", *node, LOCATION)
            offsets: tuple[int, ...] = (BLOCKS, byte)
        else:
            offsets = (*node, LOCATION, byte)
        return ChainNumber(base=BASE, offsets=offsets, type="flag", bit=bit)

    def _find(self, key: int, number: int) -> tuple[int, ...]:
        """Return the way to the node of a block."""
        node: tuple[int, ...] = (HEAD, PARENT)
        for depth in range(MAX_DEPTH):
            if self._read("u8", *node, IS_NIL):
                raise EntityNotFoundError(
                    f"event flag {number}", f"the tree of flags has no block {key}, {depth} nodes deep", depth
                )
            found = self._read("u32", *node, KEY)
            if found == key:
                return node
            node = (*node, RIGHT if found < key else LEFT)
        raise EntityNotFoundError(f"event flag {number}", "the tree of flags has no end, and so is none", MAX_DEPTH)

    def _read(self, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=BASE, offsets=offsets, type=kind)))
