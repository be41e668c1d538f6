"""The games that take part in a fleet: admission, loss, and the learner's order to each."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, NamedTuple

import msgspec
from redis import Redis

from soulslab.fleet.access import Access, Keys, write
from soulslab.fleet.messages import GameOrder, Lease, epsilon_exponent, read_leases
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.stream_reader import GameName

AHEAD_S: Final = 1.0
"""Time for which a simulator may be ahead of the learner, at the speed at which the learner takes its rows (s)."""
STALL_S: Final = 5.0
"""Time after which rows that a waiting game has sent, and that did not arrive, are taken for lost (s)."""
MIN_ROWS_AHEAD: Final = 8
MAX_ROWS_AHEAD: Final = 100
"""Bounds of the rows of each environment by which a simulator may be ahead; the old weights of many rows learn less."""

_N_WRITTEN: Final = 1000
"""Names and orders that one command writes."""

_log = logging.getLogger(__name__)


class Pace(NamedTuple):
    """Rows that were taken from a game until a time (monotonic, s), and that it may send in all."""

    n_taken: int
    at: float
    n_allowed: int

    def after(self, n_taken: int, n_envs: int, *, was_behind: bool) -> Pace:
        """Return the pace when more rows were taken, by a learner that is not behind with its updates.

        If it was behind meanwhile, the game may be ahead by the rows of `AHEAD_S`; otherwise by twice as many rows as
        before, if it has sent all that it might.
        """
        now = time.monotonic()
        n_ahead = AHEAD_S * (n_taken - self.n_taken) / max(now - self.at, 1e-3)
        if not was_behind:
            n_ahead = float(self.n_allowed - self.n_taken) * (2.0 if n_taken >= self.n_allowed else 1.0)
        window = min(max(n_ahead, MIN_ROWS_AHEAD * n_envs), MAX_ROWS_AHEAD * n_envs)
        return Pace(n_taken, now, n_taken + int(window))


class _Stall(NamedTuple):
    """Rows that were taken from a game that has sent all that it may, unchanged since a time (monotonic, s)."""

    n_taken: int
    since: float


class GameRoster:
    """The games with a lease. A game without a sign of life for `messages.LEASE_S` is lost, and what it holds is freed.

    Attributes:
        n_dropped: Rows that games dropped so far, because neither the server nor their spool had space.
    """

    def __init__(self, access: Access, channel: RedisLearnerEnd, epsilon_alpha: float) -> None:
        self.n_dropped = 0
        self._run = access.run
        self._keys = Keys(access.run)
        self._channel = channel
        self._alpha = epsilon_alpha
        self._lock = threading.Lock()
        self._leases: dict[GameName, Lease] = {}
        self._numbers: dict[GameName, int | None] = {}  # None for games that do not explore
        self._paces: dict[GameName, Pace] = {}
        self._n_lost: dict[GameName, int] = {}
        self._stalls: dict[GameName, _Stall] = {}
        self._n_dropped_before = 0
        self._was_behind = False
        self._malformed: set[str] = set()

    def leases(self) -> list[Lease]:
        """Return the status of all games."""
        with self._lock:
            return list(self._leases.values())

    def attend(self, client: Redis, *, is_behind: bool) -> None:
        """Admit new games, note lost ones, and give each its order; called by the thread of the transport.

        ``is_behind`` is whether the learner has not made the updates for the steps that it has.
        """
        found = self._read_leases(client)
        gone = self._leases.keys() - found.keys()
        self._channel.keep_games(found.keys())
        for name in gone:
            _log.info("game %s has gone", self._leases[name].worker)
            self._n_dropped_before += self._leases[name].n_dropped
            self._numbers.pop(name, None)
            for known in (self._paces, self._n_lost, self._stalls):
                known.pop(name, None)
            client.hdel(self._keys.orders, name.incarnation)
        for name in found.keys() - self._numbers.keys():
            self._numbers[name] = self._free_number() if found[name].role == "exploring" else None
            _log.info("game %s joined (%s)", found[name].worker, found[name].host)
        with self._lock:
            self._leases = found
        self.n_dropped = self._n_dropped_before + sum(lease.n_dropped for lease in found.values())
        refusals = self._channel.refusals()
        self._was_behind = self._was_behind or is_behind
        orders: list[bytes | str] = []
        for name, lease in found.items():
            pace = self._paces.get(name)
            if pace is None or not is_behind:
                pace = pace or Pace(0, 0.0, 0)
                n_taken = self._n_taken(name, lease, pace)
                self._paces[name] = pace.after(n_taken, lease.n_envs, was_behind=self._was_behind)
            number = self._numbers[name]
            exponent = epsilon_exponent(number, self._alpha) if number is not None else 1.0
            n_allowed = self._paces[name].n_allowed
            order = GameOrder(epsilon_exponent=exponent, n_allowed=n_allowed, refusal=refusals.get(name, ""))
            orders += (name.incarnation, msgspec.json.encode(order))
        for first in range(0, len(orders), _N_WRITTEN):
            write(client, "HSET", self._keys.orders, *orders[first : first + _N_WRITTEN])
        self._was_behind = is_behind

    def _n_taken(self, name: GameName, lease: Lease, pace: Pace) -> int:
        """Return the number of rows that were taken from a game, or that will never arrive.

        A learner does not know the rows that another one took before it, without a state of the fleet or with an older
        one, and a game drops rows that do not fit. A simulator would wait forever for rows to be taken.
        """
        n_taken = self._channel.n_taken(name) + self._n_lost.get(name, 0)
        has_sent_all = lease.state == "waiting" and not lease.n_unsent_bytes and not self._channel.has_entries
        if not has_sent_all or lease.n_pushed < pace.n_allowed or n_taken >= lease.n_pushed:
            self._stalls.pop(name, None)
            return n_taken
        now = time.monotonic()
        stall = self._stalls.get(name)
        if stall is None or stall.n_taken != n_taken:
            self._stalls[name] = _Stall(n_taken, now)
        elif now - stall.since >= STALL_S:
            self._n_lost[name] = self._n_lost.get(name, 0) + lease.n_pushed - n_taken
            n_taken = lease.n_pushed
        return n_taken

    def _read_leases(self, client: Redis) -> dict[GameName, Lease]:
        leases, malformed = read_leases(client, self._run)
        new = malformed.keys() - self._malformed
        if new:
            key = min(new)
            _log.warning(
                "the lease %s is malformed, and its game is not admitted: %s (%d such leases)",
                key,
                malformed[key],
                len(malformed),
            )
        self._malformed = set(malformed)
        return {GameName(*name): lease for name, lease in leases.items()}

    def _free_number(self) -> int:
        taken = set(self._numbers.values())
        return next(number for number in range(len(taken) + 1) if number not in taken)
