"""Event flags in the memory of Elden Ring: blocks of bits, in a binary search tree with the block number as key.

The layout follows ReadEventFlag of SoulSplitter; the tree is a ``std::map`` of the compiler that built the game. A node
is addressed by the pointer chain from the head of the tree, so any session can walk the tree.
"""

from __future__ import annotations

from soulslab.errors import EntityNotFoundError
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.profile import NumberType
from soulslab.siphon.session import Session

BASE = "event_flags"
#: In the flag manager: offsets of the flags per block, the bytes per block, the contiguous blocks, and the tree head.
DIVISOR, BLOCK_BYTES, BLOCKS, HEAD = 0x1C, 0x20, 0x28, 0x38
#: In a node (the parent of the head is the root): neighbours, whether the node is the end, key, kind, and block.
LEFT, PARENT, RIGHT, IS_NIL, KEY, KIND, LOCATION = 0x0, 0x8, 0x10, 0x19, 0x20, 0x28, 0x30
#: Kinds of blocks: stored in the contiguous blocks, where the location is an index; empty. Others have an address.
CONTIGUOUS, EMPTY = 1, 2
#: Upper bound on the depth of the tree; a deeper tree means that the pointer is stale.
MAX_DEPTH = 64


class FlagTree:
    """Finds event flags (`soulslab.games.event_flags.FlagLocator`).

    Args:
        session: Session of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def locate(self, number: int) -> ChainNumber:
        """See `FlagLocator.locate`."""
        divisor = self._read("i32", DIVISOR)
        if divisor <= 0:
            raise EntityNotFoundError(f"event flag {number}", "the game has not initialised its event flags yet", 0)
        block, index = divmod(number, divisor)
        node = self._find(block, number)
        kind = self._read("i32", *node, KIND)
        if kind == EMPTY:
            raise EntityNotFoundError(f"event flag {number}", f"block {block} holds no flags", 0)
        byte, bit = index // 8, 7 - index % 8
        if kind == CONTIGUOUS:
            byte += self._read("i32", BLOCK_BYTES) * self._read("i32", *node, LOCATION)
            offsets: tuple[int, ...] = (BLOCKS, byte)
        else:
            offsets = (*node, LOCATION, byte)
        return ChainNumber(base=BASE, offsets=offsets, type="flag", bit=bit)

    def _find(self, key: int, number: int) -> tuple[int, ...]:
        """Return the offsets of the pointer chain to the node of a block."""
        node: tuple[int, ...] = (HEAD, PARENT)
        for depth in range(MAX_DEPTH):
            if self._read("u8", *node, IS_NIL):
                raise EntityNotFoundError(
                    f"event flag {number}",
                    f"the tree has no block {key} (searched {depth} levels)",
                    depth,
                )
            found = self._read("u32", *node, KEY)
            if found == key:
                return node
            node = (*node, RIGHT if found < key else LEFT)
        problem = f"the tree of event flags is deeper than {MAX_DEPTH} levels, so its pointer is stale"
        raise EntityNotFoundError(f"event flag {number}", problem, MAX_DEPTH)

    def _read(self, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=BASE, offsets=offsets, type=kind)))
