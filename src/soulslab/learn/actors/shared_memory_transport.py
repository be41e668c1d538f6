"""The transport through shared memory (`transport.ActorEnd`, `transport.LearnerEnd`).

The steps of an environment are useful only as an unbroken sequence. If steps are lost because the memory is full, the
rest of their episode is therefore discarded too, and the learner continues with the next episode of that environment.
A truncated step and its `FINAL` row must be in one call of ``push``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import ChannelError
from soulslab.learn.actors.shared_memory import MESSAGE_PART_BYTES, MESSAGE_PART_TYPE, Memory
from soulslab.learn.actors.transport import EpisodeFilter, EpisodeResult, Weights
from soulslab.learn.archive import Tensors

MESSAGE_VERSION: Final = 1

_log = logging.getLogger(__name__)


class SharedActorEnd:
    """The actor's end; no method waits for the learner."""

    def __init__(self, memory: Memory, n_streams: int) -> None:
        self._memory = memory
        self._filter = EpisodeFilter(n_streams)
        self._n_seen = 0
        self._era = -1
        self._is_full = False

    def push(self, rows: NDArray[Any]) -> None:
        """Send steps; if the memory is full, they and the rest of their episodes are dropped and counted."""
        ring, n = self._memory.rows, len(rows)
        rows = self._filter.whole(rows)
        if len(rows) and not ring.push(rows):
            self._filter.is_broken[rows["stream"]] = True
            rows = rows[:0]
        if len(rows) < n:
            ring.count_dropped(n - len(rows))
        self._log_space(is_full=bool(self._filter.is_broken.any()))

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Send the results of episodes; if the memory is full, they are dropped and counted."""
        ring = self._memory.episode_parts
        for result in results:
            parts = _split(msgspec.msgpack.encode(result))
            if not ring.push(parts):
                ring.count_dropped(len(parts))

    def pull(self, newer_than: int) -> Weights | None:
        """Return the newest weights if their version is higher, or if a resumed learner published them.

        A learner that resumed from a checkpoint continues its count of updates, so its versions can be lower.
        """
        board = self._memory.weights
        if board.n_published == self._n_seen:
            return None
        n_published = board.n_published
        published = board.read()
        if published is None:
            return None
        self._n_seen = n_published
        is_new_era, self._era = published.era != self._era, published.era
        if not is_new_era and published.weights.version <= newer_than:
            return None
        self._memory.status.set_version(published.weights.version)
        return published.weights

    def _log_space(self, *, is_full: bool) -> None:
        if is_full and not self._is_full:
            _log.warning("the shared memory is full, because no learner takes the steps; new steps are dropped")
        elif self._is_full and not is_full:
            _log.info("the shared memory has space again; %d steps have been dropped", self._memory.rows.n_dropped)
        self._is_full = is_full


class SharedLearnerEnd:
    """The learner's end; its position is part of the checkpoints.

    Steps that were taken stay in the memory until a checkpoint holds them (`commit`), so that a resumed learner can
    take them again. They may fill half of the memory; then the oldest of them are freed, so that no new step is
    dropped.
    """

    def __init__(self, memory: Memory, n_streams: int, state: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Open the learner's end; only one process at a time may use it.

        Everything that arrived after ``state`` (from :meth:`state`) is taken again. None takes everything in the
        memory, and so does a state that belongs to another memory, for example after a reboot. Raises ChannelError if
        the memory does not match the state.
        """
        self._memory = memory
        self._filter = EpisodeFilter(n_streams)
        self._message = bytearray()
        rows_at = episodes_at = 0
        if state is not None:
            token, *positions = (int(each) for each in state["positions"])
            if token == memory.token:
                rows_at, episodes_at = positions
                self._filter.is_broken[:] = state["broken"]
            else:
                _log.warning("the shared memory has been made anew; steps after the checkpoint are lost")
        self._n_lost = memory.rows.go_to(rows_at)
        if self._n_lost:
            _log.warning("%d steps after the checkpoint are lost, because their space was reused", self._n_lost)
            self._filter.is_broken[:] = True
        memory.episode_parts.go_to(episodes_at)
        self._episodes_at = self._known_parts = memory.episode_parts.position
        memory.weights.begin_era()

    @property
    def n_dropped(self) -> int:
        """Steps that were lost so far: dropped by the actor, or overwritten before a resumed learner took them."""
        return self._memory.rows.n_dropped + self._n_lost

    def take(self, max_decisions: int | None = None) -> NDArray[Any]:
        """Return the rows that have arrived since the last call, oldest first; see `transport.LearnerEnd`."""
        # The actor sends the rows of an episode before its result, so all rows of these results are taken now.
        self._known_parts = self._memory.episode_parts.head
        rows = self._memory.rows.take()
        if max_decisions is not None and max_decisions <= 0:  # rows after the limit do not count as lost
            return self._filter.limit(rows, max_decisions)
        whole = self._filter.whole(rows)
        self._n_lost += len(rows) - len(whole)
        return self._filter.limit(whole, max_decisions)

    def take_episodes(self) -> list[EpisodeResult]:
        """Return the results that had arrived when :meth:`take` was called, oldest first."""
        ring = self._memory.episode_parts
        parts = ring.take(self._known_parts)
        results = []
        for number, record in enumerate(parts, start=ring.position - len(parts) + 1):
            if record["is_first"]:
                self._message = bytearray()
            elif not self._message:
                continue  # its first part is lost
            n_left = int(record["n_left"])
            self._message += record["text"][:n_left].tobytes()
            if n_left <= MESSAGE_PART_BYTES:
                results.append(self._decode(int(record["version"])))
                self._message, self._episodes_at = bytearray(), number
        return results

    def publish(self, weights: Weights) -> None:
        """Make new weights available to the actor."""
        self._memory.weights.publish(weights)

    def state(self) -> Tensors:
        """Return what a checkpoint must hold: the position up to which everything was taken."""
        positions = (self._memory.token, self._memory.rows.position, self._episodes_at)
        return {"positions": np.array(positions, np.uint64), "broken": self._filter.is_broken.copy()}

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Free everything that was taken before a state that a checkpoint holds."""
        _, rows_at, episodes_at = (int(each) for each in state["positions"])
        self._memory.rows.free(rows_at)
        self._memory.episode_parts.free(episodes_at)

    @property
    def is_all_committed(self) -> bool:
        """Whether the checkpoints hold everything in the memory."""
        return all(ring.freed == ring.head for ring in (self._memory.rows, self._memory.episode_parts))

    def _decode(self, version: int) -> EpisodeResult:
        if version != MESSAGE_VERSION:
            raise ChannelError(
                "episodes",
                f"a message has version {version}, but this soulslab reads version {MESSAGE_VERSION}; end its actor",
            )
        return msgspec.msgpack.decode(self._message, type=EpisodeResult)


class SharedMemoryTransport:
    """A transport between two processes; each has its own object over the same memory."""

    def __init__(self, memory: Memory, n_streams: int) -> None:
        self._memory = memory
        self._n_streams = n_streams

    def actor_end(self) -> SharedActorEnd:
        """Return the actor's end; one process at a time may use it."""
        return SharedActorEnd(self._memory, self._n_streams)

    def learner_end(self, state: Mapping[str, NDArray[Any]] | None = None) -> SharedLearnerEnd:
        """Return the learner's end; see `SharedLearnerEnd`."""
        return SharedLearnerEnd(self._memory, self._n_streams, state)


def _split(message: bytes) -> NDArray[Any]:
    """Return a message in parts of the size of a record."""
    starts = range(0, len(message), MESSAGE_PART_BYTES)
    parts = np.zeros(len(starts), MESSAGE_PART_TYPE)
    for record, start in zip(parts, starts, strict=True):
        text = message[start : start + MESSAGE_PART_BYTES]
        record["version"] = MESSAGE_VERSION
        record["is_first"] = start == 0
        record["n_left"] = len(message) - start
        record["text"][: len(text)] = np.frombuffer(text, np.uint8)
    return parts
