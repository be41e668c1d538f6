"""``python -m benchmarks fleet``: throughput beside learning, many games, and malformed messages.

The games are processes that push random rows of 74 features without playing. The learner is Rainbow with the network of
``rainbow.toml``, and its updates take a whole core. It takes the rows into its replay buffer, as in training.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import psutil

from benchmarks.fleet_chaos import process_context
from benchmarks.result import Result, Row
from soulslab.errors import ChunkRefusedError
from soulslab.fleet.access import Access, Keys, connect, new_password, password_hash
from soulslab.fleet.chunk import ChunkHeader, decode_chunk, encode_chunk, row_digest
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.redis_learner_end import RedisLearnerEnd
from soulslab.fleet.redis_server import JoinUser, RedisServer, free_port
from soulslab.fleet.spool import Spool
from soulslab.learn.actors.transport import Weights
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_algorithm import MAX_UPDATES_PER_ITERATION
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings
from soulslab.learn.torch_device import one_core

SHAPE = StepShape(n_features=74, n_actions=20)
ROW = row_type(SHAPE)
HEADER = QHeader(
    env_id="bench",
    env_options={},
    n_features=SHAPE.n_features,
    n_actions=SHAPE.n_actions,
    network=QNetworkSettings(),
    soulslab="",
    commit="",
)
N_LANES = 16
N_DAMAGED_GAMES = 100
EPISODE = 100


class FleetBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        seconds: Time of each measurement (s).
        n_rounds: Measurements of each rate, by turns alone and with games; the middle one is reported.
        rates: Transitions per second of all games together.
        n_games: Games of the measurements of throughput.
        n_many: Games that play at the same time at 10 steps per second each.
        n_malformed: Malformed messages.
    """

    seconds: float = 12.0
    n_rounds: int = 5
    rates: tuple[int, ...] = (10_000, 100_000)
    n_games: int = 4
    n_many: int = 200
    n_malformed: int = 100_000

    def quick(self) -> FleetBenchSettings:
        """Return settings for a short run."""
        return msgspec.structs.replace(self, seconds=5.0, n_rounds=1, n_malformed=10_000)


def measure_fleet(settings: FleetBenchSettings | None = None) -> list[Result]:
    """Measure throughput, many games, and malformed messages."""
    settings = settings or FleetBenchSettings()
    ingest, budget = _ingest_rows(settings)
    return [
        Result(
            title="a learner at full load while games send transitions of 74 features, appendfsync always; goal: "
            "100 000 transitions/s at 90 % of the updates of the learner alone; from a step to the learner 200 ms, "
            "from an update to the games 500 ms",
            rows=ingest,
        ),
        Result(title="processor time of each part, % of a core", rows=budget),
        Result(title="many games at 10 steps per second each", rows=[_many_row(settings)]),
        Result(title="malformed messages", rows=[_malformed_row(settings)]),
    ]


class _Ran(NamedTuple):
    """Updates and transitions per second; shares of a core: the learner's thread, its updates, its other threads."""

    updates: float
    transitions: float
    learner: float
    updating: float
    reader: float

    @property
    def per_cpu_s(self) -> float:
        """Updates per second of processor time of the learner's thread, which hardly depends on other programs."""
        return self.updates / self.learner


