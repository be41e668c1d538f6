"""Samplers of transitions: uniform, or by priority with a tree of sums."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import NonFinitePriorityError, ReplayError
from soulslab.learn.archive import Tensors
from soulslab.learn.replay.numba_kernel import kernel

_OTHER_PLACES: Final = (
    "the saved priorities belong to other transitions than the rows; load the rows of the same checkpoint"
)

#: Added to each error, so that each transition keeps a probability above 0 (Schaul et al. 2016, section 3.3).
EPSILON: Final = 1e-6


class UniformSampler:
    """Draws uniformly from the places of a ring at which a transition can start, in a list without gaps."""

    priority_max = 1.0

    def __init__(self, capacity: int) -> None:
        """Start with an empty list, for places in 0..capacity-1."""
        self._listed = np.empty(capacity, np.int32)
        self._index = np.empty(capacity, np.int32)  # position of each place in the list
        self.n_places = 0

    @property
    def n_bytes(self) -> int:
        """Size in memory (bytes)."""
        return self._listed.nbytes + self._index.nbytes

    def change(self, events: NDArray[np.int64]) -> None:
        """Process the changes that ``Ring.append`` returned."""
        self.n_places = _list(self._listed, self._index, self.n_places, events)

    def draw(
        self, places: NDArray[np.int64], weights: NDArray[np.float32], *, beta: float, rng: np.random.Generator
    ) -> None:
        """Draw places with replacement, int64 (B,); there must be at least one. All weights, float32 (B,), are 1."""
        del beta  # uniform draws have no bias
        places[:] = self._listed[rng.integers(self.n_places, size=len(places))]
        weights[:] = 1.0

    def priorities(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ones."""
        return np.ones(len(places))

    def set_errors(self, places: NDArray[np.int64], errors: NDArray[np.float32]) -> None:  # noqa: ARG002 - as above
        """Raise ``NonFinitePriorityError`` for errors that are not finite; others have no effect."""
        _require_finite(errors)

    set_first_errors = set_errors

    def state(self) -> Tensors:
        """Return the list."""
        return {"listed": self._listed[: self.n_places].copy()}

    def load(self, state: Tensors, places: NDArray[np.int64]) -> None:
        """Continue from a state of the same places, ascending, int64 (n,)."""
        listed = state["listed"]
        if not np.array_equal(np.sort(listed), places):
            raise ReplayError(_OTHER_PLACES)
        self.n_places = len(listed)
        self._listed[: self.n_places] = listed
        self._index[listed] = np.arange(self.n_places, dtype=np.int32)


