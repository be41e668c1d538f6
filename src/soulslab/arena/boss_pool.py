"""Bosses drawn from the intervals of a fitted boss, for the fights of one simulator.

The simulator plays each fight against a random boss of the pool. The pool is renewed while training goes on: whenever
some decisions have passed, a boss that no fight uses is replaced by a new one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.simulator import Simulator
from soulslab.arena.uncertainty import Uncertainty, draw_boss

#: Bosses of the pool in addition to one for each fight, so that some are always unused.
N_SPARE: Final = 64
#: Decisions between two new bosses, each of which takes some milliseconds.
RENEW_DECISIONS: Final = 20_000
#: Rounding error of a factor in a saved state: states of earlier versions can exceed the factors by one.
_ROUNDING: Final = 1e-9


class BossPool:
    """The bosses of a simulator with ``n_bosses`` rows; boss number i of the pool is the same in every run.

    Args:
        simulator: The simulator, with the fitted boss in all rows.
        uncertainty: The intervals.
        widths: Factor of the widths of the intervals at the beginning, and in the end.
        interval_decisions: Decisions in which the factor changes linearly from the first to the second.
    """

    def __init__(
        self, simulator: Simulator, uncertainty: Uncertainty, widths: tuple[float, float], interval_decisions: int
    ) -> None:
        self._simulator = simulator
        self._uncertainty = uncertainty
        self._widths = widths
        self._interval_decisions = interval_decisions
        #: The rules of all fights, as bytes: the fitted boss, the options and the intervals.
        self.rules = simulator.fight[:1].tobytes() + msgspec.json.encode(uncertainty)
        n_rows = len(simulator.fight)
        # Per row: the number of its boss, and the factor of the widths with which it was drawn.
        self._numbers = np.full(n_rows, -1)
        self._factors = np.zeros(n_rows)
        self._n_decisions = np.zeros(1, np.int64)
        self.restart()

    @property
    def width(self) -> float:
        """Present factor of the widths of the intervals."""
        share = min(float(self._n_decisions[0]) / self._interval_decisions, 1.0)
        first, last = self._widths
        # The sum can exceed both by a rounding error.
        return min(max(first + share * (last - first), min(first, last)), max(first, last))

    @property
    def changes_hp(self) -> bool:
        """Whether the bosses can have other health than the fitted boss."""
        hp = float(self._simulator.boss.hp)
        return self._uncertainty.intervals.get("hp", (hp, hp)) != (hp, hp)

    def restart(self) -> None:
        """Return to the bosses and the width of the beginning."""
        n_rows = len(self._numbers)
        self._n_decisions[0] = 0
        self._fill(np.arange(n_rows), np.full(n_rows, self.width))

    def count_decisions(self, n: int) -> None:
        """Count decisions, and renew as many bosses as are due."""
        before = int(self._n_decisions[0]) // RENEW_DECISIONS
        self._n_decisions[0] += n
        for _ in range(min(int(self._n_decisions[0]) // RENEW_DECISIONS - before, N_SPARE)):
            used = np.bincount(self._simulator.duels["fight"], minlength=len(self._numbers)) > 0
            # The oldest boss that no fight uses.
            row = int(np.argmin(np.where(used, np.iinfo(np.int64).max, self._numbers)))
            self._draw(row, int(self._numbers.max()) + 1, self.width)

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return views of the arrays that change, from which `load` restores the bosses."""
        return {"boss_numbers": self._numbers, "boss_factors": self._factors, "boss_decisions": self._n_decisions}

    def find_problem(self, state: dict[str, NDArray[Any]]) -> str | None:
        """Return a message about values of ``state`` that `state_arrays` cannot have, or None."""
        numbers, factors = state["boss_numbers"], state["boss_factors"]
        least, greatest = sorted(self._widths)
        is_between = (factors >= least - _ROUNDING) & (factors <= greatest + _ROUNDING)
        if (numbers < 0).any() or not is_between.all():
            return "boss_numbers or boss_factors are out of range"
        return "boss_decisions is negative" if state["boss_decisions"][0] < 0 else None

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the bosses of `state_arrays`."""
        self._n_decisions[:] = state["boss_decisions"]
        self._fill(state["boss_numbers"], state["boss_factors"])

    def _fill(self, numbers: NDArray[np.int64], factors: NDArray[np.float64]) -> None:
        """Draw the bosses of all rows that have none yet."""
        for row in np.flatnonzero((numbers != self._numbers) | (factors != self._factors)).tolist():
            self._draw(row, int(numbers[row]), float(factors[row]))

    def _draw(self, row: int, number: int, factor: float) -> None:
        rng = np.random.default_rng(number)
        boss = draw_boss(self._simulator.boss, self._uncertainty, rng, width=factor)
        self._simulator.set_boss(row, boss)
        self._numbers[row], self._factors[row] = number, factor
