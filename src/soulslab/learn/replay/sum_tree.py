"""A tree of sums over priorities: sets priorities, and finds the leaf for a mass, in log8(n) steps.

After Schaul et al. 2016, "Prioritized Experience Replay", appendix B.2.1, with eight instead of two children per node:
they share a cache line, and memory accesses are the main cost in a tree of a million leaves. Each inner node is
computed as the sum of its children whenever one changes, so rounding errors do not accumulate and the tree depends only
on its leaves.

The root is node 7, and the children of node i start at ``8 * (i - 6)``, a multiple of 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.replay.numba_kernel import kernel

_ROOT = 7
_LINE_BYTES = 64
"""Size of a cache line."""


class SumTree:
    """Non-negative priorities of n places.

    Attributes:
        leaves: The priorities, float64 (n,); read only.
    """

    def __init__(self, n: int) -> None:
        """Start with priorities of 0."""
        first, n_leaves = 8, 8
        while n_leaves < n:
            first, n_leaves = 8 * (first - 6), 8 * n_leaves
        n_nodes = -(-(first + n) // 8) * 8
        room = np.zeros(n_nodes + 8)
        skipped = -room.ctypes.data % _LINE_BYTES // 8
        self._nodes = room[skipped : skipped + n_nodes]
        self._first_leaf = first
        self.leaves = self._nodes[first : first + n]

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._nodes[_ROOT])

    @property
    def n_bytes(self) -> int:
        """Size in memory (bytes)."""
        return self._nodes.nbytes

    def set(self, places: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Set priorities; if a place occurs twice, the last value counts.

        Args:
            places: Each in 0..n-1, int64 (m,).
            priorities: Finite and not negative, float64 (m,).
        """
        _set(self._nodes, places + self._first_leaf, priorities)

    def find(self, masses: NDArray[np.float64], places: NDArray[np.int64]) -> None:
        """Find the place of each mass in the cumulative sum of the priorities.

        Args:
            masses: Each in 0..total, float64 (m,); overwritten.
            places: Output, int64 (m,); their priorities are greater than 0 if the total is.
        """
        _find(self._nodes, masses, places)
        places -= self._first_leaf

    def load(self, leaves: NDArray[np.float64]) -> None:
        """Replace all priorities, float64 (n,)."""
        self.leaves[:] = leaves
        _sum_up(self._nodes, self._first_leaf)


@kernel
def _set(nodes: NDArray[np.float64], at: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
    """Write leaves, then the sums one level after another, so that the memory accesses of a level overlap.

    Args:
        nodes: Output.
        at: Nodes of the leaves, all of one level, int64 (m,); overwritten.
        priorities: float64 (m,).
    """
    for i in range(len(at)):
        nodes[at[i]] = priorities[i]
    while len(at) and at[0] > _ROOT:
        for i in range(len(at)):
            first = at[i] & ~7
            total = 0.0
            for child in range(8):
                total += nodes[first + child]
            at[i] = (at[i] >> 3) + 6
            nodes[at[i]] = total


@kernel
def _find(nodes: NDArray[np.float64], masses: NDArray[np.float64], at: NDArray[np.int64]) -> None:
    """Descend from the root to the leaves, one level for all masses at once.

    In each node the child that contains the mass is chosen; if the mass exceeds the sum because of rounding, the last
    child that is not 0.

    Args:
        nodes: The tree; its root must not be 0.
        masses: float64 (m,); overwritten.
        at: Output: node of each leaf, int64 (m,).
    """
    at[:] = _ROOT
    while len(at) and 8 * (at[0] - 6) < len(nodes):
        for i in range(len(at)):
            first, mass = 8 * (at[i] - 6), masses[i]
            whole = 0.0
            for child in range(8):
                whole += nodes[first + child]
            total, before, chosen = 0.0, 0.0, 0
            for child in range(7):
                total += nodes[first + child]
                is_passed = (total <= mass) & (total < whole)  # "and" would be a branch that is mispredicted often
                before = total if is_passed else before
                chosen += is_passed
            masses[i] = mass - before
            at[i] = first + chosen


@kernel
def _sum_up(nodes: NDArray[np.float64], first_leaf: int) -> None:
    """Compute all inner nodes; nodes after the last leaf have no children."""
    for i in range(first_leaf - 1, _ROOT - 1, -1):
        total = 0.0
        for child in range(8 * (i - 6), min(8 * (i - 5), len(nodes))):
            total += nodes[child]
        nodes[i] = total
