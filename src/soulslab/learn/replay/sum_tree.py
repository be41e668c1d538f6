"""A binary tree of sums over priorities: set one, and find the one that a mass falls on, in log2(n) steps.

After Schaul et al. 2016, "Prioritized Experience Replay", appendix B.2.1. Every inner node is the sum of its two
children, computed anew whenever one changes, so nothing drifts and the tree is a function of its leaves alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.replay.kernel import kernel


class SumTree:
    """Priorities of n places, none of them negative.

    Attributes:
        leaves: The priorities, float64 (n,); to be read alone.
    """

    def __init__(self, n: int) -> None:
        """Begin with priorities of 0."""
        n_leaves = 1 << max(0, (n - 1).bit_length())
        self._nodes = np.zeros(2 * n_leaves)
        self.leaves = self._nodes[n_leaves : n_leaves + n]

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._nodes[1])

    @property
    def n_bytes(self) -> int:
        """Memory that it takes (bytes)."""
        return self._nodes.nbytes

    def set(self, places: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Set priorities; of a place that comes twice, the last one counts.

        Args:
            places: Each in 0..n-1, int64 (m,).
            priorities: Finite and not negative, float64 (m,).
        """
        _set(self._nodes, places, priorities, np.empty(len(places), np.int64))

    def find(self, masses: NDArray[np.float64], places: NDArray[np.int64]) -> None:
        """Find the place that each mass falls on, when the priorities are laid out one after another.

        Args:
            masses: Each in 0..total, float64 (m,).
            places: Written; its priority is never 0 while the total is not, int64 (m,).
        """
        _find(self._nodes, masses, places)

    def load(self, leaves: NDArray[np.float64]) -> None:
        """Replace all priorities, float64 (n,)."""
        self.leaves[:] = leaves
        _sum_up(self._nodes)


@kernel
def _set(
    nodes: NDArray[np.float64],
    places: NDArray[np.int64],
    priorities: NDArray[np.float64],
    at: NDArray[np.int64],
) -> None:
    """Write leaves, then one level of sums after another: so the memory that they need is fetched side by side."""
    size = len(nodes) // 2
    for i in range(len(places)):
        at[i] = size + places[i]
        nodes[at[i]] = priorities[i]
    while size > 1:
        for i in range(len(at)):
            parent = at[i] >> 1
            nodes[parent] = nodes[2 * parent] + nodes[2 * parent + 1]
            at[i] = parent
        size >>= 1


@kernel
def _find(nodes: NDArray[np.float64], masses: NDArray[np.float64], places: NDArray[np.int64]) -> None:
    """Go down from the root, one level for all at once; ``masses`` is used up.

    A mass that rounding has carried past the end never goes to a child of sum 0: such a right child is passed over,
    and a left one is larger than the mass that goes there.
    """
    size = len(nodes) // 2
    places[:] = 1
    n = 1
    while n < size:
        for i in range(len(places)):
            left = 2 * places[i]
            here, there = nodes[left], nodes[left + 1]
            goes_right = masses[i] >= here and there > 0.0
            masses[i] -= here if goes_right else 0.0
            places[i] = left + goes_right
        n *= 2
    for i in range(len(places)):
        places[i] -= size


@kernel
def _sum_up(nodes: NDArray[np.float64]) -> None:
    for i in range(len(nodes) // 2 - 1, 0, -1):
        nodes[i] = nodes[2 * i] + nodes[2 * i + 1]
