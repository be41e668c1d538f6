"""What learner, games and operators of a fleet exchange besides steps and weights, as JSON in keys of the server."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from soulslab.config.input_files import parse_json
from soulslab.errors import FleetError
from soulslab.fleet.access import Access, Keys, connect
from soulslab.learn.telemetry import Evaluated
from soulslab.version import VERSION

LEASE_S: Final = 10.0
"""Time after which a game without a sign of life counts as lost (s)."""

LEASE_EVERY_S: Final = 2.0

COMPARE_EVERY_S: Final = 60.0
"""Time between two comparisons with the clock of the server (s), which may be adjusted or drift."""

MAX_LEASES: Final = 10_000
MAX_LEASE_BYTES: Final = 16 << 10
"""Bounds of the leases that are read; the rest is ignored."""

MAX_ENVS: Final = 1024
"""Largest number of environments in the process of a game."""

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/ -]*\Z")]
"""Name of a game for people, such as ``pc1/0``; it holds no control characters, because it is printed."""

INCARNATION_PATTERN: Final = r"^[0-9a-f]{16}\Z"

Incarnation = Annotated[str, Meta(pattern=INCARNATION_PATTERN)]
"""Random name of one start of a game; a game that is restarted gets another."""

Role = Literal["exploring", "evaluating", "human"]
"""Role of a game: it explores with the newest weights, plays candidates greedily, or a person plays it."""

_RETRY_S: Final = 0.5
_N_READ: Final = 500
"""Leases that one command reads."""

_log = logging.getLogger(__name__)

_Count = Annotated[int, Meta(ge=0, lt=2**62)]
_MAX_TEXT: Final = 2000
# A terminal would obey control characters, and characters that change the direction hide the text beside them.
_NOT_PRINTED: Final = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
_Text = Annotated[str, Meta(max_length=_MAX_TEXT, pattern=rf"^[^{_NOT_PRINTED}]*\Z")]
_Word = Annotated[str, Meta(max_length=128, pattern=r"^[A-Za-z0-9._+-]*\Z")]


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The status of a game, which it renews while it runs.

    A game waits for the learner before its first step, or because the learner is behind. ``n_late`` and the 99th
    percentile of the lateness are those of a game in real time. ``n_dropped`` steps found no space, and
    ``n_unsent_bytes`` are not acknowledged yet. ``age_of_weights_s`` is the time since the game got its weights,
    ``idle_s`` the time since its last step; None before. ``n_restarts`` counts the starts after failures.
    """

    worker: Name
    incarnation: Incarnation
    host: _Word
    state: Literal["waiting", "playing", "paused", "draining"]
    n_envs: Annotated[int, Meta(ge=1, le=MAX_ENVS)]
    soulslab: _Word
    role: Role = "exploring"
    n_steps: _Count = 0
    n_pushed: _Count = 0
    steps_per_second: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0
    n_late: _Count = 0
    lateness_p99_ms: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    n_dropped: _Count = 0
    n_unsent_bytes: _Count = 0
    weights_version: Annotated[int, Meta(ge=-1, lt=2**62)] = -1
    age_of_weights_s: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    idle_s: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    n_restarts: _Count = 0
    last_fault: _Text = ""

    @property
    def activity(self) -> str:
        """State, with the role of a game that does not explore."""
        return self.state if self.role == "exploring" else f"{self.state} ({self.role})"


class GameOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The learner's order to one game.

    Attributes:
        epsilon_exponent: Exponent of the share of random actions, as in Ape-X.
        n_allowed: Number of rows up to which a simulator may send; a game in real time ignores it.
        refusal: Why nothing more is taken from this game; "" if it is not quarantined.
    """

    epsilon_exponent: float = 1.0
    n_allowed: int = 0
    refusal: str = ""


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's order to the whole fleet.

    ``n_saves`` counts the requests for a checkpoint; ``changes`` are changed settings of the learner by path.
    """

    state: Literal["run", "pause", "stop"] = "run"
    n_saves: int = 0
    changes: dict[str, float] = {}


class EvaluationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last complete evaluation (None before the first), and the fights of the running one."""

    last: Evaluated | None
    n_done: int
    n_fights: int


class LearnerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of the learner, which it renews while it runs.

    ``memory_mb`` is the resident memory of its process. ``evaluation`` is None if no game evaluates. ``refusals`` are
    the newest games from which nothing more is taken, with the reason.
    """

    pid: int
    host: str
    env_steps: int
    n_updates: int
    n_games: int
    n_dropped: int
    n_waiting_rows: int
    n_restarts_of_redis: int
    delay_p95_ms: float | None
    memory_mb: float = 0.0
    evaluation: EvaluationStatus | None = None
    refusals: tuple[str, ...] = ()


class RunDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run that a game needs: the header of its policy, which names the environment, and settings.

    Attributes:
        soulslab: Version of the learner; games need the same.
        header: Header of the policy, as JSON-compatible values.
        seed: Seed of the run.
        alone_s: Time that a game continues without a learner (s).
        has_values: Whether the games send the values with which they choose actions.
    """

    soulslab: str
    header: dict[str, Any]
    seed: int
    alone_s: float
    has_values: bool = False


def printable(text: str) -> str:
    """Return text of a game for a log, a terminal or a lease: bounded, on one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:_MAX_TEXT])


def read_leases(client: Redis, run: str) -> tuple[dict[tuple[str, str], Lease], dict[str, str]]:
    """Return the leases of games, by user and incarnation, and the problems of malformed ones, by key.

    At most `MAX_LEASES` keys are read, and `MAX_LEASE_BYTES` of each, because games may write any number and size.
    """
    prefix = Keys(run).leases_of_all
    leases: dict[tuple[str, str], Lease] = {}
    malformed: dict[str, str] = {}
    keys = list(islice(client.scan_iter(match=f"{prefix}*", count=1000), MAX_LEASES))
    for first in range(0, len(keys), _N_READ):
        some = keys[first : first + _N_READ]
        pipeline = client.pipeline(transaction=False)
        for key in some:
            pipeline.getrange(key, 0, MAX_LEASE_BYTES - 1)
        for key, data in zip(some, pipeline.execute(), strict=True):
            if not data:
                continue  # it has just expired
            user, _, incarnation = key.decode(errors="replace").removeprefix(prefix).partition(":")
            try:
                lease = msgspec.json.decode(data, type=Lease)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                malformed[printable(key.decode(errors="replace"))] = printable(str(error))
                continue
            if lease.incarnation == incarnation:
                leases[user, incarnation] = lease
            else:
                malformed[printable(key.decode(errors="replace"))] = f"it is that of {lease.incarnation}"
    return leases, malformed


class _Version(msgspec.Struct, frozen=True):
    """The version in a `RunDescription`, which all versions have."""

    soulslab: str = ""


def wait_for_description(access: Access, is_to_wait: Callable[[], bool]) -> RunDescription | None:
    """Return the description of the run once the learner has written it; None when it is no longer to wait.

    The server keeps the description of a learner that has ended. If that had another version, the next one may not.

    Raises FleetError if the server refuses the user, has a certificate of another authority or address, or holds a
    malformed description.
    """
    shown, keys, fail = "", Keys(access.run), partial(FleetError, f"{access.address}: the description of its run")
    with closing(connect(access)) as client:
        while is_to_wait():
            try:
                data: Any = client.get(keys.description)
                found = _Version() if data is None else parse_json(data, _Version, fail)
                if data is not None and (found.soulslab == VERSION or client.get(keys.learner) is not None):
                    return parse_json(data, RunDescription, fail)
                problem = "the learner has not started"
            except (AuthenticationError, NoPermissionError) as error:
                raise FleetError(access.address, f"refuses the user {access.user}: {error}") from error
            except RedisError as error:
                if (reason := _certificate_problem(error)) is not None:
                    raise FleetError(
                        access.address,
                        f"has a certificate that this join file does not trust: {reason}; copy join.toml of the run "
                        "again",
                    ) from error
                problem = str(error)
            if problem != shown:
                _log.warning("waiting for the learner at %s: %s", access.address, problem)
                shown = problem
            time.sleep(_RETRY_S)
    return None


def _certificate_problem(error: BaseException | None) -> str | None:
    """Return why the certificate of a server was refused; None if another error was the cause."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error.verify_message if error is not None else None


def epsilon_exponent(number: int, alpha: float) -> float:
    """Return the exponent of the share of random actions of a game, in 1..1 + alpha; game 0 has 1.

    As in Ape-X (Horgan et al. 2018, section 4), game i acts with ``epsilon ** (1 + alpha * x)``, where x is spread
    evenly over 0..1. The number of games changes here, so x is element i of the van der Corput sequence, which is
    evenly spread for any number of games.
    """
    x, share = 0.0, 0.5
    while number:
        x += share * (number & 1)
        number, share = number >> 1, share / 2
    return 1.0 + alpha * x


class ServerClock:
    """The clock of the Redis server, which all processes of a fleet share."""

    def __init__(self) -> None:
        self._offset_s: float | None = None
        self._compared_at = 0.0

    def synchronise(self, client: Redis) -> None:
        """Compare the clocks, unless that was done within `COMPARE_EVERY_S`.

        The error is at most half of the time of one call, and the drift of the clocks since then.
        """
        before = time.monotonic()
        if self._offset_s is not None and before - self._compared_at < COMPARE_EVERY_S:
            return
        seconds, microseconds = client.time()
        after = time.monotonic()
        self._offset_s = seconds + microseconds / 1e6 - (before + after) / 2
        self._compared_at = after

    def now_s(self) -> float:
        """Return the time of the server (s); 0 before the first comparison."""
        return time.monotonic() + self._offset_s if self._offset_s is not None else 0.0
