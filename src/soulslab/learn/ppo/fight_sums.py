"""Sums over the training fights of PPO since the last message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.telemetry import FightStats

MIN_REPORTED: Final = 100
"""Smallest number of fights in a message; PPO finishes some hundred fights per second."""


class FightSums:
    """Sums over finished fights, from the reports of the environments.

    Attributes:
        n_fights: Number of fights since the last message.
    """

    def __init__(self, attack_names: Sequence[str]) -> None:
        """Start without fights; the names are in the order of ``info["fight"]["damage_by_attack"]``."""
        self._names = tuple(attack_names)
        self._clear()

    def add(self, fight: dict[str, NDArray[Any]], finished: NDArray[np.intp]) -> None:
        """Add the fights of some environments; ``fight`` has the reports of all, arrays (N, ...)."""
        self.n_fights += len(finished)
        if self._names and "damage_by_attack" in fight:
            self._damage += np.stack(list(fight["damage_by_attack"][finished])).sum(axis=0)
            killers = fight["killed_by"][finished].astype(np.int64)
            self._kills += np.bincount(killers[killers >= 0], minlength=len(self._names))
        if "start_pose" in fight:
            for pose, won in zip(fight["start_pose"][finished].tolist(), fight["won"][finished].tolist(), strict=True):
                if pose >= 0:
                    self._poses.setdefault(int(pose), []).append(bool(won))

    def take(self, env_steps: int) -> FightStats | None:
        """Return the means and start anew; None before there are `MIN_REPORTED` fights."""
        n = self.n_fights
        if n < MIN_REPORTED:
            return None
        stats = FightStats(
            env_steps=env_steps,
            n_fights=n,
            reward_terms={},
            damage_by_attack=dict(zip(self._names, (self._damage / n).tolist(), strict=True)),
            kills_by_attack=dict(zip(self._names, (self._kills / n).tolist(), strict=True)),
            wins_by_pose={str(pose): sum(won) / len(won) for pose, won in sorted(self._poses.items())},
        )
        self._clear()
        return stats

    def _clear(self) -> None:
        self.n_fights = 0
        self._damage = np.zeros(len(self._names))
        self._kills = np.zeros(len(self._names), np.int64)
        self._poses: dict[int, list[bool]] = {}
