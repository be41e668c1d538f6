"""The interface between an actor and the learner, and the transport inside one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors
from soulslab.learn.replay.step_rows import Outcome


class FightCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a fight as in `FightStats`, by the name of an attack, a phase or a situation; empty if unknown."""

    uses_by_attack: dict[str, float] = {}
    hits_by_attack: dict[str, float] = {}
    decisions_by_phase: dict[str, float] = {}
    damage_dealt_by_phase: dict[str, float] = {}
    damage_taken_by_phase: dict[str, float] = {}
    actions_by_situation: dict[str, tuple[int, ...]] = {}


class EpisodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an episode; ``is_won`` may be unknown (None), for example after its game failed.

    ``total_reward`` is the undiscounted return, ``reward_terms`` the sums of its terms and ``damage_by_attack`` the
    lost hit points, if the environment reports them; ``fight`` has its other counts. ``killed_by`` is the attack that
    ended the episode, "" for none.
    ``start_pose`` is the index of the start pose, -1 for the fixed one. ``actions`` counts how often each action was
    chosen, (A,). ``candidate`` is the number of the policy that an evaluation game played greedily in the whole
    episode; 0 for an episode of training.
    """

    total_reward: float
    n_decisions: int
    n_steps: int
    is_won: bool | None
    reward_terms: dict[str, float]
    damage_by_attack: dict[str, float]
    actions: tuple[int, ...]
    weights_version: int
    killed_by: str = ""
    start_pose: int = -1
    candidate: int = 0
    fight: FightCounts = FightCounts()


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights with which the actor acts, by name, and its share of random actions.

    ``version`` is the number of updates that the learner had made. ``reward_factors`` are factors of terms of the
    reward, by name, for weights that were changed since the start of the run; the actor uses them from the next episode
    on.
    """

    version: int
    epsilon: float
    tensors: Tensors
    reward_factors: dict[str, float] = {}


class ActorEnd(Protocol):
    """The actor's end of a transport; no method waits for the learner."""

    def push(self, rows: NDArray[Any]) -> None:
        """Send the rows of one step of all environments (``step_rows.row_type``) in order, ``FINAL`` rows last."""

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Send the results of episodes."""

    def pull(self, newer_than: int) -> Weights | None:
        """Return the newest weights if their version is higher than ``newer_than``, else None."""


class LearnerEnd(Protocol):
    """The learner's end of a transport."""

    @property
    def n_dropped(self) -> int:
        """Steps that were lost so far."""

    def take(self, max_decisions: int | None = None) -> NDArray[Any]:
        """Return the rows that have arrived since the last call, oldest first; the array may be empty.

        Rows after the step of all environments that reaches ``max_decisions`` game decisions are discarded, and so is
        the rest of their episodes.
        """

    def take_episodes(self) -> list[EpisodeResult]:
        """Return the results that have arrived since the last call, oldest first.

        All rows of their episodes were returned by :meth:`take` before, or were lost. A result that arrives after the
        call of :meth:`take` may therefore be returned one call later.
        """

    def publish(self, weights: Weights) -> None:
        """Make new weights available to the actor."""

    def state(self) -> Tensors:
        """Return what a checkpoint must hold: the position up to which everything was taken."""

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Free everything that was taken before a state that a checkpoint holds."""


class Transport(Protocol):
    """Carries steps and results from one actor to the learner, and weights back."""

    def actor_end(self) -> ActorEnd:
        """Return the actor's end; only one may be in use."""

    def learner_end(self, state: Mapping[str, NDArray[Any]] | None = None) -> LearnerEnd:
        """Return the learner's end, of which only one may be in use; without a state it takes everything that is there.

        The state is that of :meth:`LearnerEnd.state` of a resumed run.
        """


class EpisodeFilter:
    """Removes the rows of episodes of which earlier rows are missing.

    Attributes:
        is_broken: Streams (environments) of which rows are missing since the last start of an episode, bool (N,).
    """

    def __init__(self, n_streams: int) -> None:
        self.is_broken = np.zeros(n_streams, np.bool_)

    def whole(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows that belong to whole episodes; a stream is whole again when an episode starts."""
        if not self.is_broken.any():
            return rows
        keep = np.empty(len(rows), np.bool_)
        for i, (stream, is_first) in enumerate(zip(rows["stream"].tolist(), rows["is_first"].tolist(), strict=True)):
            if is_first:
                self.is_broken[stream] = False
            keep[i] = not self.is_broken[stream]
        return rows[keep]

    def limit(self, rows: NDArray[Any], max_decisions: int | None) -> NDArray[Any]:
        """Return the rows up to the step of all environments that reaches a number of game decisions."""
        if max_decisions is None or len(rows) == 0:
            return rows
        n_kept = _n_rows_until(rows, max_decisions) if max_decisions > 0 else 0
        self.is_broken[rows["stream"][n_kept:]] = True
        return rows[:n_kept]


def _n_rows_until(rows: NDArray[Any], max_decisions: int) -> int:
    """Return the number of rows up to the end of the step that reaches ``max_decisions``."""
    is_step = rows["outcome"] != Outcome.FINAL
    n_decisions = np.cumsum(np.where(is_step, rows["n_decisions"], 0))
    reached = int(np.searchsorted(n_decisions, max_decisions))
    # A step of all environments has ascending streams, and FINAL rows after them.
    is_start = is_step[1:] & (~is_step[:-1] | (rows["stream"][1:] <= rows["stream"][:-1]))
    starts = np.flatnonzero(is_start) + 1
    later = starts[starts > reached]
    return int(later[0]) if len(later) else len(rows)


class InProcessTransport:
    """A transport inside one process, for an actor and a learner that take turns; it is both of its ends."""

    n_dropped: Final = 0

    def __init__(self, row_type: np.dtype[Any], n_streams: int) -> None:
        self._empty = np.empty(0, row_type)
        self._filter = EpisodeFilter(n_streams)
        self._rows: list[NDArray[Any]] = []
        self._results: list[EpisodeResult] = []
        self._weights: Weights | None = None

    def actor_end(self) -> ActorEnd:
        """Return this object."""
        return self

    def learner_end(self, state: Mapping[str, NDArray[Any]] | None = None) -> LearnerEnd:
        """Return this object; nothing outlives the process, so the state is not needed."""
        del state
        return self

    def push(self, rows: NDArray[Any]) -> None:
        """Store a copy of the rows until they are taken."""
        self._rows.append(rows.copy())

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Store the results until they are taken."""
        self._results += results

    def pull(self, newer_than: int) -> Weights | None:
        """Return the weights published last, if they are new."""
        weights = self._weights
        return weights if weights is not None and weights.version > newer_than else None

    def take(self, max_decisions: int | None = None) -> NDArray[Any]:
        """Return all rows stored, up to the limit."""
        rows, self._rows = self._rows, []
        stored = np.concatenate(rows) if rows else self._empty
        return self._filter.limit(self._filter.whole(stored), max_decisions)

    def take_episodes(self) -> list[EpisodeResult]:
        """Return all results stored."""
        results, self._results = self._results, []
        return results

    def publish(self, weights: Weights) -> None:
        """Store the weights in place of those before."""
        self._weights = weights

    def state(self) -> Tensors:
        """Return nothing: a checkpoint of the same process holds everything that was taken."""
        return {}

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Do nothing: rows that were taken are not stored."""