class _Bench:
    """A learner that makes updates and takes rows."""

    def __init__(self, access: Access) -> None:
        self.policy = QPolicy(HEADER)
        replay = ReplaySettings(capacity=500_000)
        self.replay = ReplayBuffer(SHAPE, replay, N_LANES)
        # A full buffer, so that sampling has the same cost alone and with games: a small one fits into the caches.
        rows = example_rows(10_000)
        for _ in range(replay.capacity // len(rows)):
            self.replay.append(rows)
        self.policy.observe(rows["features"])
        learning = QLearningSettings()
        self._learner = Learner(learning, replay, self.policy, self.replay, np.random.default_rng(0))
        self.end = RedisLearnerEnd(access, SHAPE, N_LANES)

    def publish(self) -> None:
        """Publish the weights, as after each iteration of training; epsilon is the time (s), for `push_rows`."""
        tensors = self.policy.weights()
        self.end.publish(Weights(version=self._learner.n_updates, epsilon=time.monotonic(), tensors=tensors))

    def wait_for_games(self, n_games: int) -> None:
        """Learn until messages of this number of further games have arrived."""
        n_before, deadline = len(self.end.sequences()), time.monotonic() + 120.0
        while len(self.end.sequences()) < n_before + n_games and time.monotonic() < deadline:
            self.run(0.5)

    def run(self, seconds: float) -> _Ran:
        """Learn and take for some time."""
        start, n_before, n_rows, updating_s = time.perf_counter(), self._learner.n_updates, 0, 0.0
        thread_s, process_s, saved_at = time.thread_time(), time.process_time(), start
        while (now := time.perf_counter()) - start < seconds:
            rows = self.end.take()
            if len(rows):
                self.replay.append(rows)
                self.policy.observe(rows["features"])
                n_rows += len(rows)
            before_s = time.thread_time()
            for _ in range(MAX_UPDATES_PER_ITERATION):
                self._learner.update(0.1)
            updating_s += time.thread_time() - before_s
            self.publish()
            if now - saved_at > 2.0:  # checkpoints free what was taken
                self.end.commit(self.end.state())
                saved_at = now
        passed = time.perf_counter() - start
        thread_s, process_s = time.thread_time() - thread_s, time.process_time() - process_s
        return _Ran(
            updates=(self._learner.n_updates - n_before) / passed,
            transitions=n_rows / passed,
            learner=thread_s / passed,
            updating=updating_s / passed,
            reader=(process_s - thread_s) / passed,
        )


def _ingest_rows(settings: FleetBenchSettings) -> tuple[list[Row], list[Row]]:
    """Return the rows of the table of throughput, and of that of processor time."""
    with one_core(), _server() as (admin, game):
        bench = _Bench(admin)
        bench.run(2.0)  # compiles kernels
        alone = bench.run(settings.seconds)
        name = "the learner alone"
        ingest = [_ingest_row(name, 0, _Round(alone, alone, None, None, {}))]
        budget = [_budget_row(name, 0, alone, {"server": None, "the games": None})]
        for rate in settings.rates:
            rounds = [_ingest_round(bench, game, settings, rate) for _ in range(settings.n_rounds)]
            middle = sorted(rounds, key=lambda each: each.share)[len(rounds) // 2]
            name = f"{settings.n_games} games"
            ingest.append(_ingest_row(name, rate, middle))
            budget.append(_budget_row(name, rate, middle.ran, middle.others))
        bench.end.close()
    return ingest, budget


class _Round(NamedTuple):
    """The learner alone and then with games; the delays of steps and of weights; shares of a core of other programs."""

    alone: _Ran
    ran: _Ran
    steps_s: float | None
    weights_s: float | None
    others: Mapping[str, float]

    @property
    def share(self) -> float:
        """Updates per second, as a share of those alone."""
        return self.ran.updates / self.alone.updates


def _ingest_round(bench: _Bench, game: Access, settings: FleetBenchSettings, rate: int) -> _Round:
    alone = bench.run(settings.seconds)
    with _games(game, settings.n_games, rate / settings.n_games) as (games, delays):
        bench.wait_for_games(settings.n_games)
        parts = {"server": _servers(), "the games": games}
        _drain(delays)
        before, start = {name: _processor_s(each) for name, each in parts.items()}, time.perf_counter()
        ran = bench.run(settings.seconds)
        passed = time.perf_counter() - start
        shares = {name: (_processor_s(each) - before[name]) / passed for name, each in parts.items()}
        return _Round(alone, ran, bench.end.delay_p95_s, _drain(delays), shares)


def _ingest_row(name: str, sent: int, measured: _Round) -> Row:
    alone, ran = measured.alone, measured.ran
    return {
        "games": name,
        "transitions/s sent": sent,
        "transitions/s taken": round(ran.transitions),
        "updates/s": round(ran.updates),
        "% of updates alone": round(100 * measured.share),
        "% per processor second": round(100 * ran.per_cpu_s / alone.per_cpu_s),
        "step to learner, p95 ms": _milliseconds(measured.steps_s),
        "update to game, p95 ms": _milliseconds(measured.weights_s),
    }


def _milliseconds(delay_s: float | None) -> float | None:
    return round(1000 * delay_s, 1) if delay_s is not None else None


def _drain(delays: Any) -> float | None:
    """Return the 95th percentile of the delays that the games have reported since the last call (s)."""
    found = []
    while not delays.empty():
        found.append(delays.get())
    return float(np.quantile(found, 0.95)) if found else None


def _budget_row(name: str, sent: int, ran: _Ran, others: Mapping[str, float | None]) -> Row:
    shares = {"updates": ran.updating, "taking": ran.learner - ran.updating, "reader": ran.reader, **others}
    shown = {part: round(100 * share) if share is not None else None for part, share in shares.items()}
    return {"games": name, "transitions/s sent": sent, **shown}


def _servers() -> list[psutil.Process]:
    """Return the servers, without the child with which each rewrites its log, which soon ends."""
    found = [each for each in psutil.Process().children(recursive=True) if each.name() == "redis-server"]
    return [each for each in found if each.ppid() not in {server.pid for server in found}]


def _processor_s(processes: list[psutil.Process]) -> float:
    """Return the processor time of processes so far (s)."""
    return float(sum(each.cpu_times().user + each.cpu_times().system for each in processes))


def _many_row(settings: FleetBenchSettings) -> Row:
    n_processes = 4
    with one_core(), _server() as (admin, game):
        end = RedisLearnerEnd(admin, SHAPE, N_LANES)
        weights = QPolicy(HEADER).weights()
        context = process_context()
        n_each = settings.n_many // n_processes
        children = [context.Process(target=push_of_many, args=(game, n_each), daemon=True) for _ in range(n_processes)]
        for child in children:
            child.start()
        client: Any = connect(admin)
        deadline = time.monotonic() + 120.0
        while len(end.sequences()) < n_each * n_processes and time.monotonic() < deadline:
            end.wait(0.05)
            end.take()
        servers, n_messages = _servers(), -sum(end.sequences().values())
        server_s, learner_s = -_processor_s(servers), -time.process_time()
        n_rows, n_versions, start = -end.n_waiting_rows, 0, time.perf_counter()
        while time.perf_counter() - start < settings.seconds:
            end.wait(0.05)
            n_rows += len(end.take())
            n_versions += 1
            end.publish(Weights(version=n_versions, epsilon=1.0, tensors=weights))
            end.commit(end.state())
        passed = time.perf_counter() - start
        server_s, learner_s = server_s + _processor_s(servers), learner_s + time.process_time()
        row: Row = {
            "games": len(end.sequences()),
            "refused": len(end.refusals()),
            "transitions/s taken": round((n_rows + end.n_waiting_rows) / passed),
            "messages/s": round((n_messages + sum(end.sequences().values())) / passed),
            "server, % of a core": round(100 * server_s / passed),
            "learner, % of a core": round(100 * learner_s / passed),
            "step to learner, p95 ms": round(1000 * (end.delay_p95_s or 0.0), 1),
            "memory of the server, MB": round(client.info("memory")["used_memory_peak"] / 1e6),
            "processes that failed": sum(not child.is_alive() for child in children),
        }
        for child in children:
            child.kill()
            child.join()
        client.close()
        end.close()
    return row


def _malformed_row(settings: FleetBenchSettings) -> Row:
    """Refuse damaged messages one by one; then learn while games send them, each until the learner refuses it."""
    n_refused, seconds = 0, 0.0
    for message in _damaged_messages(settings.n_malformed, seed=0):
        start = time.perf_counter()
        try:
            decode_chunk(message, SHAPE, "game")
        except ChunkRefusedError:
            n_refused += 1
        seconds += time.perf_counter() - start
    with one_core(), _server() as (admin, game), _without_warnings(), ExitStack() as stack:
        bench = _Bench(admin)
        stack.callback(bench.end.close)
        bench.run(2.0)  # compiles kernels
        alone = bench.run(settings.seconds)
        sender = process_context().Process(target=push_damaged, args=(game, settings.n_malformed), daemon=True)
        sender.start()
        stack.callback(sender.kill)
        ran = [bench.run(3.0)]  # each saves once, which removes the streams of the refused games
        while sender.is_alive():
            ran.append(bench.run(3.0))
        if sender.exitcode:
            raise RuntimeError(f"the process that sends damaged messages ended with {sender.exitcode}")
        bench.end.flush()
        bench.run(0.5)
        return {
            "messages": settings.n_malformed,
            "refused": n_refused,
            "µs per message": round(1e6 * seconds / settings.n_malformed, 1),
            "games that sent them": N_DAMAGED_GAMES,
            "quarantined": len(bench.end.refusals()),
            "steps taken from them": sum(bench.end.n_taken(name) for name in bench.end.refusals()),
            "% of updates per processor second": round(
                100 * sum(each.per_cpu_s for each in ran) / len(ran) / alone.per_cpu_s
            ),
        }


def push_damaged(access: Access, n_messages: int) -> None:
    """Send damaged messages with a valid credential, in turn from each of `N_DAMAGED_GAMES` games."""
    client, keys = connect(access), Keys(access.run)
    for number, message in enumerate(_damaged_messages(n_messages, seed=1)):
        n_sent, game = divmod(number, N_DAMAGED_GAMES)
        client.xadd(keys.steps(access.user, f"{game:016x}"), {"c": message}, id=f"{n_sent + 1}-0")
    client.close()


def _damaged_messages(n: int, seed: int) -> Iterator[bytes]:
    """Damage a valid message in random ways, with a correct checksum in half of the cases (`_damaged`)."""
    generator = np.random.default_rng(seed)
    header = ChunkHeader(
        worker="game", incarnation="0" * 16, sequence=1, weights_version=0, row=row_digest(ROW), n_envs=1, n_rows=64
    )
    valid = encode_chunk(header, example_rows(64))
    for number in range(n):
        yield _damaged(valid, number, generator)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Do not print the warning of each quarantined game."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


_WRONG_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("kind", "pixels"),
    ("worker", "\x1b[2J"),
    ("incarnation", "game"),
    ("sequence", 0),
    ("weights_version", -2),
    ("row", "0" * 32),
    ("n_envs", 0),
    ("n_envs", 2**16),
    ("n_rows", 63),
    ("n_rows", 2**40),
    ("taken_at_s", -1.0),
)
"""Values of fields of the header that must be refused."""


def _damaged(valid: bytes, number: int, generator: np.random.Generator) -> bytes:
    """Return a message that must be refused.

    It is cut, or has random bytes; or it has a wrong field or NaN, and a correct checksum.
    """
    kind = number % 4
    if kind == 0:
        return valid[: int(generator.integers(len(valid)))]
    if kind == 1:
        return generator.bytes(int(generator.integers(1, 4096)))
    header = ChunkHeader(
        worker="game", incarnation="0" * 16, sequence=1, weights_version=0, row=row_digest(ROW), n_envs=1, n_rows=64
    )
    rows = example_rows(64)
    if kind == 2:
        field, value = _WRONG_FIELDS[int(generator.integers(len(_WRONG_FIELDS)))]
        return encode_chunk(msgspec.structs.replace(header, **{field: value}), rows)
    column = ("features", "reward")[int(generator.integers(2))]
    rows[column][int(generator.integers(64))] = np.nan
    return encode_chunk(header, rows)


@contextmanager
def _server() -> Iterator[tuple[Access, Access]]:
    """Start a server in a temporary folder on the disk; yield the accesses of the learner and of the games."""
    address = f"redis://127.0.0.1:{free_port('127.0.0.1')}"
    admin = Access(address=address, run="bench", user="admin", password=new_password())
    game = msgspec.structs.replace(admin, user="play-1", password=new_password())
    with TemporaryDirectory() as folder:
        server = RedisServer(Path(folder) / "redis", admin, max_memory_mb=1024)
        server.start([JoinUser(game.user, password_hash(game.password))])
        try:
            yield admin, game
        finally:
            server.close()


@contextmanager
def _games(access: Access, n_games: int, rate: float) -> Iterator[tuple[list[psutil.Process], Any]]:
    """Run games that push rows at a rate (rows/s each); yield their processes, and the delays of weights (s)."""
    context = process_context()
    delays = context.SimpleQueue()
    children: list[psutil.Process] = []
    with ExitStack() as stack:
        for _ in range(n_games):
            child = context.Process(target=push_rows, args=(access, rate, delays), daemon=True)
            child.start()
            stack.callback(child.join)
            stack.callback(child.kill)
            children.append(psutil.Process(child.pid))
        yield children, delays


def push_rows(access: Access, rate: float, delays: Any) -> None:
    """Push rows at a rate until killed, and report how old new weights are when the game gets them (s)."""
    end = _actor_end(access, "game")
    version = -1
    number, start = 0, time.perf_counter()
    rows = example_rows(EPISODE)
    while True:
        due = int((time.perf_counter() - start) * rate / EPISODE)
        while number < due:
            end.push(rows)
            number += 1
        weights = end.pull(version)
        if weights is not None:
            version = weights.version
            delays.put(time.monotonic() - weights.epsilon)
        time.sleep(0.01)


def push_of_many(access: Access, n_games: int) -> None:
    """Push a row of each of many games ten times a second until killed."""
    ends = [_actor_end(access, "game") for _ in range(n_games)]
    rows = example_rows(EPISODE)
    number, start = 0, time.perf_counter()
    while True:
        for end in ends:
            end.push(rows[number % EPISODE : number % EPISODE + 1])
        number += 1
        time.sleep(max(0.0, start + number / 10 - time.perf_counter()))


def _actor_end(access: Access, name: str) -> RedisActorEnd:
    return RedisActorEnd(access, name, 1, ROW, Spool(Path("/tmp"), 16 << 20), QPolicy(HEADER).weights())  # noqa: S108 - an unnamed file


def example_rows(n: int) -> Any:
    """Return n rows of one environment, in episodes of `EPISODE` steps."""
    rows = np.zeros(n, ROW)
    numbers = np.arange(n)
    rows["features"] = np.random.default_rng(0).standard_normal((n, SHAPE.n_features), np.float32)
    rows["n_decisions"] = 1
    rows["is_first"] = numbers % EPISODE == 0
    rows["outcome"] = np.where(numbers % EPISODE == EPISODE - 1, Outcome.TERMINATED, Outcome.GOES_ON)
    return rows
