"""Processes that train candidates, one at a time each; who is drawn and who goes on is decided where they were started.

The workers know nothing of the study: they get a job, send reports, and end a run when they are told to. So one that
dies takes its own candidate with it and nothing else. What is said goes through a pipe as JSON.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

import msgspec

from soulslab.learn.tuning.trial import Job, Outcome, Report, State, run_trial

_GRACE_S: Final = 5.0
"""How long a worker that waits may take to end."""


class Verdict(msgspec.Struct, frozen=True, tag=True):
    """The answer to a report.

    Attributes:
        reason: Why the candidate ends; "" if it goes on.
    """

    reason: str


class Stop(msgspec.Struct, frozen=True, tag=True):
    """The study ends; whatever is under way is cut off."""


_to_worker = msgspec.json.Decoder(Job | Verdict | Stop)
_from_worker = msgspec.json.Decoder(Report | Outcome)


class Worker:
    """One process, as seen from where it was started.

    Attributes:
        number: The candidate that it trains; None while it waits.
    """

    def __init__(self, prepare: Callable[[], None] | None) -> None:
        # Forking would copy torch's and numba's threads half; spawning begins clean, on every system alike.
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        # Not a daemon: those may have no processes of their own, and an environment may be one.
        self._process: SpawnProcess = context.Process(target=_work, args=(theirs, prepare), name="soulslab-tune")
        self._process.start()
        theirs.close()
        self.number: int | None = None

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.pid

    def send(self, message: Job | Verdict | Stop) -> None:
        """Say something; one that has died is noticed by :meth:`receive`."""
        with suppress(OSError):
            self.connection.send_bytes(msgspec.json.encode(message))

    def receive(self) -> Report | Outcome | None:
        """Return what it said; None if it has died."""
        try:
            message: Report | Outcome = _from_worker.decode(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return message

    def death(self) -> str:
        """Return how it died, once it has."""
        self._process.join()
        code = self._process.exitcode or 0
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"its process was killed ({name}){'; out of memory?' if name == 'SIGKILL' else ''}"

    def end(self) -> None:
        """End it: one that waits ends by itself as nobody is left to work for, any other is killed."""
        self.connection.close()
        self._process.join(_GRACE_S if self.number is None else 0.0)
        self._process.kill()
        self._process.join()
        self._process.close()


class WorkerPool:
    """Some workers, started when there is work for them; ended when the ``with`` block ends."""

    def __init__(self, n_workers: int, prepare: Callable[[], None] | None) -> None:
        """Prepare to start workers.

        Args:
            n_workers: How many work at once.
            prepare: Called first in each, to register environments; a function that can be imported.
        """
        self._n_workers = n_workers
        self._prepare = prepare
        self.workers: list[Worker] = []

    @property
    def n_busy(self) -> int:
        """How many train a candidate."""
        return sum(worker.number is not None for worker in self.workers)

    @property
    def is_full(self) -> bool:
        """Whether all have something to do."""
        return self.n_busy >= self._n_workers

    def start(self, job: Job) -> None:
        """Give a job to a worker that waits, or to a new one."""
        worker = next((worker for worker in self.workers if worker.number is None), None)
        if worker is None:
            worker = Worker(self._prepare)
            self.workers.append(worker)
        worker.number = job.number
        worker.send(job)

    def events(self, timeout_s: float) -> list[tuple[Worker, Report | Outcome]]:
        """Return what workers have said, after waiting for it; a death is told as an outcome."""
        told: list[tuple[Worker, Report | Outcome]] = []
        ready = wait([worker.connection for worker in self.workers], timeout_s)
        for worker in [worker for worker in self.workers if worker.connection in ready]:
            message, number = worker.receive(), worker.number
            if message is None:
                if number is not None:
                    message = Outcome(number=number, state=State.KILLED, reason=worker.death())
                self.workers.remove(worker)
                worker.end()
            if isinstance(message, Outcome):
                worker.number = None
            if message is not None:
                told.append((worker, message))
        return told

    def stop(self) -> None:
        """Ask all to end."""
        for worker in self.workers:
            worker.send(Stop())

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.end()


class _Coordinator:
    """Who decides, as a worker sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_stopped = False

    def report(self, report: Report) -> str:
        self._connection.send_bytes(msgspec.json.encode(report))
        return self._listen()

    def is_stopped(self) -> bool:
        if not self._is_stopped and self._connection.poll():
            self._listen()
        return self._is_stopped

    def _listen(self) -> str:
        """Take in one message; whoever gives orders and is gone has stopped the study too."""
        try:
            message = _to_worker.decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            message = Stop()
        if isinstance(message, Verdict):
            return message.reason
        self._is_stopped = True
        return ""


def _work(connection: Connection, prepare: Callable[[], None] | None) -> None:
    """Train what comes, until there is nobody left to train for."""
    # Ctrl-C reaches every process of a terminal; the one that gives the orders hears it and passes it on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if prepare is not None:
        prepare()
    with suppress(EOFError, OSError):
        while isinstance(job := _to_worker.decode(connection.recv_bytes()), Job):
            connection.send_bytes(msgspec.json.encode(run_trial(job, _Coordinator(connection))))
