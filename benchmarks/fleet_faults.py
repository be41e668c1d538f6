"""``python -m benchmarks fleet-faults``: kills at random, full disks, and the time until everything works again.

The times are those of real processes, started with the command line: a learner with ``rainbow.toml``, and a machine
with two games of the built-in fight. For interruptions of the network, the machine is a network namespace that is
connected with TLS. The other tables are from processes that only push and take numbered rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import numpy as np
import psutil
from redis import Redis
from redis.exceptions import RedisError

from benchmarks.fleet_chaos import ChaosSettings, run_chaos
from benchmarks.fleet_processes import FleetProcesses, end, game_processes
from benchmarks.full_disk import fill_disk, small_disk
from benchmarks.network_link import NetworkLink, network_link
from benchmarks.result import Result, Row
from soulslab.fleet.access import Keys, connect
from soulslab.fleet.redis_server import free_port

_N_GAMES: Final = 2
_INTERRUPTED_S: Final = 20.0
"""Length of an interruption of the network (s), after which the games wait longest between two attempts."""


class FaultSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        chaos: Faults at random.
        n_disks: Number of times that the disk of a server is full.
        n_recoveries: Number of times that the time after each kind of fault is measured.
    """

    chaos: ChaosSettings = ChaosSettings(n_kills=1000, n_freezes=100)
    n_disks: int = 20
    n_recoveries: int = 10

    def quick(self) -> FaultSettings:
        """Return settings for a short run."""
        return FaultSettings(chaos=ChaosSettings(n_kills=20, n_freezes=1), n_disks=1, n_recoveries=2)


def measure_faults(settings: FaultSettings | None = None) -> Iterator[Result]:
    """Measure faults at random, full disks, and the time until everything works again; each is yielded at once."""
    settings = settings or FaultSettings()
    title = "SIGKILL and interruptions at random; goal: nothing lost or repeated"
    yield Result(title=title, rows=[_chaos_row(settings.chaos)])
    disks = _disk_row(settings.n_disks)
    if disks is not None:
        yield Result(title="full disks of the server; goal: nothing lost or repeated", rows=[disks])
    title = "time until the games play and the learner learns again (s); goals: game 3 s, learner 10 s"
    for row in _recovery_rows(settings.n_recoveries):
        yield Result(title=title, rows=[row])


def _chaos_row(settings: ChaosSettings) -> Row:
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        report = run_chaos(Path(folder), settings)
    return {
        "kills of games": report.n_kills["game"],
        "of the learner": report.n_kills["learner"],
        "of the server": report.n_kills["redis"],
        "interruptions": report.n_freezes,
        "rows": report.n_rows,
        "acknowledged messages lost": report.n_acknowledged_lost,
        "rows repeated": report.n_repeated,
        "gaps": report.n_gaps,
        "s": round(time.perf_counter() - start),
    }


def _disk_row(n_disks: int) -> Row | None:
    """Fill disks; return None if this user may not mount a file system."""
    reports = []
    for _ in range(n_disks):
        with TemporaryDirectory() as folder, small_disk(Path(folder) / "disk") as disk:
            if disk is None:
                return None
            reports.append(fill_disk(disk, Path(folder)))
    return {
        "full disks": len(reports),
        "ends of the server": sum(each.n_failures for each in reports),
        "rows lost": sum(each.n_lost for each in reports),
        "rows repeated": sum(each.n_repeated for each in reports),
        "rows dropped": sum(each.n_dropped for each in reports),
        "space to next row, longest s": round(max(each.back_s for each in reports), 2),
    }


def _recovery_rows(n: int) -> Iterator[Row]:
    """Yield a row for each fault; the network is interrupted only if this user may make a network namespace."""
    with _recovery(None) as trial:
        faults: dict[str, Callable[[], float]] = {
            "a game is killed": trial.kill_game,
            "the server is killed": trial.kill_server,
            "the learner is killed, and its server with it": trial.kill_learner,
        }
        for name, fault in faults.items():
            yield _recovery_row(name, [fault() for _ in range(n)])
    with network_link() as link:
        if link is not None:
            with _recovery(link) as trial:
                name = f"the network is interrupted for {_INTERRUPTED_S:.0f} s"
                yield _recovery_row(name, [trial.interrupt_network(link) for _ in range(n)])


@contextmanager
def _recovery(link: NetworkLink | None) -> Iterator[_Recovery]:
    with TemporaryDirectory() as folder:
        trial = _Recovery(Path(folder), link)
        try:
            trial.begin()
            yield trial
        finally:
            trial.close()


