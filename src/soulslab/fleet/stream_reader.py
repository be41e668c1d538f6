"""A thread that reads the streams of all games ahead, publishes weights, and trims streams.

It reads into a buffer of bounded size, so that the learner never waits for the server. It also checks the messages,
mostly without the lock of the interpreter, so that the learner's updates continue meanwhile.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import islice
from typing import Any, Final, NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from soulslab.errors import ChunkRefusedError
from soulslab.fleet.access import Access, Keys, ServerFailures, connect, write
from soulslab.fleet.chunk import Chunk, decode_chunk
from soulslab.fleet.messages import INCARNATION_PATTERN, ServerClock, printable
from soulslab.fleet.weights_message import encode_weights
from soulslab.learn.actors.transport import Weights
from soulslab.learn.replay.step_rows import StepShape

READ_AHEAD_BYTES: Final = 64 << 20
"""Size of the messages that are read before the learner takes them (bytes)."""
DISCOVER_EVERY_S: Final = 0.25
PUBLISH_EVERY_S: Final = 0.1
PUBLISH_BYTES_PER_S: Final = 100e6
"""Largest rate at which all games together fetch weights (bytes/s); with many games they are published less often."""

MAX_GAMES_OF_USER: Final = 1024
"""Number of streams that are read of the games of one join file; the steps of further games stay on the server."""

_N_READ: Final = 8
_N_STREAMS: Final = 32
"""Streams that one command reads, so that an answer has a bounded size."""
_PAUSE_S: Final = 0.05
"""Time between two reads, unless messages are left; each read takes the lock of the interpreter from the learner."""
_MAX_WAIT_S: Final = 1.0

_INCARNATION: Final = re.compile(INCARNATION_PATTERN)

_log = logging.getLogger(__name__)


class GameName(NamedTuple):
    """A start of a game: the user of its join file, and its incarnation."""

    user: str
    incarnation: str

    def __str__(self) -> str:
        return f"{self.user}/{self.incarnation}"


class Entry(NamedTuple):
    """A message of a game with the number under which it is stored: its contents, or why it is refused."""

    name: GameName
    sequence: int
    n_bytes: int
    content: Chunk | ChunkRefusedError


class StreamReader:
    """The connection of the learner to the server; all methods may be called by the learner.

    Attributes:
        era: Random number of this learner, which distinguishes its weights from those of an earlier one.
        n_published: Number of times that weights were published.
        failure: The error that ended the thread; None while it runs.
        clock: The clock of the server.
    """

    def __init__(
        self, access: Access, shape: StepShape, positions: Mapping[GameName, int], refused: Iterable[GameName]
    ) -> None:
        """Start reading after the given messages; the streams of refused games are not read."""
        self.era = secrets.randbits(60) + 1
        self.n_published = 0
        self.failure: Exception | None = None
        self.clock = ServerClock()
        self._access = access
        self._shape = shape
        self._keys = Keys(access.run)
        self._changed = threading.Condition()
        self._read = dict(positions)
        self._entries: deque[Entry] = deque()
        self._n_entry_bytes = 0
        self._refused = set(refused)
        self._excess: frozenset[GameName] = frozenset()
        self._ended: Set[GameName] = set()
        self._to_publish: dict[tuple[str, str], tuple[int, Weights]] = {}
        self._is_published = True
        self._n_weight_bytes = 0
        self._trims: dict[GameName, int] = {}
        self._duty: Callable[[Redis], None] | None = None
        self._read_failures = ServerFailures(access.address, "the learner reads the steps later")
        self._duty_failures = ServerFailures(access.address, "the learner admits games later")
        self._publish_failures = ServerFailures(access.address, "the learner publishes its weights later")
        self._n_passes = 0
        self._flush_wanted = self._flush_done = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="soulslab-fleet-reader", daemon=True)
        self._thread.start()

    def take(self) -> list[Entry]:
        """Return the messages that were read since the last call."""
        with self._changed:
            entries = list(self._entries)
            self._entries.clear()
            self._n_entry_bytes = 0
        return entries

    def take_if(self, condition: Callable[[Entry], bool]) -> Entry | None:
        """Return the oldest message if it meets a condition."""
        with self._changed:
            if not self._entries or not condition(self._entries[0]):
                return None
            entry = self._entries.popleft()
            self._n_entry_bytes -= entry.n_bytes
            return entry

    def publish(self, weights: Weights, candidate: int = 0) -> None:
        """Make weights available to the games; the newest are sent every `PUBLISH_EVERY_S`, with many games less often.

        ``candidate`` is the number of a policy for the evaluation games; 0 for the weights of all other games.
        """
        keys = self._keys
        names = (keys.candidate_version, keys.candidate) if candidate else (keys.weights_version, keys.weights)
        with self._changed:
            self._to_publish[names] = (candidate or self.era, weights)
            self._is_published = False

    def trim(self, positions: Mapping[GameName, int]) -> None:
        """Remove the messages of games up to a number; also the empty streams of games that have ended."""
        with self._changed:
            self._trims.update(positions)

    def refuse(self, name: GameName) -> None:
        """Read nothing more of a game."""
        with self._changed:
            self._refused.add(name)

    @property
    def excess(self) -> frozenset[GameName]:
        """Games whose streams are not read, because their join file has `MAX_GAMES_OF_USER` others."""
        return self._excess

    def set_ended(self, names: Set[GameName]) -> None:
        """Set the games that have ended; a stream of one of them is removed when it is empty."""
        with self._changed:
            self._ended = names

    def forget(self, names: Iterable[GameName], n: int) -> list[GameName]:
        """Forget the first n of some games whose streams were removed, and return them."""
        with self._changed:
            removed = list(islice((name for name in names if name not in self._read), n))
            self._refused.difference_update(removed)
        return removed

    def set_duty(self, duty: Callable[[Redis], None]) -> None:
        """Set a function that the thread calls with its connection, about every `DISCOVER_EVERY_S`."""
        with self._changed:
            self._duty = duty

    @property
    def has_entries(self) -> bool:
        """Whether messages have arrived that were not taken yet."""
        return bool(self._entries)

    def wait(self, timeout_s: float) -> None:
        """Wait until messages have arrived, at most for a time."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._entries or self.failure), timeout_s)

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

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised where the other thread calls
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _work(self) -> None:
        client, wait_s = connect(self._access), _PAUSE_S
        next_discovery_at = next_publication_at = 0.0
        while not self._is_closing:
            with self._changed:
                wanted, is_flush = self._flush_wanted, self._flush_wanted != self._flush_done
            is_discovery = is_flush or time.monotonic() >= next_discovery_at
            try:
                if is_discovery:
                    next_discovery_at = time.monotonic() + DISCOVER_EVERY_S
                    self._discover(client)
                self._trim(client)
                n_read = self._read_streams(client)
                is_idle, wait_s = n_read == 0, 0.0 if n_read >= _N_READ else _PAUSE_S
                self._read_failures.end()
            except RedisError as error:
                self._read_failures.begin(error)
                is_idle, wait_s = False, min(max(2.0 * wait_s, 0.05), _MAX_WAIT_S)
            else:
                # Separately, so that a server that refuses to write is still read and trimmed.
                if is_discovery and self._duty is not None:
                    self._attempt(self._duty, client, self._duty_failures)
                is_due = is_flush or time.monotonic() >= next_publication_at
                if is_due and self._attempt(self._publish, client, self._publish_failures):
                    next_publication_at = time.monotonic() + self._publication_interval_s()
            with self._changed:
                if is_idle and is_flush:
                    self._flush_done = wanted
                    self._changed.notify_all()
                if wait_s and not self._is_closing:
                    self._changed.wait(wait_s)
        client.close()

    def _attempt(self, act: Callable[[Redis], object], client: Redis, failures: ServerFailures) -> bool:
        """Return whether a function returned a true value; a failure of the server is logged."""
        try:
            found = act(client)
        except RedisError as error:
            failures.begin(error)
            return False
        failures.end()
        return bool(found)

    def _discover(self, client: Redis) -> None:
        """Find the streams of games that have started."""
        self.clock.synchronise(client)
        prefix, excess, foreign = self._keys.steps_of_all, set(), []
        keys = list(client.scan_iter(match=f"{prefix}*", count=1000))
        names = [GameName(*key.decode(errors="replace").removeprefix(prefix).partition(":")[::2]) for key in keys]
        # Positions of earlier games are kept, also after their streams were removed.
        n_of_user = Counter(name.user for name in names if name in self._read)
        for key, name in zip(keys, names, strict=True):
            if name in self._read:
                continue
            if not _INCARNATION.fullmatch(name.incarnation):
                foreign.append(key)
                continue
            if n_of_user[name.user] >= MAX_GAMES_OF_USER:
                excess.add(name)
                continue
            n_of_user[name.user] += 1
            self._read[name] = 0
        if foreign:
            client.delete(*foreign)
            _log.warning(
                "removed %d streams of no game, such as %s",
                len(foreign),
                printable(foreign[0].decode(errors="replace")),
            )
        for user in {name.user for name in excess} - {name.user for name in self._excess}:
            _log.warning(
                "more than %d games use the join file of %s; the others are refused; give them another one (soulslab "
                "fleet invite)",
                MAX_GAMES_OF_USER,
                user,
            )
        self._excess = frozenset(excess)

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
        read = [
            self._decode(by_key[key], int(entry_id.partition(b"-")[0]), fields.get(b"c", b""))
            for key, entries in (found.items() if isinstance(found, dict) else found)
            for entry_id, fields in _flatten(entries)
        ]
        if read:
            with self._changed:
                self._entries += read
                self._n_entry_bytes += sum(entry.n_bytes for entry in read)
                self._read.update({entry.name: entry.sequence for entry in read})
                self._changed.notify_all()
        return len(read)

    def _decode(self, name: GameName, sequence: int, data: bytes) -> Entry:
        try:
            return Entry(name, sequence, len(data), decode_chunk(data, self._shape, str(name)))
        except ChunkRefusedError as error:
            return Entry(name, sequence, len(data), error)

    def _publish(self, client: Redis) -> bool:
        with self._changed:
            found, self._to_publish = self._to_publish, {}
        if not found:
            return False
        try:
            for (version_key, key), (era, weights) in found.items():
                version = f"{era}:{weights.version}:{self.n_published}"
                data = encode_weights(weights, era)
                write(client, "MSET", key, data, version_key, version)
                self._n_weight_bytes = len(data)
        except RedisError:
            with self._changed:
                self._to_publish = found | self._to_publish
            raise
        with self._changed:
            self.n_published += 1
            self._is_published = not self._to_publish
            self._changed.notify_all()
        return True

    def _publication_interval_s(self) -> float:
        with self._changed:
            n_games = len(self._read.keys() - self._refused - self._ended)
        return max(PUBLISH_EVERY_S, n_games * self._n_weight_bytes / PUBLISH_BYTES_PER_S)

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
            if name in self._refused or (name in self._ended and not n_left[name]):
                client.delete(self._keys.steps(*name))
                with self._changed:
                    self._read.pop(name, None)
        with self._changed:
            for name, sequence in trims.items():
                if self._trims.get(name) == sequence:
                    del self._trims[name]
            self._changed.notify_all()


def _flatten(entries: Any) -> Any:
    """Return the entries of one stream; redis-py wraps them in one more list for newer protocols."""
    return entries[0] if entries and isinstance(entries[0], list) else entries
