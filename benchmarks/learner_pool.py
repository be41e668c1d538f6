"""Run the training runs of a benchmark in separate processes, and store each result on disk.

A benchmark of learners takes hours. An interrupted benchmark is resumed: a stored run is not repeated if its settings
are equal. After a change of the code of a learner, the file has to be removed.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Final

import msgspec
from rich.console import Console
from rich.progress import Progress

from benchmarks.child_process import child_environment
from benchmarks.learner_run import LearnerRun, LearnerTask, Point
from soulslab.errors import BenchmarkError, ConfigError

RUNS_NAME: Final = "runs.jsonl"
VERSION: Final = 1
_ERROR_LINES: Final = 15

_log = logging.getLogger(__name__)


class StoredRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the file of runs.

    Attributes:
        version: Version of the format.
        digest: Digest of the task.
        name: Name of the learner, for people who read the file.
        seed: Seed of the run, for people who read the file.
        run: Result of the run.
    """

    version: int = VERSION
    digest: str
    name: str
    seed: int
    run: LearnerRun


class RunFile:
    """Stored runs, one JSON object per line; lines are only appended."""

    def __init__(self, folder: Path) -> None:
        """Open the file in a folder; create both if they do not exist.

        Raises:
            ConfigError: The file cannot be read or written, or a line is not a run.
        """
        self._path = folder / RUNS_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._path.touch()
            lines = self._whole_lines()
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", source=self._path) from error
        self.runs: dict[str, LearnerRun] = {}
        for number, line in enumerate(lines, start=1):
            try:
                stored = msgspec.json.decode(line, type=StoredRun)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"line {number} is not a run of a benchmark ({error}); remove that line, or the file",
                    source=self._path,
                ) from error
            if stored.version != VERSION:
                raise ConfigError(
                    f"line {number} has version {stored.version}, but this soulslab reads {VERSION}; remove the file",
                    source=self._path,
                )
            self.runs[stored.digest] = stored.run

    def add(self, task: LearnerTask, run: LearnerRun) -> None:
        """Store a run.

        Raises:
            ConfigError: The file cannot be written.
        """
        digest = task.digest()
        stored = StoredRun(digest=digest, name=task.name, seed=task.settings.run.seed, run=run)
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(stored) + b"\n")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", source=self._path) from error
        self.runs[digest] = run

    def _whole_lines(self) -> list[bytes]:
        """Return the lines of the file; remove an incomplete last line."""
        data = self._path.read_bytes()
        n_whole = data.rfind(b"\n") + 1
        if n_whole < len(data):
            _log.warning("%s: removed an incomplete last line", self._path)
            os.truncate(self._path, n_whole)
        return data[:n_whole].splitlines()


def play_all(tasks: Sequence[LearnerTask], folder: Path, n_processes: int) -> list[LearnerRun]:
    """Run all tasks without a stored run, several at a time, and store their runs.

    Args:
        tasks: Tasks, in the order in which they start.
        folder: Folder of the stored runs.
        n_processes: Runs at a time, each on one core.

    Returns:
        The run of each task.

    Raises:
        BenchmarkError: A run failed. The others are stored.
        ConfigError: The file of runs cannot be read or written.
    """
    file = RunFile(folder)
    new = {digest: task for task in tasks if (digest := task.digest()) not in file.runs}
    if len(new) < len(tasks):
        _log.info("%d of %d runs are already stored in %s", len(tasks) - len(new), len(tasks), folder)
    with _Workers(file) as workers, ThreadPoolExecutor(n_processes) as pool:
        try:
            futures: list[Future[None]] = [pool.submit(workers.play, task) for task in new.values()]
            for future in futures:
                future.result()
        except BaseException:
            # Otherwise the exit of the pool would wait for the running tasks, which can take hours.
            pool.shutdown(wait=False, cancel_futures=True)
            workers.kill()
            raise
    return [file.runs[task.digest()] for task in tasks]


class _Workers:
    """Running processes with progress bars on standard error; used by several threads."""

    def __init__(self, file: RunFile) -> None:
        self._file = file
        self._lock = Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_killed = False
        self._progress = Progress(console=Console(stderr=True), transient=True)

    def __enter__(self) -> _Workers:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self.kill()

    def play(self, task: LearnerTask) -> None:
        """Run a task and store the run."""
        run = task.settings.run
        title = f"{task.name}, seed {run.seed}"
        bar = self._progress.add_task(title, total=run.total_steps)
        with TemporaryFile() as errors, self._process(errors) as process:
            if process.stdin is None or process.stdout is None:  # pipes are requested below
                raise AssertionError
            process.stdin.write(msgspec.msgpack.encode(task))
            process.stdin.close()
            result: LearnerRun | None = None
            for line in process.stdout:
                message = msgspec.json.decode(line, type=Point | LearnerRun)
                if isinstance(message, LearnerRun):
                    result = message
                else:
                    won = f"{title}: {100 * message.win_rate:.0f} %"
                    self._progress.update(bar, completed=message.decisions, description=won)
            if process.wait() != 0 or result is None:
                errors.seek(0)
                said = errors.read().decode(errors="replace").splitlines()[-_ERROR_LINES:]
                raise BenchmarkError(title, f"ended with code {process.returncode}", "\n".join(said))
        self._progress.remove_task(bar)
        with self._lock:
            self._file.add(task, result)

    def kill(self) -> None:
        """Kill all processes, and prevent new ones."""
        with self._lock:
            self._is_killed = True
            for process in self._processes:
                process.kill()

    @contextmanager
    def _process(self, errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._is_killed:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.learner_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # One thread per process, as there is one process per core.
                env=child_environment(OMP_NUM_THREADS="1"),
                # Ctrl-C reaches only the benchmark, which then kills its runs.
                start_new_session=True,
            )
            self._processes.add(process)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            with self._lock:
                self._processes.discard(process)