class PrioritisedSampler:
    """Draws in proportion to ``(|error| + epsilon) ** alpha`` (Schaul et al. 2016, equation 1, proportional).

    A new place gets the largest priority so far, so that each is probably drawn once, or that of `set_first_errors`.
    The total is divided into B equal parts, and one place is drawn from each (appendix B.2.1).
    """

    def __init__(self, capacity: int, alpha: float) -> None:
        self._tree = SumTree(capacity)
        self._alpha = alpha
        self.priority_max = 1.0
        self.n_places = 0

    @property
    def n_bytes(self) -> int:
        """Size in memory (bytes)."""
        return self._tree.nodes.nbytes

    def change(self, events: NDArray[np.int64]) -> None:
        """Give new places the largest priority, and removed ones priority 0."""
        is_new = events >= 0
        self._tree.set(np.where(is_new, events, ~events), np.where(is_new, self.priority_max, 0.0))
        n_new = int(np.count_nonzero(is_new))
        self.n_places += n_new - (len(events) - n_new)

    def draw(
        self, places: NDArray[np.int64], weights: NDArray[np.float32], *, beta: float, rng: np.random.Generator
    ) -> None:
        """Draw places with replacement, int64 (B,), and importance weights, float32 (B,); there must be a place.

        The weights are ``(n * P) ** -beta``, divided by the largest of the batch (section 3.4). ``beta`` is the share
        of the bias that they correct, 0..1.
        """
        masses = rng.random(len(places))
        _spread(masses, self._tree.total)
        self._tree.find(masses, places)
        _weigh(self._tree.leaves, places, beta, weights)

    def priorities(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the priorities of places, float64 (B,)."""
        found: NDArray[np.float64] = self._tree.leaves[places]
        return found

    def set_errors(self, places: NDArray[np.int64], errors: NDArray[np.float32]) -> None:
        """Set the priorities of places from errors of either sign; places without a transition are ignored.

        Raises NonFinitePriorityError for NaN or infinity; no priority was changed.
        """
        priorities = np.empty(len(errors))
        largest = _prioritise(self._tree.leaves, places, errors, self._alpha, priorities)
        if largest < 0.0:
            _require_finite(errors)
        self._tree.set(places, priorities)
        self.priority_max = max(self.priority_max, largest)

    def set_first_errors(self, places: NDArray[np.int64], errors: NDArray[np.float32]) -> None:
        """Set the priorities of new places from finite errors, at most the largest priority so far.

        The errors come from actors. Because of the limit, an actor with wrong values gives its transitions no higher
        priorities than they have without values.
        """
        priorities = np.empty(len(errors))
        _prioritise(self._tree.leaves, places, errors, self._alpha, priorities)
        self._tree.set(places, np.minimum(priorities, self.priority_max))

    def state(self) -> Tensors:
        """Return the priorities of the places that can be drawn."""
        leaves = self._tree.leaves
        return {"priorities": leaves[leaves > 0.0], "priority_max": np.array(self.priority_max)}

    def load(self, state: Tensors, places: NDArray[np.int64]) -> None:
        """Continue from a state of the same places, ascending, int64 (n,)."""
        priorities, priority_max = state["priorities"], float(state["priority_max"])
        if len(priorities) != len(places):
            raise ReplayError(_OTHER_PLACES)
        if not (np.isfinite(priorities).all() and (priorities >= 0.0).all() and 0.0 < priority_max < math.inf):
            raise ReplayError("priorities must be finite and not negative")
        leaves = np.zeros(len(self._tree.leaves))
        leaves[places] = priorities
        self._tree.load(leaves)
        self.priority_max = priority_max
        self.n_places = len(places)


#: Draws from the places of a ring at which a transition can start.
Sampler: TypeAlias = UniformSampler | PrioritisedSampler


def _require_finite(errors: NDArray[np.float32]) -> None:
    bad = np.flatnonzero(~np.isfinite(errors))
    if len(bad):
        i = int(bad[0])
        raise NonFinitePriorityError(i, float(errors[i]))


@kernel
def _list(listed: NDArray[np.int32], index: NDArray[np.int32], n: int, events: NDArray[np.int64]) -> int:
    """Add and remove places; return their number. The last place of the list fills the gap of a removed one."""
    for event in events:
        if event >= 0:
            listed[n] = event
            index[event] = n
            n += 1
        else:
            n -= 1
            gap, last = index[~event], listed[n]
            listed[gap] = last
            index[last] = gap
    return n


@kernel
def _spread(randoms: NDArray[np.float64], total: float) -> None:
    """Convert numbers in 0..1 to one mass in each of B equal parts of the total, in place."""
    share = total / len(randoms)
    for i in range(len(randoms)):
        randoms[i] = (i + randoms[i]) * share


@kernel
def _weigh(leaves: NDArray[np.float64], places: NDArray[np.int64], beta: float, weights: NDArray[np.float32]) -> None:
    """Write importance weights; n and the total cancel out in the division by the largest weight."""
    least = leaves[places[0]]
    for i in range(1, len(places)):
        least = min(least, leaves[places[i]])
    for i in range(len(places)):
        weights[i] = (least / leaves[places[i]]) ** beta


@kernel
def _prioritise(
    leaves: NDArray[np.float64],
    places: NDArray[np.int64],
    errors: NDArray[np.float32],
    alpha: float,
    priorities: NDArray[np.float64],
) -> float:
    """Write the priorities for errors, 0 if no transition starts there; return the largest, -1 for NaN."""
    largest = 0.0
    for i in range(len(places)):
        error = np.float64(errors[i])
        if not np.isfinite(error):
            return -1.0
        priorities[i] = 0.0
        if leaves[places[i]] > 0.0:
            priorities[i] = (abs(error) + EPSILON) ** alpha
            largest = max(largest, priorities[i])
    return largest


_ROOT = 7
_LINE_BYTES = 64
"""Size of a cache line."""


class SumTree:
    """Non-negative priorities of n places; sets priorities, and finds the place for a mass, in log8(n) steps.

    After Schaul et al. 2016, "Prioritized Experience Replay", appendix B.2.1, with eight instead of two children per
    node: they share a cache line, and memory accesses are the main cost in a tree of a million leaves. Each inner node
    is computed as the sum of its children whenever one changes, so rounding errors do not accumulate and the tree
    depends only on its leaves. The root is node 7; the children of node i start at ``8 * (i - 6)``, a multiple of 8.

    Attributes:
        nodes: Inner nodes and leaves, float64; read only.
        leaves: The priorities, float64 (n,), the last part of the nodes.
    """

    def __init__(self, n: int) -> None:
        """Start with priorities of 0."""
        first, n_leaves = 8, 8
        while n_leaves < n:
            first, n_leaves = 8 * (first - 6), 8 * n_leaves
        n_nodes = -(-(first + n) // 8) * 8
        room = np.zeros(n_nodes + 8)
        skipped = -room.ctypes.data % _LINE_BYTES // 8
        self.nodes = room[skipped : skipped + n_nodes]
        self._first_leaf = first
        self.leaves = self.nodes[first : first + n]

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self.nodes[_ROOT])

    def set(self, places: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Set priorities of places, float64 (m,), finite and not negative; the last value of a place counts."""
        _set(self.nodes, places + self._first_leaf, priorities)

    def find(self, masses: NDArray[np.float64], places: NDArray[np.int64]) -> None:
        """Write the place of each mass of 0..total in the cumulative sum of priorities; overwrites the masses."""
        _find(self.nodes, masses, places)
        places -= self._first_leaf

    def load(self, leaves: NDArray[np.float64]) -> None:
        """Replace all priorities, float64 (n,)."""
        self.leaves[:] = leaves
        _sum_up(self.nodes, self._first_leaf)


@kernel
def _set(nodes: NDArray[np.float64], at: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
    """Write leaves, then the sums one level after another, so that the memory accesses of a level overlap.

    ``at`` are the nodes of the leaves, all of one level, int64 (m,); overwritten.
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
    """Descend from the root to the leaves, one level for all masses at once; the root must not be 0.

    In each node the child that contains the mass is chosen; if the mass exceeds the sum because of rounding, the last
    child that is not 0. The masses are overwritten; ``at`` gets the node of each leaf, int64 (m,).
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
