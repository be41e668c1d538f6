"""The two kinds of reads that a plan is made of: one level of pointers, and the values with all that proves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import EntityNotFoundError, PointerError
from soulslab.siphon.chains import Cell, Chains, Part
from soulslab.siphon.entities import id_bytes
from soulslab.siphon.memory import Memory


class LevelRead:
    """Reads all pointers of one depth.

    Attributes:
        cells: Those of this depth.
        first: Place of the first among all cells.
        searched: Entities whose slots have this depth: they have to be searched before.
        parents: (n,) place of the parent of each cell.
        offsets: (n,) uint64, a view: slots get theirs from the search.
        pointers: (n,) uint64, a view: where the pointers that are read belong.
        batch: Reads them.
    """

    def __init__(
        self,
        memory: Memory,
        chains: Chains,
        depth: int,
        offsets: NDArray[np.uint64],
        pointers: NDArray[np.uint64],
    ) -> None:
        self.cells: list[Cell | Part] = [cell for cell in chains.cells if cell.depth == depth]
        self.first = sum(cell.depth < depth for cell in chains.cells)
        last = self.first + len(self.cells)
        self.searched = [listed for listed in chains.entities if listed.slot.depth == depth]
        self.parents = np.array([cell.parent.index for cell in self.cells if cell.parent], np.intp)
        self.offsets = offsets[self.first : last]
        self.pointers = pointers[self.first : last]
        self.batch = memory.batch([8] * len(self.cells))


class FinalRead:
    """Reads values, then ids of entities, then pointers, the last of each chain first.

    Attributes:
        parts: What is read, in this order.
        parents: (n,) place of the cell whose pointer each part counts from.
        offsets: (n,) uint64, added to it.
        sizes: (n,) int64, bytes of each.
        groups: (n,) int64, not descending: parts of one number may be read in any order.
        cells: (n_cells,) places of the cells among the parts.
        ids: The ids of the entities, as they have to be.
        checked_from: Where in what was read the ids begin, and behind them the pointers.
        batch: Reads them.
    """

    def __init__(self, memory: Memory, chains: Chains) -> None:
        followed = sorted((cell for cell in chains.cells if cell.depth), key=lambda cell: -cell.depth)
        values, ids = chains.values, [listed.id for listed in chains.entities]
        self.parts: list[Cell | Part] = [*values, *ids, *followed]
        deepest = followed[0].depth if followed else 0
        groups = [0] * len(values) + [1] * len(ids) + [2 + deepest - cell.depth for cell in followed]
        self.groups = np.array(groups, np.int64)
        self.parents = np.array([part.parent.index for part in self.parts if part.parent], np.intp)
        self.offsets = np.array([part.offset % 2**64 for part in self.parts], np.uint64)
        self.cells = np.array([cell.index for cell in followed], np.intp)
        sizes = [part.size for part in (*values, *ids)] + [8] * len(followed)
        self.sizes = np.array(sizes, np.int64)
        self.ids = b"".join(id_bytes(listed.entity) for listed in chains.entities)
        self.checked_from = sum(part.size for part in values)
        self.batch = memory.batch(sizes)

    def take_offsets(self, offsets: NDArray[np.uint64]) -> None:
        """Take over the offsets of slots that a search has found."""
        if len(self.cells):
            self.offsets[-len(self.cells) :] = offsets[self.cells]

    def explain_change(self, expected: bytes, found: bytes, pid: int) -> PointerError | EntityNotFoundError:
        """Return the error for what differs from what a walk has just seen.

        Args:
            expected: Ids and pointers that the walk led to.
            found: Ids and pointers that were read with the values.
            pid: The game.
        """
        at = next(i for i in range(len(expected)) if expected[i] != found[i])
        ends = np.cumsum(self.sizes) - self.checked_from
        index = int(np.searchsorted(ends, at, side="right"))
        part = self.parts[index]
        if isinstance(part, Part):
            return EntityNotFoundError(part.owner, "its id changes while it is read; pause the game", 1)
        return PointerError(
            "changes while it is read; pause the game",
            attribute=part.owner,
            level=part.level,
            address=int(self.batch.addresses[index]),
            pid=pid,
        )
