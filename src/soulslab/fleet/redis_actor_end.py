"""The actor's end of the transport over Redis (`soulslab.learn.actors.transport.ActorEnd`).

A thread sends the rows as messages with consecutive numbers to a stream of this start of the game. A message is sent
again until the server has acknowledged it. The number is the id of the entry, and a stream refuses an id that is not
higher than the last one; so a message that was stored although its acknowledgement was lost is not stored twice.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from soulslab.errors import ActorError, SoulslabError
from soulslab.fleet.access import Access, Keys, ServerFailures, connect
from soulslab.fleet.chunk import MAX_CHUNK_BYTES, MAX_RESULTS, ChunkHeader, encode_chunk, row_digest
from soulslab.fleet.messages import LEASE_EVERY_S, LEASE_S, Control, GameOrder, Lease, ServerClock
from soulslab.fleet.spool import Spool
from soulslab.fleet.weights_message import decode_weights
from soulslab.learn.actors.transport import EpisodeFilter, EpisodeResult, Weights
from soulslab.learn.archive import Tensors, check_shapes

GATHER_S: Final = 0.02
"""Time for which rows are gathered into one message (s)."""
CHUNK_BYTES: Final = 256 << 10
"""Size of the rows at which a message is complete (bytes)."""
SEND_BYTES: Final = 1 << 20
"""Size of the messages that are sent before orders and weights are fetched again (bytes)."""
REFRESH_S: Final = 0.2
MIN_WAIT_S: Final = 0.1
MAX_WAIT_S: Final = 1.5
"""Longest time between two attempts to reach the server (s): a game connects again within 3 s after an interruption."""
MAX_REFUSED_S: Final = 1.0
"""Longest time between two attempts if it answers, but refuses messages because it is full (s)."""
REFUSAL_S: Final = 5.0
"""Time after which a server that refuses the user of this game is believed (s)."""

_POLL_S: Final = 0.1
"""Longest time between two checks whether orders and weights are to be fetched (s)."""
_MAX_ROW_BYTES: Final = MAX_CHUNK_BYTES // 2
_SHARE_OF_TIME: Final = 5.0
"""Weights are fetched at most for a fifth of the time."""

_log = logging.getLogger(__name__)


class RedisActorEnd:
    """The actor's end; no method waits for the server or the learner.

    Attributes:
        incarnation: Random name of this start of the game.
        n_dropped: Rows that were dropped because neither the server nor the spool had space.
        control: The newest order to the whole fleet.
        order: The newest order to this game; None before the learner has admitted it.
        met_learner_at: Time (monotonic, s) at which the learner was last known to run.
        n_pushed: Rows that were pushed.
        refusal: Why the server refuses this game, for example because its credential was revoked; "" if it does not.
    """

    def __init__(
        self, access: Access, worker: str, n_envs: int, row_type: np.dtype[Any], spool: Spool, expected: Tensors
    ) -> None:
        """Start sending; of ``expected``, the weights of the policy, names, types and shapes are used."""
        self.incarnation = secrets.token_hex(8)
        self.n_dropped = 0
        self.control = Control()
        self.order: GameOrder | None = None
        self.met_learner_at = time.monotonic()
        self.refusal = ""
        self._refused_since: float | None = None
        self.n_pushed = 0
        self._access = access
        self._worker = worker
        self._n_envs = n_envs
        self._row_type = row_type
        self._digest = row_digest(row_type)
        self._expected = expected
        self._spool = spool
        self._keys = Keys(access.run)
        self._weights_keys = self._keys.weights_version, self._keys.weights
        self._filter = EpisodeFilter(n_envs)
        self._rows: list[NDArray[Any]] = []
        self._n_row_bytes = 0
        self._results: list[EpisodeResult] = []
        self._taken_at_s = 0.0
        self._n_made = self._n_acknowledged = 0
        self._weights: tuple[int, Weights] | None = None
        self._pulled: tuple[int, int] = (0, -1)
        self._seen_version = b""
        self._is_warned = False
        self._clock = ServerClock()
        self._failures = ServerFailures(access.address, "this game keeps its steps and plays on")
        self._lease: Callable[[], Lease] | None = None
        self._changed = threading.Condition()
        self._is_closing = False
        self._failure: Exception | None = None
        self._refresh_at = self._lease_at = 0.0
        self._thread = threading.Thread(target=self._run, name="soulslab-fleet-sender", daemon=True)
        self._thread.start()

    def push(self, rows: NDArray[Any]) -> None:
        """Send rows; without space they and the rest of their episodes are dropped and counted."""
        if self._failure is not None:
            raise ActorError(self._worker, f"sending the steps failed: {self._failure}") from self._failure
        with self._changed:
            n = len(rows)
            self.n_pushed += n
            rows = self._filter.whole(rows)
            self.n_dropped += n - len(rows)
            if len(rows) == 0:
                return
            if not self._rows:
                self._taken_at_s = self._clock.now_s()
            self._rows.append(rows.copy())
            self._n_row_bytes += rows.nbytes
            if self._n_row_bytes >= CHUNK_BYTES:
                self._cut()
            self._changed.notify()

    def push_episodes(self, results: Sequence[EpisodeResult]) -> None:
        """Send the results of episodes, with the rows before them."""
        with self._changed:
            self._results += results
            self._changed.notify()

    def pull(self, newer_than: int) -> Weights | None:
        """Return the newest weights if their version is higher, or if a resumed learner published them."""
        with self._changed:
            found, order = self._weights, self.order
        if found is None:
            return None
        era, weights = found
        if era == self._pulled[0] and weights.version <= newer_than:
            return None
        self._pulled = era, weights.version
        exponent = order.epsilon_exponent if order is not None else 1.0
        return msgspec.structs.replace(weights, epsilon=weights.epsilon**exponent)

    def keep_lease(self, lease: Callable[[], Lease]) -> None:
        """Report the status of the game regularly from now on; the function is called by the thread."""
        with self._changed:
            self._lease = lease
            self._lease_at = 0.0
            self._changed.notify()

    @property
    def n_acknowledged(self) -> int:
        """Number of messages that the server has stored."""
        return self._n_acknowledged

    @property
    def has_weights(self) -> bool:
        """Whether weights of the learner have arrived."""
        return self._weights is not None

    @property
    def n_unsent_bytes(self) -> int:
        """Size of what the server has not acknowledged (bytes)."""
        return self._spool.n_bytes + self._n_row_bytes

    def flush(self, deadline_s: float) -> bool:
        """Wait until the server has acknowledged everything; return False after the deadline."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_sent() or self._failure is not None, deadline_s)

    def refresh(self, deadline_s: float = 5.0) -> bool:
        """Wait until weights and orders were fetched; return False after the deadline."""
        with self._changed:
            self._refresh_at = 0.0
            self._changed.notify()
            return self._changed.wait_for(lambda: self._refresh_at > 0.0, deadline_s)

    def close(self, deadline_s: float = 0.0) -> bool:
        """Send what is left until the deadline, end the lease, and stop; return whether everything was sent.

        Messages that were not sent are lost. A server that refuses this game takes none, so it is not waited for.
        """
        is_sent = self.flush(0.0 if self.refusal else deadline_s) and self._failure is None
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()
        self._spool.close()
        return is_sent

    def _is_sent(self) -> bool:
        return not self._rows and not self._results and not len(self._spool)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._keep_sending()
        except Exception as error:  # noqa: BLE001 - raised where the other thread calls
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _keep_sending(self) -> None:
        client, wait_s = connect(self._access), MIN_WAIT_S
        while not self._is_closing:
            try:
                self._work(client)
                wait_s = MIN_WAIT_S
            except RedisError as error:
                self._note_failure(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closing, wait_s)
                wait_s = min(2.0 * wait_s, MAX_REFUSED_S if isinstance(error, ResponseError) else MAX_WAIT_S)
        try:
            if self._lease is not None:
                client.delete(self._keys.lease(self._access.user, self.incarnation))
        except RedisError:
            pass  # it expires
        client.close()

    def _work(self, client: Redis) -> None:
        """Send a batch if there is one, and fetch weights and orders and renew the lease if that is due."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing or not self._is_sent() or self._is_due(), _POLL_S)
        if self._rows and not len(self._spool):
            time.sleep(GATHER_S)
        with self._changed:
            if self._rows or self._results:
                self._cut()
            batch = self._spool.oldest(SEND_BYTES)
        refused: ResponseError | None = None
        try:
            self._send(client, batch)
        except ResponseError as error:  # the server is full, for example; the orders are fetched nevertheless
            refused = error
        is_due = self._is_due()
        if is_due:
            refused = self._fetch(client) or refused
        if refused is not None:
            raise refused
        if batch or is_due:
            self._refused_since = None
            self._failures.end()

    def _is_due(self) -> bool:
        return time.monotonic() >= min(self._refresh_at, self._lease_at if self._lease is not None else float("inf"))

    def _cut(self) -> None:
        """Make messages of everything that was pushed; the caller holds the lock."""
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, self._row_type)
        results = self._results
        self._rows, self._results, self._n_row_bytes = [], [], 0
        n_at_once = max(1, _MAX_ROW_BYTES // self._row_type.itemsize)
        while len(rows) or results:
            part, rows = self._filter.whole(rows[:n_at_once]), rows[n_at_once:]
            part_results, results = tuple(results[:MAX_RESULTS]), results[MAX_RESULTS:]
            header = ChunkHeader(
                worker=self._worker,
                incarnation=self.incarnation,
                sequence=self._n_made + 1,
                weights_version=self._pulled[1],
                row=self._digest,
                n_envs=self._n_envs,
                n_rows=len(part),
                taken_at_s=self._taken_at_s,
                results=part_results,
            )
            if self._spool.append(encode_chunk(header, part)):
                self._n_made += 1
            else:
                self._drop(part)

    def _drop(self, rows: NDArray[Any]) -> None:
        """Count rows that do not fit into the spool; the rest of their episodes is dropped, too."""
        if self.n_dropped == 0:
            _log.warning("neither the Redis server nor the spool has space; whole episodes are dropped")
        self._filter.is_broken[rows["stream"]] = True
        self.n_dropped += len(rows)

    def _send(self, client: Redis, batch: list[bytes]) -> None:
        """Store the oldest messages on the server, each after the one before it was acknowledged.

        Not in a pipeline, in which a refused message could be followed by one that is stored and hides it; and not in a
        transaction, because Redis 7.0 loses transactions on a restart if the default user is disabled.
        """
        key = self._keys.steps(self._access.user, self.incarnation)
        for message in batch:
            try:
                client.xadd(key, {b"c": message}, id=f"{self._n_acknowledged + 1}-0")
            except ResponseError as error:
                if "equal or smaller" not in str(error):
                    raise
                # It was stored before, but the acknowledgement was lost.
            with self._changed:
                self._spool.remove([message])
                self._n_acknowledged += 1
                self._changed.notify_all()

    def _fetch(self, client: Redis) -> ResponseError | None:
        """Renew the lease, and fetch orders and new weights; return why the server refuses the lease, or None."""
        self._clock.synchronise(client)
        now = time.monotonic()
        keys, pipeline = self._keys, client.pipeline(transaction=False)
        if self._lease is not None and now >= self._lease_at:
            key, lease_ms = keys.lease(self._access.user, self.incarnation), int(1000 * LEASE_S)
            pipeline.pexpire(key, lease_ms)  # a full server refuses the new status, but the game is not lost
            pipeline.set(key, msgspec.json.encode(self._lease()), px=lease_ms)
            self._lease_at = now + LEASE_EVERY_S
        pipeline.mget(self._weights_keys[0], keys.control, keys.learner)
        pipeline.hget(keys.orders, self.incarnation)
        *renewed, found, order = pipeline.execute(raise_on_error=False)
        for answer in (found, order):
            if isinstance(answer, ResponseError):
                raise answer
        version, control, learner = found
        if learner is not None:
            self.met_learner_at = now
        weights, fetched_s = None, 0.0
        if version is not None and version != self._seen_version:
            weights = self._read_weights(client.get(self._weights_keys[1]))
            fetched_s = time.monotonic() - now
        with self._changed:
            self.refusal = ""
            self.control = msgspec.json.decode(control, type=Control) if control is not None else Control()
            self.order = msgspec.json.decode(order, type=GameOrder) if order is not None else self.order
            self._weights = weights or self._weights
            self._seen_version = version or b""
            self._refresh_at = time.monotonic() + max(REFRESH_S, _SHARE_OF_TIME * fetched_s)
            self._changed.notify_all()
        return next((answer for answer in renewed if isinstance(answer, ResponseError)), None)

    def _read_weights(self, data: Any) -> tuple[int, Weights] | None:
        """Return the era and the weights of a message; None if they do not belong to this policy."""
        try:
            era, weights = decode_weights(data)
            check_shapes(weights.tensors, self._expected, "weights")
        except (ValueError, TypeError, msgspec.MsgspecError, SoulslabError) as error:
            if not self._is_warned:
                _log.warning("the weights of the learner cannot be used: %s", error)
            self._is_warned = True
            return None
        self._is_warned = False
        return era, weights

    def _note_failure(self, error: RedisError) -> None:
        if isinstance(error, AuthenticationError | NoPermissionError):
            # A given server may lose its users when it is restarted; the learner makes them again.
            now = time.monotonic()
            self._refused_since = self._refused_since or now
            if now - self._refused_since >= REFUSAL_S:
                self.refusal = f"{self._access.address} refuses the user {self._access.user}: {error}"
        else:
            self._refused_since = None
        self._failures.begin(error)
