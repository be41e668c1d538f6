"""Weights of the reward that change while a run trains, applied to the terms that the environments report."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from soulslab.learn.actors.episode_window import reward_terms
from soulslab.learn.environment import Info

_log = logging.getLogger(__name__)


class RewardFactors:
    """Factors of the terms of the reward of N environments; an episode has the same factors from start to end."""

    def __init__(self, n_envs: int) -> None:
        """Start with factors of 1, which change nothing."""
        self._wanted: dict[str, float] = {}
        self._names: list[str] = []
        self._next = np.ones(0)
        self._present = np.ones((n_envs, 0))
        self._unknown: set[str] = set()

    def change(self, factors: Mapping[str, float]) -> None:
        """Use these factors, by term, from the next episodes on; terms without one have the factor 1."""
        if factors == self._wanted:
            return
        self._wanted = dict(factors)
        new = [name for name in factors if name not in self._names]
        self._names += new
        self._next = np.array([factors.get(name, 1.0) for name in self._names])
        self._present = np.hstack([self._present, np.ones((len(self._present), len(new)))])

    def begin(self, is_first: NDArray[np.bool_]) -> None:
        """Begin the episodes of some environments, a mask (N,)."""
        self._present[is_first] = self._next

    def apply(self, rewards: NDArray[np.float64], info: Info) -> tuple[NDArray[np.float64], Info]:
        """Return the rewards of a step, (N,), and its info, both with the factors.

        A term that the environment does not report keeps its weight, which is logged once.
        """
        if not self._names:
            return rewards, info
        rewards, terms = rewards.astype(np.float64), reward_terms(info)
        for factors, name in zip(self._present.T, self._names, strict=True):
            if name in terms:
                change = (factors - 1.0) * terms[name]
                terms[name] = terms[name] + change
                rewards += change
            elif name not in self._unknown:
                self._unknown.add(name)
                _log.warning("the weight of %r does not change: the environment does not report this term", name)
        final = {key: value for key, value in info.get("final_info", {}).items() if key != "reward_terms"}
        return rewards, {**info, "reward_terms": terms, "final_info": final}
