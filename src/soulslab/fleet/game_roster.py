"""The games that take part in a fleet: admission, loss, and the learner's order to each."""

from __future__ import annotations

import logging
import threading

import msgspec
from redis import Redis

from soulslab.fleet.access import Access, Keys
from soulslab.fleet.messages import Lease, Order, epsilon_exponent
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.stream_reader import GameName

_log = logging.getLogger(__name__)


class GameRoster:
    """The games with a lease. A game without a sign of life for `messages.LEASE_S` is lost, and what it holds is freed.

    Attributes:
        n_dropped: Rows that games dropped so far, because neither the server nor their spool had space.
    """

    def __init__(self, access: Access, channel: RedisLearnerEnd, epsilon_alpha: float) -> None:
        self.n_dropped = 0
        self._keys = Keys(access.run)
        self._channel = channel
        self._alpha = epsilon_alpha
        self._lock = threading.Lock()
        self._leases: dict[GameName, Lease] = {}
        self._numbers: dict[GameName, int | None] = {}  # None for games that do not explore
        self._n_taken: dict[GameName, int] = {}
        self._n_dropped_before = 0

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
            self._n_taken.pop(name, None)
            client.hdel(self._keys.orders, name.incarnation)
        for name in found.keys() - self._numbers.keys():
            self._numbers[name] = self._free_number() if found[name].role == "exploring" else None
            _log.info("game %s joined (%s)", found[name].worker, found[name].host)
        with self._lock:
            self._leases = found
        self.n_dropped = self._n_dropped_before + sum(lease.n_dropped for lease in found.values())
        refusals = self._channel.refusals()
        for name in found:
            if not is_behind or name not in self._n_taken:
                self._n_taken[name] = self._channel.n_taken(name)
            number = self._numbers[name]
            exponent = epsilon_exponent(number, self._alpha) if number is not None else 1.0
            order = Order(epsilon_exponent=exponent, n_taken=self._n_taken[name], refusal=refusals.get(name, ""))
            client.hset(self._keys.orders, name.incarnation, msgspec.json.encode(order))

    def _read_leases(self, client: Redis) -> dict[GameName, Lease]:
        prefix, leases = self._keys.leases_of_all, {}
        keys = list(client.scan_iter(match=f"{prefix}*", count=1000))
        for key, data in zip(keys, client.mget(keys) if keys else [], strict=True):
            user, _, incarnation = key.decode(errors="replace").removeprefix(prefix).partition(":")
            try:
                lease = msgspec.json.decode(data or b"", type=Lease)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # it has just expired, or it is malformed
            if lease.incarnation == incarnation:
                leases[GameName(user, incarnation)] = lease
        return leases

    def _free_number(self) -> int:
        taken = set(self._numbers.values())
        return next(number for number in range(len(taken) + 1) if number not in taken)
