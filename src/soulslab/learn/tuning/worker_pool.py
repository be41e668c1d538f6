"""Worker processes of a study; each trains one candidate at a time.

The process of the study draws and prunes the candidates; a worker only receives jobs, sends reports and ends a run when
it is asked to. A worker that dies therefore affects its own candidate only. The messages are JSON over a pipe.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from soulslab.learn.tuning.trial import TrialJob, TrialOutcome, TrialReport, TrialStatus, run_trial

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext  # Windows lacks the first one

_GRACE_S: Final = 5.0
"""Time that an idle worker gets to end (s)."""


ToWorker: TypeAlias = TrialJob | str | None
"""A job; the reply to a report: why the candidate ends, "" if it continues; or None: the study ends."""

_to_worker: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)
_from_worker: msgspec.json.Decoder[TrialReport | TrialOutcome] = msgspec.json.Decoder(TrialReport | TrialOutcome)


class Worker:
    """A worker process, as the study sees it; ``number`` is its candidate, None while it is idle."""

    def __init__(self, prepare: Callable[[], None] | None) -> None:
        # After a fork of this process, the threads of torch and numba would not work. The server that forks the workers
        # instead has imported the modules once and runs no threads; Windows has no fork.
        context: SpawnContext | ForkServerContext
        if sys.platform == "win32":
            context = get_context("spawn")
        else:
            context = get_context("forkserver")
            context.set_forkserver_preload([__name__, "soulslab.learn.train"])
        self.connection, theirs = context.Pipe()
        # Not a daemon process: those cannot have child processes, and an environment may start some.
        self._process: BaseProcess = context.Process(target=_work, args=(theirs, prepare), name="soulslab-tune")
        self._process.start()
        theirs.close()
        self.number: int | None = None

    def send(self, message: ToWorker) -> None:
        """Send a message; if the worker has died, :meth:`WorkerPool.events` reports it."""
        with suppress(OSError):
            self.connection.send_bytes(msgspec.json.encode(message))

    def death(self) -> str:
        """Wait for the end of the process and return why it ended."""
        self._process.join()
        code = self._process.exitcode or 0
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"its process was killed ({name}){'; out of memory?' if name == 'SIGKILL' else ''}"

    def end(self) -> None:
        """End the process: an idle worker ends when its pipe is closed, a busy one is killed."""
        self.connection.close()
        self._process.join(0.0 if self.number is not None else _GRACE_S)
        self._process.kill()
        self._process.join()
        self._process.close()


class WorkerPool:
    """Worker processes that are started when they are needed and ended with the ``with`` block."""

    def __init__(self, prepare: Callable[[], None] | None) -> None:
        """Prepare to start workers; ``prepare`` is called first in each, and must be importable."""
        self._prepare = prepare
        self.workers: list[Worker] = []

    @property
    def n_busy(self) -> int:
        """Number of workers that train a candidate."""
        return sum(worker.number is not None for worker in self.workers)

    def start(self, job: TrialJob) -> None:
        """Send a job to an idle worker, or to a new one."""
        worker = next((worker for worker in self.workers if worker.number is None), None)
        if worker is None:
            worker = Worker(self._prepare)
            self.workers.append(worker)
        worker.number = job.number
        worker.send(job)

    def events(self, timeout_s: float) -> list[tuple[Worker, TrialReport | TrialOutcome]]:
        """Wait for messages and return them; the death of a busy worker is returned as an outcome."""
        received: list[tuple[Worker, TrialReport | TrialOutcome]] = []
        ready = wait([worker.connection for worker in self.workers], timeout_s)
        for worker in [worker for worker in self.workers if worker.connection in ready]:
            try:
                received.append((worker, _from_worker.decode(worker.connection.recv_bytes())))
            except (EOFError, OSError):
                if worker.number is not None:
                    outcome = TrialOutcome(number=worker.number, state=TrialStatus.KILLED, reason=worker.death())
                    received.append((worker, outcome))
                self.workers.remove(worker)
                worker.end()
        for worker, message in received:
            if isinstance(message, TrialOutcome):
                worker.number = None
        return received

    def stop(self) -> None:
        """Ask all workers to end."""
        for worker in self.workers:
            worker.send(None)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.end()


class _Coordinator:
    """Controls a candidate in a worker: forwards its reports to the process of the study."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_stopped = False

    def report(self, report: TrialReport) -> str:
        self._connection.send_bytes(msgspec.json.encode(report))
        return self._listen()

    def is_stopped(self) -> bool:
        if not self._is_stopped and self._connection.poll():
            self._listen()
        return self._is_stopped

    def _listen(self) -> str:
        """Receive one message; a closed connection counts as a request to stop."""
        with suppress(EOFError, OSError):
            message = _to_worker.decode(self._connection.recv_bytes())
            if isinstance(message, str):
                return message
        self._is_stopped = True
        return ""


def _work(connection: Connection, prepare: Callable[[], None] | None) -> None:
    """Train the candidates that arrive, until the process of the study ends."""
    # A terminal sends SIGINT to all its processes; the process of the study handles it and stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if prepare is not None:
        prepare()
    with suppress(EOFError, OSError):
        while isinstance(job := _to_worker.decode(connection.recv_bytes()), TrialJob):
            connection.send_bytes(msgspec.json.encode(run_trial(job, _Coordinator(connection))))