def _recovery_row(name: str, times_s: list[float]) -> Row:
    return {
        "fault": name,
        "times": len(times_s),
        "median s": round(float(np.median(times_s)), 2),
        "longest s": round(max(times_s), 2),
    }


class _Recovery:
    """A fleet whose processes are killed, one at a time, or whose network is interrupted.

    Args:
        folder: Folder of the run.
        link: Network of the machine with the games; None for this machine.
    """

    def __init__(self, folder: Path, link: NetworkLink | None) -> None:
        self._fleet = FleetProcesses(folder)
        self._link = link
        self._learner: Popen[bytes]
        self._machine: Popen[bytes]
        self._client: Redis
        self._keys: Keys

    def begin(self) -> None:
        """Start everything, and wait until the learner learns from both games."""
        fleet = self._fleet
        settings = ("env.n_envs=2", "run.evaluate_every=0", "run.checkpoint_every_s=2", "learner.updates_per_step=0.25")
        options = [word for each in settings for word in ("--set", each)]
        if self._link is not None:
            options += ["--listen", f"{self._link.address}:{free_port(self._link.address)}"]
        self._learner = fleet.start_learner("--run-dir", fleet.run_dir, *options)
        access = fleet.fleet.admin()
        self._client, self._keys = connect(access), Keys(access.run)
        self._start_games()
        self._wait_for_learning()

    def close(self) -> None:
        """Kill everything."""
        self._fleet.close()
        if hasattr(self, "_client"):
            self._client.close()

    def kill_game(self) -> float:
        """Kill a game for the first time; return the time until the next start of it has sent steps.

        A game that fails again is started again after a growing interval.
        """
        if self._n_killed == _N_GAMES:
            end(self._machine)
            self._start_games()
        before = self._streams()
        game_processes(self._machine)[0].kill()  # the oldest, so one that was not started again
        self._n_killed += 1
        return self._fleet.wait_for(lambda: self._streams() - before, "the steps of a game")

    def kill_server(self) -> float:
        """Kill the server; return the time until it has stored new steps of a game."""
        before = self._positions()
        for child in psutil.Process(self._learner.pid).children():
            if child.name() == "redis-server":
                child.kill()
        return self._fleet.wait_for(lambda: self._positions() - before, "new steps on the server")

    def kill_learner(self) -> float:
        """Kill the learner and start it again at once; return the time until it has made updates."""
        end(self._learner)
        start = time.monotonic()
        self._learner = self._fleet.start_learner("--resume", self._fleet.run_dir)
        self._wait_for_learning()
        return time.monotonic() - start

    def interrupt_network(self, link: NetworkLink) -> float:
        """Interrupt the network; return the time from its return until the server has stored new steps of all games."""
        link.interrupt()
        time.sleep(_INTERRUPTED_S)
        before = self._positions()
        link.restore()

        def have_sent() -> bool:
            return len({key for key, _ in self._positions() - before}) == _N_GAMES

        return self._fleet.wait_for(have_sent, "new steps of all games")

    def _start_games(self) -> None:
        """Start the machine, and wait until all its games have sent steps."""
        before, self._n_killed = self._streams(), 0
        prefix = self._link.command if self._link is not None else ()
        self._machine = self._fleet.start("fleet", "play", self._fleet.join, "--games", _N_GAMES, prefix=prefix)
        self._fleet.wait_for(lambda: len(self._streams() - before) == _N_GAMES, "the steps of all games")

    def _wait_for_learning(self) -> None:
        """Wait until a learner has published weights, and further ones after updates."""
        found: list[tuple[int, int]] = []

        def has_learned() -> bool:
            version = self._ask(lambda: self._client.get(self._keys.weights_version))
            if version is None:
                return False
            era, number, _ = (int(part) for part in version.split(b":"))
            if not found or found[-1][0] != era:
                found.append((era, number))
            return number > found[-1][1]

        self._fleet.wait_for(has_learned, "updates")

    def _streams(self) -> set[bytes]:
        """Return the streams of all starts of games that have sent steps."""
        found = self._ask(lambda: set(self._client.scan_iter(match=f"{self._keys.steps_of_all}*", count=1000)))
        return found or set()

    def _positions(self) -> set[tuple[bytes, bytes]]:
        """Return the last entries of all streams."""

        def read() -> set[tuple[bytes, bytes]]:
            entries: Any = [(key, self._client.xrevrange(key, count=1)) for key in self._streams()]
            return {(key, last[0][0]) for key, last in entries if last}

        return self._ask(read) or set()

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Return the answer of the server; None while there is none."""
        with suppress(RedisError):
            return question()
        return None
