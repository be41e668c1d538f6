"""Averages what updates did between two messages."""

from __future__ import annotations

import numpy as np

from soulslab.learn.rainbow.learner import Measured


class LearningMeter:
    """Means over the updates since the last message."""

    def __init__(self) -> None:
        self._measured: list[Measured] = []

    def add(self, measured: Measured) -> None:
        """Take in one update."""
        self._measured.append(measured)

    def take(self) -> tuple[int, Measured] | None:
        """Return the number of updates since the last call and their means; None if there were none."""
        if not self._measured:
            return None
        measured, self._measured = self._measured, []
        return len(measured), Measured(*np.mean(measured, axis=0).tolist())
