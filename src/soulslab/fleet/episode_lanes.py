"""Assignment of the episodes of any number of games to the streams of a replay buffer.

A replay buffer has a fixed number of streams, here called lanes, and the rows of an episode must be consecutive in one
of them. A game takes a free lane, the one with the fewest rows, when an episode starts, and frees it when the episode
ends. If there are more games than lanes, the rows of a game without a lane wait, and its whole episode follows as soon
as a lane is free. So no row is lost, whatever the number of games, and all lanes fill evenly.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors
from soulslab.learn.replay.step_rows import Outcome, as_bytes, join_rows, pick_rows

Source: TypeAlias = tuple[str, int]
"""An environment of a game: the incarnation of the game, and the number of the environment."""

_WAITING: Final = -1
_ENDS: Final = (int(Outcome.TERMINATED), int(Outcome.FINAL))


class _State(msgspec.Struct):
    n_written: list[int]
    held: list[tuple[Source, int]]
    waiting: list[tuple[Source, int]]


class EpisodeLanes:
    """The lanes, the games that hold one, and the rows that wait."""

    def __init__(self, n_lanes: int, row_type: np.dtype[Any]) -> None:
        self._row_type = row_type
        self._n_written = [0] * n_lanes
        self._free = set(range(n_lanes))
        self._held: dict[Source, int] = {}
        self._waiting: dict[Source, list[NDArray[Any]]] = {}

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for a lane."""
        return sum(len(rows) for parts in self._waiting.values() for rows in parts)

    def holders(self) -> set[str]:
        """Return the incarnations of the games that hold a lane."""
        return {incarnation for incarnation, _ in list(self._held)}

    def route(self, incarnation: str, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the rows of a game that have a lane, with it as their stream; rows that waited before may follow.

        The rows of each environment must be in order. ``is_first`` is set where an episode continues in another lane.
        """
        lanes = np.full(len(rows), _WAITING, np.int64)
        is_first = rows["is_first"].copy()
        for env in np.flatnonzero(np.bincount(rows["stream"])).tolist():
            where = np.flatnonzero(rows["stream"] == env)
            self._route_env((incarnation, env), rows, where, (lanes, is_first))
        return [_in_lanes(rows, lanes, is_first), *self._serve()]

    def drop(self, incarnation: str) -> list[NDArray[Any]]:
        """Free the lanes of a game that has ended, and return rows that waited for them; its own are not dropped."""
        for source in [source for source in self._held if source[0] == incarnation]:
            self._release(source)
        return self._serve()

    def state(self) -> Tensors:
        """Return everything that :meth:`load` needs."""
        parts = {source: join_rows(rows) for source, rows in self._waiting.items()}
        waiting = [(source, len(rows)) for source, rows in parts.items()]
        state = _State(self._n_written, list(self._held.items()), waiting)
        rows = join_rows(list(parts.values())) if parts else np.empty(0, self._row_type)
        encoded = np.frombuffer(msgspec.msgpack.encode(state), np.uint8).copy()
        return {"lanes": encoded, "waiting": as_bytes(rows).copy()}

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned, with the same number of lanes."""
        found = msgspec.msgpack.decode(state["lanes"].tobytes(), type=_State)
        if len(found.n_written) != len(self._n_written):
            raise ValueError(f"a state of {len(found.n_written)} lanes, but there are {len(self._n_written)}")
        self._n_written = found.n_written
        self._held = dict(found.held)
        self._free -= set(self._held.values())
        rows = np.frombuffer(state["waiting"].tobytes(), self._row_type)
        start = 0
        for source, n in found.waiting:
            self._waiting[source] = [rows[start : start + n]]
            start += n

    def _route_env(
        self,
        source: Source,
        rows: NDArray[Any],
        where: NDArray[np.intp],
        columns: tuple[NDArray[np.int64], NDArray[np.uint8]],
    ) -> None:
        """Write lanes and first rows of the rows ``where`` of one environment; store them if they have to wait."""
        if source in self._waiting:
            self._waiting[source].append(pick_rows(rows, where))
            return
        lanes, is_first = columns
        outcomes, starts = rows["outcome"][where], rows["is_first"][where]
        start = 0
        for end in _episode_ends(outcomes, starts).tolist():
            if starts[start]:
                self._release(source)  # an episode that was broken off holds a lane until here
            lane = self._held.get(source)
            if lane is None and (self._waiting or not self._free):
                self._waiting[source] = [pick_rows(rows, where[start:])]
                return
            if lane is None:
                lane = self._acquire(source)
                is_first[where[start]] = True
            lanes[where[start:end]] = lane
            self._n_written[lane] += end - start
            if outcomes[end - 1] in _ENDS:
                self._release(source)
            start = end

    def _serve(self) -> list[NDArray[Any]]:
        """Give free lanes to the games that wait, longest first; return their rows."""
        served = []
        while self._waiting and self._free:
            source = next(iter(self._waiting))
            rows = join_rows(self._waiting.pop(source))
            end = int(_episode_ends(rows["outcome"], rows["is_first"])[0])
            lane = self._acquire(source)
            self._n_written[lane] += end
            rows["is_first"][0] = True
            rows["stream"][:end] = lane
            served.append(rows[:end])
            if rows["outcome"][end - 1] in _ENDS:
                self._release(source)
            if end < len(rows):  # its next episode waits behind those of other games
                self._waiting[source] = [rows[end:]]
        return served

    def _acquire(self, source: Source) -> int:
        lane = min(self._free, key=lambda each: (self._n_written[each], each))
        self._free.remove(lane)
        self._held[source] = lane
        return lane

    def _release(self, source: Source) -> None:
        lane = self._held.pop(source, None)
        if lane is not None:
            self._free.add(lane)


def _in_lanes(rows: NDArray[Any], lanes: NDArray[np.int64], is_first: NDArray[np.uint8]) -> NDArray[Any]:
    """Return a copy of the rows that have a lane, with it as their stream."""
    has_lane = lanes != _WAITING
    placed = pick_rows(rows, has_lane)
    placed["stream"], placed["is_first"] = lanes[has_lane], is_first[has_lane]
    return placed


def _episode_ends(outcomes: NDArray[np.uint8], is_first: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the indices after the last row of each episode, and after the last row, of one environment."""
    is_end = (outcomes == Outcome.TERMINATED) | (outcomes == Outcome.FINAL)
    is_end[:-1] |= is_first[1:].astype(np.bool_)
    is_end[-1] = True
    return np.flatnonzero(is_end) + 1
