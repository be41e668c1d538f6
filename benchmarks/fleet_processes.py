"""A fleet in real processes, started with the command line: a learner, its Redis server, and machines with games."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from benchmarks.child_process import child_environment
from soulslab.errors import SoulslabError
from soulslab.fleet.fleet_folder import JOIN_NAME, FleetFolder
from soulslab.fleet.messages import LearnerStatus, Lease
from soulslab.fleet.operating import FleetStatus, read_status

DEADLINE_S: Final = 600.0

_POLL_S: Final = 0.1


class FleetProcesses:
    """The processes of a fleet; `close` kills them.

    Attributes:
        run_dir: Folder of the run.
        join: Its join file.
        fleet: Its credentials.
        log: File with the output of all processes.
        environment: Environment of the processes.
        popen: Class of the processes; tests fork them.
    """

    popen = subprocess.Popen

    def __init__(self, folder: Path) -> None:
        """Prepare a fleet in a folder."""
        self.run_dir = folder / "run"
        self.join = self.run_dir / JOIN_NAME
        self.fleet = FleetFolder(self.run_dir)
        self.log = folder / "log"
        self.environment = child_environment(OMP_NUM_THREADS="1")
        self._parts = ExitStack()

    def start_learner(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start ``soulslab fleet learn``, and wait until games can join."""
        child = self.start("fleet", "learn", *arguments)
        self.wait_for(lambda: child.poll() is not None or self.learner() is not None, "the learner")
        if child.poll() is not None:
            raise RuntimeError(f"the learner has ended:\n{self.text()}")
        return child

    def start(self, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a command of soulslab; ``prefix`` are words before it, as those of a `NetworkLink`."""
        with self.log.open("ab") as output:
            child = self.popen(
                [*prefix, sys.executable, "-m", "soulslab", *map(str, arguments)],
                stdout=output,
                stderr=output,
                env=self.environment,
            )
        self._parts.callback(end, child)
        return child

    def status(self) -> FleetStatus | None:
        """Return the status of the fleet; None while its server does not answer."""
        try:
            return read_status(self.fleet)
        except SoulslabError:
            return None

    def learner(self) -> LearnerStatus | None:
        """Return the status of the learner; None if it does not run."""
        found = self.status()
        return found.learner if found is not None else None

    def games(self) -> tuple[Lease, ...]:
        """Return the status of the games."""
        found = self.status()
        return found.games if found is not None else ()

    def text(self) -> str:
        """Return the output of all processes."""
        return self.log.read_text() if self.log.exists() else ""

    def wait_for(self, condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> float:
        """Wait for a condition and return the time (s); raises RuntimeError with the log after a deadline."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > deadline_s:
                raise RuntimeError(f"waited {deadline_s} s for {what}:\n{self.text()[-3000:]}")
            time.sleep(_POLL_S)
        return time.monotonic() - start

    def close(self) -> None:
        """Kill all processes; the games and the server end with those that started them."""
        self._parts.close()


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill a process with SIGKILL, and wait until the processes that it started have ended with it."""
    try:
        started = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
    except psutil.NoSuchProcess:  # it has ended meanwhile
        started = []
    child.kill()
    child.wait()
    psutil.wait_procs(started, timeout=DEADLINE_S)


def game_processes(machine: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the processes of the games of a machine, oldest first; a server forks them."""
    games = (game for server in psutil.Process(machine.pid).children() for game in server.children())
    return sorted(games, key=lambda game: game.create_time())
