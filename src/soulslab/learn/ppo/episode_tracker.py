"""Statistics of the training episodes of PPO: moving averages, and sums over the fights since the last message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors
from soulslab.learn.environment import FightNames
from soulslab.learn.telemetry import FightStats

MIN_REPORTED: Final = 20
"""Smallest number of fights in a message."""

REPORT_EVERY_S: Final = 1.0
"""Shortest time between two messages (s); in simulators PPO finishes some hundred fights per second."""

_KEPT: Final = (
    *("damage_by_attack", "uses_by_attack", "hits_by_attack", "killed_by", "won", "start_pose"),
    *("decisions_by_phase", "damage_taken_by_phase", "damage_dealt_by_phase", "actions_by_situation"),
)
"""Values of ``info["fight"]`` that are kept."""


class FightSums:
    """The reports of finished fights, and the chosen actions; they are only summed when a message is due.

    Attributes:
        n_fights: Number of fights since the last message.
    """

    def __init__(self, names: FightNames, n_actions: int) -> None:
        """Start without fights; ``names`` are those of the environment's reports."""
        self._names = names
        self._n_actions = n_actions
        self._clear()

    def add(self, fight: Mapping[str, NDArray[Any]], finished: NDArray[np.intp]) -> None:
        """Add the fights of some environments; ``fight`` has the reports of all, arrays (N, ...), or is empty."""
        self.n_fights += len(finished)
        for name, rows in self._rows.items():
            if name in fight:
                rows.append(fight[name][finished])

    def add_actions(self, actions: NDArray[np.int64]) -> None:
        """Count chosen actions, an array of any shape."""
        self._actions += np.bincount(actions.reshape(-1), minlength=self._n_actions)

    def take(self, env_steps: int, seconds: float) -> FightStats | None:
        """Return the means and start anew; None before `MIN_REPORTED` fights and `REPORT_EVERY_S`.

        ``seconds`` is the time since the last call.
        """
        n = self.n_fights
        self._seconds += seconds
        if n < MIN_REPORTED or self._seconds < REPORT_EVERY_S:
            return None
        dealt, taken = self._by_phase("damage_dealt_by_phase"), self._by_phase("damage_taken_by_phase")
        stats = FightStats(
            env_steps=env_steps,
            n_fights=n,
            reward_terms={},
            damage_by_attack=self._by_attack("damage_by_attack"),
            uses_by_attack=self._by_attack("uses_by_attack"),
            hits_by_attack=self._by_attack("hits_by_attack"),
            kills_by_attack=self._kills(),
            wins_by_pose=self._wins_by_pose(),
            damage_dealt=sum(dealt.values()) if dealt else None,
            damage_taken=sum(taken.values()) if taken else None,
            decisions_by_phase=self._by_phase("decisions_by_phase"),
            damage_dealt_by_phase=dealt,
            damage_taken_by_phase=taken,
            action_shares=_shares(self._actions),
            actions_by_situation=self._actions_by_situation(),
        )
        self._clear()
        return stats

    def _clear(self) -> None:
        self.n_fights = 0
        self._seconds = 0.0
        self._rows: dict[str, list[NDArray[Any]]] = {name: [] for name in _KEPT}
        self._actions = np.zeros(self._n_actions, np.int64)

    def _all(self, name: str) -> NDArray[Any] | None:
        """Return a value of all fights, (n_fights, ...); None if it was not reported."""
        rows = [row for part in self._rows[name] for row in part]
        return np.stack(rows) if rows else None

    def _by_attack(self, name: str) -> dict[str, float]:
        rows = self._all(name) if self._names.attacks else None
        if rows is None:
            return {}
        return dict(zip(self._names.attacks, rows.mean(axis=0).tolist(), strict=True))

    def _by_phase(self, name: str) -> dict[str, float]:
        rows = self._all(name)
        if rows is None:
            return {}
        return {str(phase): mean for phase, mean in enumerate(rows.mean(axis=0).tolist(), start=1)}

    def _kills(self) -> dict[str, float]:
        killers = self._all("killed_by") if self._names.attacks else None
        if killers is None:
            return {}
        counts = np.bincount(killers[killers >= 0].astype(np.int64), minlength=len(self._names.attacks))
        return dict(zip(self._names.attacks, (counts / len(killers)).tolist(), strict=True))

    def _wins_by_pose(self) -> dict[str, float]:
        poses, won = self._all("start_pose"), self._all("won")
        if poses is None or won is None:
            return {}
        return {str(pose): float(won[poses == pose].mean()) for pose in np.unique(poses[poses >= 0]).tolist()}

    def _actions_by_situation(self) -> dict[str, tuple[float, ...]]:
        rows = self._all("actions_by_situation") if self._names.situations else None
        if rows is None:
            return {}
        return dict(zip(self._names.situations, map(_shares, rows.sum(axis=0, dtype=np.int64)), strict=True))


def _shares(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the share of each count in their sum; empty without counts."""
    total = int(counts.sum())
    return tuple((counts / total).tolist()) if total else ()


WINDOW: Final = 1000
"""Number of episodes in the moving averages."""

_WIN, _RETURN, _DECISIONS = range(3)


class EpisodeTracker:
    """Moving averages over the last episodes of N environments; ``steps`` (N,) counts the running ones.

    Attributes:
        fights: Sums over the fights since the last message; a checkpoint does not hold them.
    """

    def __init__(self, n_envs: int, n_actions: int, names: FightNames) -> None:
        self.fights = FightSums(names, n_actions)
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
            self.fights.add(fight, finished[known])
        else:
            self.fights.add({}, finished)
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
