"""The reward of a game with a profile: a sum of weighted terms over its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.envs.tasks.process.process_settings import POSITION_KINDS, RewardTerm


class ProfileReward:
    """The terms of the reward, with their state in an episode; `names` are the attributes that the terms use."""

    def __init__(self, terms: Mapping[str, RewardTerm]) -> None:
        self.terms = dict(terms)
        self.names = tuple(dict.fromkeys(name for term in terms.values() for name in term.attributes))
        self._positions: dict[str, _PositionTracker] = {}
        self._before: Mapping[str, Any] = {}

    def begin(self, values: Mapping[str, Any]) -> None:
        """Start an episode with the current values of the attributes."""
        self._before = values
        self._positions = {
            name: _PositionTracker(term, values) for name, term in self.terms.items() if term.kind in POSITION_KINDS
        }

    def __call__(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the weighted contribution of each term to the reward of a step, given the values after it."""
        shares = {name: term.weight * self._amount(name, term, values) for name, term in self.terms.items()}
        self._before = values
        return shares

    def _amount(self, name: str, term: RewardTerm, values: Mapping[str, Any]) -> float:
        if term.kind in POSITION_KINDS:
            return self._positions[name].move(values)
        attribute = term.attributes[0]
        value = float(values[attribute])
        if term.kind == "value":
            return value
        change = value - float(self._before[attribute])
        return {"gain": max(change, 0.0), "loss": max(-change, 0.0), "change": change}[term.kind]


class _PositionTracker:
    """Path of a position in an episode, for one reward term."""

    def __init__(self, term: RewardTerm, values: Mapping[str, Any]) -> None:
        self._term = term
        self._start = self._last = self._position(values)
        self._farthest = 0.0
        self._cells = {self._cell(self._start)}

    def move(self, values: Mapping[str, Any]) -> float:
        """Add the position in the values to the path, and return the unweighted reward for it."""
        position = self._position(values)
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

    def _position(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        return np.concatenate([np.atleast_1d(values[name]) for name in self._term.attributes]).astype(np.float64)

    def _cell(self, position: NDArray[np.float64]) -> tuple[int, ...]:
        return tuple(np.floor(position / self._term.cell).astype(np.int64).tolist())
