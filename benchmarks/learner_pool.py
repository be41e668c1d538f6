"""Plays the runs of a benchmark in processes of their own, and keeps each on disk as it comes.

A benchmark of learners takes hours. One that was interrupted goes on where it was: what is kept is not played again, as
long as its settings are the same. Whoever changes the code of a learner has to remove the file.
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


class KeptRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the file of runs.

    Attributes:
        version: Of this format.
        digest: Of the task.
        name: Of the learner, for whoever reads the file.
        seed: The same.
        run: What it came to.
    """

    version: int = VERSION
    digest: str
    name: str
    seed: int
    run: LearnerRun


class RunFile:
    """The runs of benchmarks, one JSON object a line; lines are only ever added."""

    def __init__(self, folder: Path) -> None:
        """Open the file in a folder; both are made if they are not there.

        Raises:
            ConfigError: The file cannot be read or written, or a line of it is no run.
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
                kept = msgspec.json.decode(line, type=KeptRun)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"line {number} is no run of a benchmark ({error}); remove that line, or the file",
                    source=self._path,
                ) from error
            if kept.version != VERSION:
                raise ConfigError(
                    f"line {number} is of version {kept.version}, this soulslab reads {VERSION}; remove the file",
                    source=self._path,
                )
            self.runs[kept.digest] = kept.run

    def add(self, task: LearnerTask, run: LearnerRun) -> None:
        """Keep a run.

        Raises:
            ConfigError: The file cannot be written.
        """
        digest = task.digest()
        kept = KeptRun(digest=digest, name=task.name, seed=task.settings.run.seed, run=run)
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(kept) + b"\n")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror or error}", source=self._path) from error
        self.runs[digest] = run

    def _whole_lines(self) -> list[bytes]:
        """Return the lines of the file; a last one that was cut off is removed."""
        data = self._path.read_bytes()
        n_whole = data.rfind(b"\n") + 1
        if n_whole < len(data):
            _log.warning("%s: removed its last line, which was cut off", self._path)
            os.truncate(self._path, n_whole)
        return data[:n_whole].splitlines()


def play_all(tasks: Sequence[LearnerTask], folder: Path, n_processes: int) -> list[LearnerRun]:
    """Play all runs that are not kept yet, several at a time, and keep them.

    Args:
        tasks: Who plays what; the first come first.
        folder: Where the runs are kept.
        n_processes: Runs at a time, each on one core.

    Returns:
        What each task came to.

    Raises:
        BenchmarkError: A run failed. The others have been kept.
        ConfigError: The file of runs cannot be read or written.
    """
    file = RunFile(folder)
    new = {digest: task for task in tasks if (digest := task.digest()) not in file.runs}
    if len(new) < len(tasks):
        _log.info("%d of %d runs are kept in %s already", len(tasks) - len(new), len(tasks), folder)
    with _Workers(file) as workers, ThreadPoolExecutor(n_processes) as pool:
        try:
            futures: list[Future[None]] = [pool.submit(workers.play, task) for task in new.values()]
            for future in futures:
                future.result()
        except BaseException:
            # Without this, leaving the pool would wait for hours of runs that nobody wants any more.
            pool.shutdown(wait=False, cancel_futures=True)
            workers.kill()
            raise
    return [file.runs[task.digest()] for task in tasks]


class _Workers:
    """Runs in processes of their own, with a progress bar each on standard error; its threads share it."""

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
        """Play a run, and keep it."""
        run = task.settings.run
        title = f"{task.name}, seed {run.seed}"
        bar = self._progress.add_task(title, total=run.total_steps)
        with TemporaryFile() as errors, self._process(errors) as process:
            if process.stdin is None or process.stdout is None:  # asked for below
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
        """End all processes, and let none start any more."""
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
                # More threads than cores would only wait for each other.
                env=child_environment(OMP_NUM_THREADS="1"),
                # Ctrl-C is for the benchmark alone, which then ends its runs.
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
