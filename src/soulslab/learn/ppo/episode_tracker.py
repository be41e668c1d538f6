"""Statistics of PPO's training episodes: returns, lengths and wins."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors

WINDOW: Final = 1000
"""Number of episodes in the moving averages."""

_WIN, _RETURN, _DECISIONS = range(3)


class EpisodeTracker:
    """Moving averages over the last episodes of N environments; ``steps`` (N,) counts the running ones."""

    def __init__(self, n_envs: int) -> None:
        self.n_episodes = 0
        self.steps = np.zeros(n_envs, np.int64)
        self._decisions = np.zeros(n_envs, np.int64)
        self._returns = np.zeros(n_envs)
        # One row per finished episode: won (NaN if unknown), return, decisions.
        self._window = np.full((WINDOW, 3), np.nan)

    def record(
        self,
        rewards: NDArray[np.float64],
        decisions: NDArray[np.int64],
        dones: NDArray[np.bool_],
        info: dict[str, Any],
    ) -> None:
        """Record one step of all environments, arrays (N,); wins are in ``final_info["fight"]["won"]``."""
        self.steps += 1
        self._decisions += decisions
        self._returns += rewards
        finished = np.flatnonzero(dones)
        if len(finished) == 0:
            return
        rows = np.full((len(finished), 3), np.nan)
        fight = info.get("final_info", {}).get("fight", {})
        if "won" in fight:
            # An episode that ended because its game failed has no result.
            known = fight.get("_won", dones)[finished]
            rows[known, _WIN] = fight["won"][finished][known]
        rows[:, _RETURN] = self._returns[finished]
        rows[:, _DECISIONS] = self._decisions[finished]
        places = (self.n_episodes + np.arange(len(finished))) % WINDOW
        self._window[places] = rows
        self.n_episodes += len(finished)
        self.forget_running(finished)

    @property
    def is_full(self) -> bool:
        """Whether the averages cover a full window."""
        return self.n_episodes >= WINDOW

    @property
    def win_rate(self) -> float | None:
        """Share of wins among the last episodes; None if no result is known."""
        return self._mean(_WIN)

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last episodes; None before the first."""
        return self._mean(_RETURN)

    @property
    def mean_decisions(self) -> float | None:
        """Mean length of the last episodes (game decisions); None before the first."""
        return self._mean(_DECISIONS)

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs."""
        return {
            "n_episodes": np.array([self.n_episodes]),
            "steps": self.steps.copy(),
            "decisions": self._decisions.copy(),
            "returns": self._returns.copy(),
            "window": self._window.copy(),
        }

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned."""
        self.n_episodes = int(state["n_episodes"][0])
        self.steps[:] = state["steps"]
        self._decisions[:] = state["decisions"]
        self._returns[:] = state["returns"]
        self._window[:] = state["window"]

    def forget_running(self, envs: NDArray[np.intp] | slice = slice(None)) -> None:
        """Discard the running episodes of environments that were reset, by default of all."""
        for values in (self.steps, self._decisions, self._returns):
            values[envs] = 0

    def _mean(self, column: int) -> float | None:
        values = self._window[: min(self.n_episodes, WINDOW), column]
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else None
