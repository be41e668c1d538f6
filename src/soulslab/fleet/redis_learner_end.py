"""The learner's end of the transport over Redis (`soulslab.learn.actors.transport.LearnerEnd`).

A thread reads the streams of all games ahead into a buffer of bounded size, so the learner never waits for the server.
The position of the learner, the number of the last message of each game, is in its checkpoints together with what it
took. A stream is trimmed only up to a position that a checkpoint holds. A resumed learner therefore takes each
acknowledged message exactly once, whatever was killed.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from redis import Redis
from redis.exceptions import RedisError

from soulslab.errors import ChunkRefusedError, FleetError
from soulslab.fleet.access import Access, Keys, connect
from soulslab.fleet.chunk import Chunk, decode_chunk
from soulslab.fleet.episode_lanes import EpisodeLanes
from soulslab.fleet.messages import LEASE_S, ServerClock
from soulslab.fleet.weights_message import encode_weights
from soulslab.learn.actors.transport import EpisodeFilter, EpisodeResult, Weights
from soulslab.learn.archive import Tensors, join_parts, take_part
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type

READ_AHEAD_BYTES: Final = 64 << 20
"""Size of the messages that are read before the learner takes them (bytes)."""
DISCOVER_EVERY_S: Final = 0.25
PUBLISH_EVERY_S: Final = 0.1
MAX_GAMES: Final = 10_000
"""Number of games whose positions are kept, with the ended ones."""

MAX_GAMES_OF_USER: Final = 1024
"""Number of streams that are read of the games of one join file."""

_N_READ: Final = 8
_N_STREAMS: Final = 32
"""Streams that one command reads, so that an answer has a bounded size."""
_IDLE_S: Final = 0.005
_MAX_WAIT_S: Final = 1.0
_N_DELAYS: Final = 1000
_MAX_ROWLESS_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class GameName(NamedTuple):
    """A start of a game: the user of its join file, and its incarnation."""

    user: str
    incarnation: str

    def __str__(self) -> str:
        return f"{self.user}/{self.incarnation}"


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
        era: Random number of this learner, which distinguishes its weights from those of an earlier one.
        n_published: Number of times that weights were published.
    """

    def __init__(
        self, access: Access, shape: StepShape, n_lanes: int, state: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Start reading; without a state, everything that is there is taken. ``n_lanes`` is E of the replay buffer."""
        self.era = secrets.randbits(60) + 1
        self.n_published = 0
        self._access = access
        self._keys = Keys(access.run)
        self._shape = shape
        self._row_type = row_type(shape)
        self._lanes = EpisodeLanes(n_lanes, self._row_type)
        self._games: dict[GameName, _Game] = {}
        self._n_lost = 0
        self._results: list[EpisodeResult] = []
        self._delays: deque[float] = deque(maxlen=_N_DELAYS)
        if state is not None:
            self._load(state)
        self._clock = ServerClock()
        self._changed = threading.Condition()
        # Used by the thread, or by both under the lock:
        self._read = {name: game.sequence for name, game in self._games.items()}
        self._entries: deque[tuple[GameName, int, bytes]] = deque()
        self._n_entry_bytes = 0
        self._refused: set[GameName] = {name for name, game in self._games.items() if game.refusal}
        self._ended: set[GameName] = set()
        self._quiet: set[GameName] = set()
        self._to_publish: Weights | None = None
        self._is_published = True
        self._trims: dict[GameName, int] = {}
        self._duty: Callable[[Redis], None] | None = None
        self._n_passes = 0
        self._failure: Exception | None = None
        self._flush_wanted = self._flush_done = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="soulslab-fleet-reader", daemon=True)
        self._thread.start()

    @property
    def n_dropped(self) -> int:
        """Rows that arrived without the beginning of their episode, and were therefore not used."""
        return self._n_lost

    @property
    def n_waiting_rows(self) -> int:
        """Rows of games that wait for a free stream of the replay buffer."""
        return self._lanes.n_waiting

    @property
    def delay_p95_s(self) -> float | None:
        """95th percentile of the time from a step to the learner over the last messages (s); None without one."""
        return float(np.quantile(list(self._delays), 0.95)) if self._delays else None

    def take(self, max_decisions: int | None = None) -> NDArray[Any]:
        """Return the rows that have arrived since the last call; see `transport.LearnerEnd`.

        The stream of a row is a stream of the replay buffer. The order of the rows of each environment is kept. A game
        whose message is malformed is refused: nothing more is taken from it, and its name is logged.
        """
        if self._failure is not None:
            raise FleetError(self._access.address, f"reading the steps failed: {self._failure}") from self._failure
        with self._changed:
            entries = list(self._entries)
            self._entries.clear()
            self._n_entry_bytes = 0
            ended, self._ended = self._ended, set()
            self._changed.notify_all()
        parts: list[NDArray[Any]] = []
        for entry in entries:
            rows = self._receive(*entry)
            if rows is None:
                continue
            game = self._games[entry[0]]
            whole = game.filter.whole(rows)
            if max_decisions is None or max_decisions > 0:  # rows after the limit do not count as lost
                self._n_lost += len(rows) - len(whole)
            rows = game.filter.limit(whole, max_decisions)
            if max_decisions is not None:
                max_decisions -= int(rows["n_decisions"][rows["outcome"] != Outcome.FINAL].sum())
            parts += self._lanes.route(game.name.incarnation, rows)
        for name in ended:
            parts += self._lanes.drop(name.incarnation)
        return np.concatenate(parts) if parts else np.empty(0, self._row_type)

    def take_episodes(self) -> list[EpisodeResult]:
        """Return the results that have arrived with the rows taken so far, or without rows."""
        while True:
            with self._changed:
                if not self._entries or len(self._entries[0][2]) > _MAX_ROWLESS_BYTES:
                    break
                name, sequence, data = self._entries[0]
                if not _is_without_rows(data, self._shape):
                    break
                self._entries.popleft()
                self._n_entry_bytes -= len(data)
            self._receive(name, sequence, data)
        results, self._results = self._results, []
        return results

    def publish(self, weights: Weights) -> None:
        """Make weights available to the games, at most every `PUBLISH_EVERY_S`; the thread sends the newest."""
        with self._changed:
            self._to_publish, self._is_published = weights, False
            self._changed.notify()

    def state(self) -> Tensors:
        """Return what a checkpoint must hold: the position in each stream, and the rows that wait."""
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
            for name, game in list(self._games.items())[-MAX_GAMES:]
        ]
        encoded = msgspec.msgpack.encode(_State(self._n_lost, games))
        return {"fleet": np.frombuffer(encoded, np.uint8).copy(), **join_parts({"lanes": self._lanes.state()})}

    def commit(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Remove the messages before a state that a checkpoint holds; the thread does it."""
        found = msgspec.msgpack.decode(state["fleet"].tobytes(), type=_State)
        with self._changed:
            self._trims.update({GameName(each.user, each.incarnation): each.sequence for each in found.games})
            self._changed.notify()

    def refusals(self) -> dict[GameName, str]:
        """Return the games that are refused, with the reason."""
        return {name: game.refusal for name, game in list(self._games.items()) if game.refusal}

    def sequences(self) -> dict[str, int]:
        """Return the number of messages that were taken from each incarnation."""
        return {name.incarnation: game.sequence for name, game in self._games.items()}

    def n_taken(self, name: GameName) -> int:
        """Return the number of rows that were taken from a game since it started."""
        game = self._games.get(name)
        return game.n_taken if game is not None else 0

    def keep_games(self, alive: Set[GameName]) -> None:
        """Free what the other games hold if they have sent nothing for `messages.LEASE_S`; their steps are not lost."""
        now = time.monotonic()
        games = list(self._games.items())
        quiet = {name for name, game in games if name not in alive and now - game.seen_at > LEASE_S}
        held = self._lanes.holders()
        with self._changed:
            self._quiet = quiet
            self._ended |= {name for name in quiet if name.incarnation in held}

    def set_duty(self, duty: Callable[[Redis], None]) -> None:
        """Set a function that the thread calls with its connection, about every `DISCOVER_EVERY_S`."""
        with self._changed:
            self._duty = duty

    def wait(self, timeout_s: float) -> None:
        """Wait until messages have arrived, at most for a time."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._entries or self._failure), timeout_s)

    def flush(self, deadline_s: float = 5.0) -> bool:
        """Wait until everything on the server was read, and weights and trims were sent; for the end and for tests."""
        with self._changed:
            self._flush_wanted = wanted = self._flush_wanted + 1
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: self._flush_done >= wanted and self._is_published and not self._trims, deadline_s
            )

    def close(self) -> None:
        """Stop the thread; weights that were not sent are sent before if the server answers."""
        self.flush(1.0)
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    # --- checks -----------------------------------------------------------------------------------------------------

    def _receive(self, name: GameName, sequence: int, data: bytes) -> NDArray[Any] | None:
        """Check a message, and keep its results; return its rows, None if it is not to be used."""
        game = self._games.setdefault(name, _Game(name))
        if game.refusal or sequence <= game.sequence:
            return None
        try:
            chunk = decode_chunk(data, self._shape, str(name))
            rows = self._continue(game, sequence, chunk)
        except ChunkRefusedError as error:
            self._refuse(game, error)
            return None
        game.n_taken += len(rows)
        game.seen_at = time.monotonic()
        self._results += chunk.header.results
        if chunk.header.taken_at_s:
            self._delays.append(max(0.0, self._clock.now_s() - chunk.header.taken_at_s))
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
        _log.warning("%s; nothing more is taken from this game", error)
        game.refusal = error.problem
        with self._changed:
            self._refused.add(game.name)
            self._ended.add(game.name)

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

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised where the other thread calls
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _work(self) -> None:
        client, wait_s = connect(self._access), _IDLE_S
        next_discovery_at = next_publication_at = 0.0
        while not self._is_closing:
            with self._changed:
                wanted, is_flush = self._flush_wanted, self._flush_wanted != self._flush_done
            try:
                if is_flush or time.monotonic() >= next_discovery_at:
                    self._discover(client)
                    next_discovery_at = time.monotonic() + DISCOVER_EVERY_S
                if (is_flush or time.monotonic() >= next_publication_at) and self._publish(client):
                    next_publication_at = time.monotonic() + PUBLISH_EVERY_S
                self._trim(client)
                is_idle = not self._read_streams(client)
                wait_s = _IDLE_S if is_idle else 0.0
            except RedisError as error:
                _log.debug("the Redis server does not answer: %s", error)
                is_idle, wait_s = False, min(max(2.0 * wait_s, 0.05), _MAX_WAIT_S)
            with self._changed:
                if is_idle and is_flush:
                    self._flush_done = wanted
                    self._changed.notify_all()
                if wait_s and not self._is_closing:
                    self._changed.wait(wait_s)
        client.close()

    def _discover(self, client: Redis) -> None:
        """Find the streams of games that have started."""
        if self._clock.now_s() == 0.0:
            self._clock.synchronise(client)
        prefix = self._keys.steps_of_all
        n_of_user = Counter(name.user for name in self._read)
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            name = GameName(*key.decode(errors="replace").removeprefix(prefix).partition(":")[::2])
            if name not in self._read and n_of_user[name.user] < MAX_GAMES_OF_USER:
                n_of_user[name.user] += 1
                self._read[name] = 0
        if self._duty is not None:
            self._duty(client)

    def _read_streams(self, client: Redis) -> int:
        """Read messages of all games ahead, into a buffer of bounded size; return their number."""
        with self._changed:
            names = [name for name in self._read if name not in self._refused]
        # Each time another stream comes first, so that all get their turn if the buffer is full.
        self._n_passes += 1
        start = self._n_passes * _N_STREAMS % max(1, len(names))
        names = names[start:] + names[:start]
        n = 0
        for first in range(0, len(names), _N_STREAMS):
            if self._n_entry_bytes >= READ_AHEAD_BYTES:
                break
            n += self._read_some(client, names[first : first + _N_STREAMS])
        return n

    def _read_some(self, client: Redis, names: list[GameName]) -> int:
        """Read the next messages of some streams; return their number."""
        streams: Any = {self._keys.steps(*name): f"{self._read[name]}-0" for name in names}
        by_key = {key.encode(): name for key, name in zip(streams, names, strict=True)}
        found: Any = client.xread(streams, count=_N_READ)
        n = 0
        with self._changed:
            for key, entries in found.items() if isinstance(found, dict) else found:
                name = by_key[key]
                for entry_id, fields in _flatten(entries):
                    sequence = int(entry_id.partition(b"-")[0])
                    data = fields.get(b"c", b"")
                    self._entries.append((name, sequence, data))
                    self._n_entry_bytes += len(data)
                    self._read[name] = sequence
                    n += 1
            if n:
                self._changed.notify_all()
        return n

    def _publish(self, client: Redis) -> bool:
        with self._changed:
            weights, self._to_publish = self._to_publish, None
        if weights is None:
            return False
        try:
            version = f"{self.era}:{weights.version}:{self.n_published}"
            data = encode_weights(weights, self.era)
            client.mset({self._keys.weights: data, self._keys.weights_version: version})
        except RedisError:
            with self._changed:
                self._to_publish = self._to_publish or weights
            raise
        with self._changed:
            self.n_published += 1
            self._is_published = self._to_publish is None
            self._changed.notify_all()
        return True

    def _trim(self, client: Redis) -> None:
        with self._changed:
            trims = dict(self._trims)
        if not trims:
            return
        pipeline = client.pipeline(transaction=False)
        for name, sequence in trims.items():
            pipeline.xtrim(self._keys.steps(*name), minid=f"{sequence + 1}-0", approximate=False)
        for name in trims:
            pipeline.xlen(self._keys.steps(*name))
        n_left = dict(zip(trims, pipeline.execute()[len(trims) :], strict=True))
        for name in trims:
            if name in self._refused or (name in self._quiet and not n_left[name]):
                client.delete(self._keys.steps(*name))
                self._read.pop(name, None)
        with self._changed:
            for name, sequence in trims.items():
                if self._trims.get(name) == sequence:
                    del self._trims[name]
            self._changed.notify_all()


def _is_without_rows(data: bytes, shape: StepShape) -> bool:
    """Return whether a message holds only results; a malformed one counts as such, because nothing of it is used."""
    try:
        return not len(decode_chunk(data, shape, "").rows)
    except ChunkRefusedError:
        return True


def _flatten(entries: Any) -> Any:
    """Return the entries of one stream; redis-py wraps them in one more list for newer protocols."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _find_disorder(rows: NDArray[Any], last: NDArray[np.int64], is_broken: NDArray[np.bool_]) -> str:
    """Return what is wrong with the order of the rows of each environment, or ""; update their last outcomes.

    After the end of an episode comes the start of another one, and a final observation directly after a truncation.
    """
    for env in np.unique(rows["stream"]).tolist():
        mine = rows[rows["stream"] == env]
        outcomes = mine["outcome"].astype(np.int64)
        before = np.concatenate((last[env : env + 1], outcomes[:-1]))
        is_final, is_first = outcomes == Outcome.FINAL, mine["is_first"].astype(np.bool_)
        has_ended = (before == Outcome.TERMINATED) | (before == Outcome.FINAL)
        is_wrong = (is_final != (before == Outcome.TRUNCATED)) | (has_ended & ~is_first) | (is_first & is_final)
        if is_broken[env]:  # rows are missing before the first one that starts an episode
            start = int(is_first.argmax()) if is_first.any() else len(mine)
            is_wrong[: start + 1] = False
        if is_wrong.any():
            i = int(is_wrong.argmax())
            return f"environment {env} has outcome {outcomes[i]} after {before[i]}"
        last[env] = outcomes[-1]
    return ""
