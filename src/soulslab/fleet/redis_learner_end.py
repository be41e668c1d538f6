"""The learner's end of the transport over Redis (`soulslab.learn.actors.transport.LearnerEnd`).

The position of the learner, the number of the last message of each game, is in its checkpoints together with what it
took. A stream is trimmed only up to a position that a checkpoint holds. A resumed learner therefore takes each
acknowledged message exactly once, whatever was killed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from redis import Redis

from soulslab.errors import ChunkRefusedError, FleetError
from soulslab.fleet.access import Access
from soulslab.fleet.chunk import Chunk
from soulslab.fleet.episode_lanes import EpisodeLanes
from soulslab.fleet.messages import LEASE_S, printable
from soulslab.fleet.stream_reader import MAX_GAMES_OF_USER, Entry, GameName, StreamReader
from soulslab.fleet.weights_message import check_size
from soulslab.learn.actors.transport import EpisodeFilter, EpisodeResult, Weights
from soulslab.learn.archive import Tensors, join_parts, take_part
from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.replay.step_rows import Outcome, StepShape, join_rows, row_type

MAX_GAMES: Final = 10_000
"""Number of games whose positions are kept; of more games, those that ended first are forgotten.

The position of a game that has ended is needed if it was not lost: a computer that was suspended sends its last message
again.
"""

_N_DELAYS: Final = 1000
_TERMINATED: Final = int(Outcome.TERMINATED)
_TRUNCATED: Final = int(Outcome.TRUNCATED)
_FINAL: Final = int(Outcome.FINAL)

_log = logging.getLogger(__name__)


class _Position(msgspec.Struct):
    user: str
    incarnation: str
    sequence: int
    n_taken: int
    broken: list[bool]
    has_ended: list[int]
    refusal: str


class _State(msgspec.Struct):
    n_dropped: int
    games: list[_Position]


class _Game:
    """The position in the stream of a game, and what was last taken from it."""

    def __init__(self, name: GameName) -> None:
        self.name = name
        self.sequence = self.n_taken = 0
        self.filter = EpisodeFilter(0)
        self.last = np.empty(0, np.int64)
        self.refusal = ""
        self.seen_at = time.monotonic()

    def begin(self, n_envs: int) -> None:
        """Set the number of environments, which the first message determines."""
        self.filter = EpisodeFilter(n_envs)
        self.last = np.full(n_envs, Outcome.TERMINATED, np.int64)


class RedisLearnerEnd:
    """The learner's end; only one process may use it.

    Attributes:
        version: Version of the weights that were published last; -1 before the first.
        reward_factors: Factors of the reward that were published with them.
    """

    def __init__(
        self, access: Access, shape: StepShape, n_lanes: int, state: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Start reading; without a state, everything that is there is taken. ``n_lanes`` is E of the replay buffer."""
        self.version = -1
        self.reward_factors: dict[str, float] = {}
        self._access = access
        self._row_type = row_type(shape)
        self._lanes = EpisodeLanes(n_lanes, self._row_type)
        self._games: dict[GameName, _Game] = {}
        self._n_lost = 0
        self._results: list[EpisodeResult] = []
        self._evaluations: list[tuple[str, EpisodeResult]] = []
        self._delays: deque[float] = deque(maxlen=_N_DELAYS)
        if state is not None:
            self._load(state)
        self._lock = threading.Lock()
        self._ended: set[GameName] = set()  # as the next one, used by the reading thread, too
        self._to_free: set[GameName] = set()
        positions = {name: game.sequence for name, game in self._games.items()}
        refused = [name for name, game in self._games.items() if game.refusal]
        self._reader = StreamReader(access, shape, positions, refused)

    @property
    def n_published(self) -> int:
        """Number of times that weights were published."""
        return self._reader.n_published

    @property
    def n_dropped(self) -> int:
        """Rows that arrived without the beginning of their episode, and were therefore not used."""
        return self._n_lost

    @property
    def n_waiting_rows(self) -> int:
        """Rows of games that wait for a free stream of the replay buffer."""
        return self._lanes.n_waiting

    @property
    def has_entries(self) -> bool:
        """Whether messages have arrived that were not taken yet."""
        return self._reader.has_entries

    @property
    def delay_p95_s(self) -> float | None:
        """95th percentile of the time from a step to the learner over the last messages (s); None without one."""
        return float(np.quantile(list(self._delays), 0.95)) if self._delays else None

    def take(self, max_decisions: int | None = None) -> NDArray[Any]:
        """Return the rows that have arrived since the last call; see `transport.LearnerEnd`.

        The stream of a row is a stream of the replay buffer. The order of the rows of each environment is kept. A game
        whose message is malformed is refused: nothing more is taken from it, and its name is logged.
        """
        failure = self._reader.failure
        if failure is not None:
            raise FleetError(self._access.address, f"reading the steps failed: {failure}") from failure
        entries = self._reader.take()
        with self._lock:
            to_free, self._to_free = self._to_free, set()
        parts: list[NDArray[Any]] = []
        for entry in entries:
            rows = self._receive(entry)
            if rows is None:
                continue
            game = self._games[entry.name]
            whole = game.filter.whole(rows)
            if max_decisions is None or max_decisions > 0:  # rows after the limit do not count as lost
                self._n_lost += len(rows) - len(whole)
            rows = game.filter.limit(whole, max_decisions)
            if max_decisions is not None:
                max_decisions -= int(rows["n_decisions"][rows["outcome"] != Outcome.FINAL].sum())
            parts += self._lanes.route(game.name.incarnation, rows)
        for name in to_free:
            parts += self._lanes.drop(name.incarnation)
        return join_rows(parts) if parts else np.empty(0, self._row_type)

    def take_episodes(self) -> list[EpisodeResult]:
        """Return the results that have arrived with the rows taken so far, or without rows."""
        while (entry := self._reader.take_if(_is_without_rows)) is not None:
            self._receive(entry)
        results, self._results = self._results, []
        return results

    def take_evaluations(self) -> list[tuple[str, EpisodeResult]]:
        """Return the results of evaluation games since the last call, each with the incarnation of its game."""
        evaluations, self._evaluations = self._evaluations, []
        return evaluations

    def publish(self, weights: Weights, candidate: int = 0) -> None:
        """Make weights available to the games; the reading thread sends the newest (`StreamReader.publish`).

        Raises ConfigError for weights that are too large.
        """
        check_size(weights)
        self.version, self.reward_factors = weights.version, weights.reward_factors
        self._reader.publish(weights, candidate)

    def state(self) -> Tensors:
        """Return what a checkpoint must hold: the position in each stream, and the rows that wait."""
        self._forget_ended()
        games = [
            _Position(
                name.user,
                name.incarnation,
                game.sequence,
                game.n_taken,
                game.filter.is_broken.tolist(),
                game.last.tolist(),
                game.refusal,
            )
            for name, game in self._games.items()
        ]
        encoded = msgspec.msgpack.encode(_State(self._n_lost, games))
        return {"fleet": np.frombuffer(encoded, np.uint8).copy(), **join_parts({"lanes": self._lanes.state()})}

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Remove the messages before a state that a checkpoint holds; the reading thread does it."""
        found = msgspec.msgpack.decode(state["fleet"].tobytes(), type=_State)
        self._reader.trim({GameName(each.user, each.incarnation): each.sequence for each in found.games})

    def refusals(self) -> dict[GameName, str]:
        """Return the games that are refused, with the reason."""
        too_many = f"is one of more than {MAX_GAMES_OF_USER} games of a join file; use another one (fleet invite)"
        refused = {name: game.refusal for name, game in list(self._games.items()) if game.refusal}
        return dict.fromkeys(self._reader.excess, too_many) | refused

    def sequences(self) -> dict[str, int]:
        """Return the number of messages that were taken from each incarnation."""
        return {name.incarnation: game.sequence for name, game in self._games.items()}

    def n_taken(self, name: GameName) -> int:
        """Return the number of rows that were taken from a game since it started."""
        game = self._games.get(name)
        return game.n_taken if game is not None else 0

    def keep_games(self, present: Set[GameName]) -> None:
        """Free what the other games hold if they have sent nothing for `messages.LEASE_S`; their steps are not lost."""
        now = time.monotonic()
        games = list(self._games.items())
        ended = {name for name, game in games if name not in present and now - game.seen_at > LEASE_S}
        held = self._lanes.holders()
        self._reader.set_ended(ended)
        with self._lock:
            self._ended = ended
            self._to_free |= {name for name in ended if name.incarnation in held}

    def set_duty(self, duty: Callable[[Redis], None]) -> None:
        """Set a function that the reading thread calls regularly; see `StreamReader.set_duty`."""
        self._reader.set_duty(duty)

    def wait(self, timeout_s: float) -> None:
        """Wait until messages have arrived, at most for a time."""
        self._reader.wait(timeout_s)

    def flush(self, deadline_s: float = 5.0) -> bool:
        """Wait until everything on the server was read, and weights and trims were sent; for the end and for tests."""
        return self._reader.flush(deadline_s)

    def close(self) -> None:
        """Stop the thread; weights that were not sent are sent before if the server answers."""
        self._reader.close()

    # --- checks -----------------------------------------------------------------------------------------------------

    def _receive(self, entry: Entry) -> NDArray[Any] | None:
        """Keep the results of a message; return its rows, None if it is not to be used."""
        game = self._games.setdefault(entry.name, _Game(entry.name))
        if game.refusal or entry.sequence <= game.sequence:
            return None
        try:
            if isinstance(entry.content, ChunkRefusedError):
                raise entry.content
            rows = self._continue(game, entry.sequence, entry.content)
        except ChunkRefusedError as error:
            self._refuse(game, error)
            return None
        header = entry.content.header
        game.n_taken += len(rows)
        game.seen_at = time.monotonic()
        for result in header.results:
            if result.candidate:
                self._evaluations.append((entry.name.incarnation, result))
            else:
                self._results.append(result)
        if header.taken_at_s:
            self._delays.append(max(0.0, self._reader.clock.now_s() - header.taken_at_s))
        return rows

    def _continue(self, game: _Game, sequence: int, chunk: Chunk) -> NDArray[Any]:
        """Return the rows of a message that is the next one of its game; raises ChunkRefusedError for a wrong order."""
        header, rows, name = chunk.header, chunk.rows, str(game.name)
        if header.sequence != sequence or header.incarnation != game.name.incarnation:
            raise ChunkRefusedError(name, f"sent message {header.sequence} of {header.incarnation} as {sequence}")
        if game.sequence == 0:
            game.begin(header.n_envs)
        if header.n_envs != len(game.last):
            raise ChunkRefusedError(name, f"had {len(game.last)} environments, and now has {header.n_envs}")
        if sequence != game.sequence + 1:
            _log.warning("messages %d to %d of %s are lost", game.sequence + 1, sequence - 1, name)
            game.filter.is_broken[:] = True
        problem = _find_disorder(rows, game.last, game.filter.is_broken)
        if problem:
            raise ChunkRefusedError(name, f"sent steps in a wrong order: {problem}")
        game.sequence = sequence
        return rows

    def _refuse(self, game: _Game, error: ChunkRefusedError) -> None:
        game.refusal = printable(error.problem)
        _log.warning("%s: %s; nothing more is taken from this game", game.name, game.refusal)
        self._reader.refuse(game.name)
        with self._lock:
            self._to_free.add(game.name)

    def _forget_ended(self) -> None:
        """Forget the games that ended first, if there are more than `MAX_GAMES` and their streams were removed."""
        n = len(self._games) - MAX_GAMES
        if n <= 0:
            return
        with self._lock:
            ended = sorted((game for game in self._games.values() if game.name in self._ended), key=_seen_at)
        for name in self._reader.forget([game.name for game in ended], n):
            del self._games[name]

    def _load(self, state: Mapping[str, NDArray[Any]]) -> None:
        found = msgspec.msgpack.decode(state["fleet"].tobytes(), type=_State)
        self._n_lost = found.n_dropped
        for each in found.games:
            game = _Game(GameName(each.user, each.incarnation))
            game.begin(len(each.broken))
            game.sequence, game.n_taken, game.refusal = each.sequence, each.n_taken, each.refusal
            game.filter.is_broken[:] = each.broken
            game.last[:] = each.has_ended
            self._games[game.name] = game
        self._lanes.load(take_part(state, "lanes"))


def _seen_at(game: _Game) -> float:
    return game.seen_at


def _is_without_rows(entry: Entry) -> bool:
    """Return whether a message has only results, or is malformed, so that nothing of it is used."""
    return isinstance(entry.content, ChunkRefusedError) or not len(entry.content.rows)


def _find_disorder(rows: NDArray[Any], last: NDArray[np.int64], is_broken: NDArray[np.bool_]) -> str:
    """Return what is wrong with the order of the rows of each environment, or ""; update their last outcomes.

    After the end of an episode comes the start of another one, and a final observation directly after a truncation.
    """
    i = _first_disorder(rows["stream"], rows["outcome"], rows["is_first"], last, is_broken.copy())
    if i < 0:
        return ""
    env = int(rows["stream"][i])
    return f"environment {env} has outcome {rows['outcome'][i]} after {last[env]}"


@kernel
def _first_disorder(
    streams: NDArray[np.uint16],
    outcomes: NDArray[np.uint8],
    is_first: NDArray[np.uint8],
    last: NDArray[np.int64],
    is_broken: NDArray[np.bool_],
) -> int:
    """Return the index of the first row that may not follow the one before it, -1 if there is none.

    Of a broken environment, rows are missing before the first one that starts an episode; the flags are overwritten.
    """
    for i in range(len(streams)):
        env, outcome = np.int64(streams[i]), np.int64(outcomes[i])
        before = last[env]
        if is_broken[env]:
            is_broken[env] = not is_first[i]
        else:
            has_ended = before in (_TERMINATED, _FINAL)
            is_final = outcome == _FINAL
            if is_final != (before == _TRUNCATED) or (has_ended and not is_first[i]) or (is_final and is_first[i]):
                return i
        last[env] = outcome
    return -1
