"""The reward of a game that is described by a profile: weighted terms of what happened to its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.envs.tasks.process.process_settings import PLACE_KINDS, RewardTerm


class Rewards:
    """The terms of the reward and what they have to remember of an episode.

    Args:
        terms: By name.
    """

    def __init__(self, terms: Mapping[str, RewardTerm]) -> None:
        self.terms = dict(terms)
        self.names = tuple(dict.fromkeys(name for term in terms.values() for name in term.attributes))
        self._places = {name: _Place(term) for name, term in terms.items() if term.kind in PLACE_KINDS}
        self._before: Mapping[str, Any] = {}

    def begin(self, values: Mapping[str, Any]) -> None:
        """Start an episode with what its attributes are now."""
        self._before = values
        for place in self._places.values():
            place.begin(place.at(values))

    def __call__(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return what each term adds to the reward, weighted, for a step that led to these values."""
        shares = {name: term.weight * self._amount(name, term, values) for name, term in self.terms.items()}
        self._before = values
        return shares

    def no_shares(self) -> dict[str, float]:
        """Return the contribution of each term to a reward of 0."""
        return dict.fromkeys(self.terms, 0.0)

    def _amount(self, name: str, term: RewardTerm, values: Mapping[str, Any]) -> float:
        if term.kind in PLACE_KINDS:
            place = self._places[name]
            return place.move(place.at(values))
        attribute = term.attributes[0]
        value = float(values[attribute])
        if term.kind == "value":
            return value
        change = value - float(self._before[attribute])
        return {"gain": max(change, 0.0), "loss": max(-change, 0.0), "change": change}[term.kind]


class _Place:
    """A position, and what a term remembers of where it has been."""

    def __init__(self, term: RewardTerm) -> None:
        self._term = term
        self._start: NDArray[np.float64] = np.zeros(0)
        self._last: NDArray[np.float64] = np.zeros(0)
        self._farthest = 0.0
        self._cells: set[tuple[int, ...]] = set()

    def at(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the position in values that were read."""
        return np.concatenate([np.atleast_1d(values[name]) for name in self._term.attributes]).astype(np.float64)

    def begin(self, position: NDArray[np.float64]) -> None:
        """Forget where it has been."""
        self._start = self._last = position
        self._farthest = 0.0
        self._cells = {self._cell(position)}

    def move(self, position: NDArray[np.float64]) -> float:
        """Take a new position; return what it is worth."""
        moved = float(np.linalg.norm(position - self._last))
        self._last = position
        if self._term.kind == "distance":
            return moved
        if self._term.kind == "farthest":
            reached = float(np.linalg.norm(position - self._start))
            progress = max(0.0, reached - self._farthest)
            self._farthest += progress
            return progress
        cell = self._cell(position)
        is_new = cell not in self._cells
        self._cells.add(cell)
        return float(is_new)

    def _cell(self, position: NDArray[np.float64]) -> tuple[int, ...]:
        return tuple(np.floor(position / self._term.cell).astype(np.int64).tolist())
