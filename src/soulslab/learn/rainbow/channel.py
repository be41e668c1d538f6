"""What actor and learner say to each other; neither knows how far away the other is.

The loop that calls it, as the actor sees it::

    weights = channel.pull(newer_than=version)   # at times; None if there are none
    channel.push(rows)                           # after each step
    channel.push_episodes(results)               # after each episode

and as the learner does::

    rows = channel.take()                        # all that have come
    results = channel.take_episodes()
    channel.publish(weights)                     # at times
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors


class EpisodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode came to.

    Attributes:
        total_reward: Its undiscounted return.
        n_decisions: Game decisions it took.
        n_steps: Environment steps it took.
        is_won: Whether it was won; None where nobody can tell, as when its game failed.
        reward_terms: Share of each term of the reward in the return, where the environment tells.
        damage_by_attack: Hit points that each attack of the boss took, by its name, where the environment tells.
        actions: How often each action was chosen, (A,).
        weights_version: Version of the weights with which it ended.
    """

    total_reward: float
    n_decisions: int
    n_steps: int
    is_won: bool | None
    reward_terms: dict[str, float]
    damage_by_attack: dict[str, float]
    actions: tuple[int, ...]
    weights_version: int


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What the actor acts with.

    Attributes:
        version: Updates that the learner had made; newer ones have a higher number.
        epsilon: Share of random open actions.
        tensors: The policy's tensors by name (``QPolicy.state``).
    """

    version: int
    epsilon: float
    tensors: Tensors


class ActorEnd(Protocol):
    """The actor's end of a channel; nothing here ever waits for the learner."""

    def push(self, rows: NDArray[Any]) -> None:
        """Hand over steps, a record array of ``elements.row_type``, in the order in which they were lived."""

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Hand over what episodes came to."""

    def pull(self, newer_than: int) -> Weights | None:
        """Return the newest weights if their version is higher than ``newer_than``, else None."""


class LearnerEnd(Protocol):
    """The learner's end of a channel."""

    def take(self) -> NDArray[Any]:
        """Return the steps that have come since the last call, oldest first; maybe none."""

    def take_episodes(self) -> list[EpisodeResult]:
        """Return the results that have come since the last call, oldest first."""

    def publish(self, weights: Weights) -> None:
        """Offer new weights to the actor."""


class LocalChannel:
    """Both ends in one process, for an actor and a learner that take turns."""

    def __init__(self, row_type: np.dtype[Any]) -> None:
        """Make an empty channel for rows of this type."""
        self._empty = np.empty(0, row_type)
        self._rows: list[NDArray[Any]] = []
        self._results: list[EpisodeResult] = []
        self._weights: Weights | None = None

    def push(self, rows: NDArray[Any]) -> None:
        """Keep a copy of the rows until they are taken."""
        self._rows.append(rows.copy())

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Keep the results until they are taken."""
        self._results += results

    def pull(self, newer_than: int) -> Weights | None:
        """Return the weights published last, if they are new."""
        weights = self._weights
        return weights if weights is not None and weights.version > newer_than else None

    def take(self) -> NDArray[Any]:
        """Return all rows kept."""
        rows, self._rows = self._rows, []
        return np.concatenate(rows) if rows else self._empty

    def take_episodes(self) -> list[EpisodeResult]:
        """Return all results kept."""
        results, self._results = self._results, []
        return results

    def publish(self, weights: Weights) -> None:
        """Keep the weights; those before are forgotten."""
        self._weights = weights
