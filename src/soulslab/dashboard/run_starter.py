"""Start and resume runs: each is a separate process, which continues after the dashboard ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from soulslab.dashboard.child_process import own_session
from soulslab.errors import ConfigError
from soulslab.learn.archive import writing
from soulslab.learn.configs import shipped_configs

LOG_NAME: Final = "console.log"
"""File with the output of a run that the dashboard started."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_LOG_BYTES: Final = 16_384


class _Started(NamedTuple):
    """The process of a run, and when it was started (Unix time, s)."""

    process: subprocess.Popen[bytes]
    started_s: float


class RunStarter:
    """Starts and resumes runs, and knows which of their processes live."""

    def __init__(self) -> None:
        self._started: dict[Path, _Started] = {}

    def start(self, root: Path, name: str, config: str) -> None:
        """Start a new run of a shipped config; raises ConfigError for a name that is taken or malformed."""
        if not _NAME.fullmatch(name):
            raise ConfigError(
                "takes letters, digits, dots, underscores and hyphens, at most 64", source=f"name {name!r}"
            )
        if config not in shipped_configs():
            raise ConfigError("is not a shipped config", source=config)
        folder = root / name
        with writing(folder):
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                raise ConfigError("exists already; choose another name", source=folder) from None
        self._train(folder, "--config", config, "--run-dir", str(folder))

    def resume(self, folder: Path) -> None:
        """Resume a run with its stored settings; settings that choose programs are refused, as without ``--trust``."""
        self._train(folder, "--resume", str(folder))

    def is_starting(self, folder: Path, last_message_s: float | None) -> bool:
        """Return whether a process that was started for a run lives, and has not sent a message yet.

        ``last_message_s`` is the time of the last message of the run (Unix time, s); None without messages.
        """
        started = self._started.get(folder)
        if started is None or started.process.returncode is not None:
            return False
        return last_message_s is None or last_message_s < started.started_s

    def _train(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "soulslab", "train", *arguments]
        started_s = time.time()
        with writing(folder), (folder / LOG_NAME).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **own_session()
            )
        self._started[folder] = _Started(process, started_s)
        # A process that has ended is kept by the system until its parent waits for it.
        threading.Thread(target=process.wait, name="soulslab-started-run", daemon=True).start()


def read_console(folder: Path) -> str:
    """Return the last lines that a run has printed; "" if the dashboard did not start it."""
    try:
        with (folder / LOG_NAME).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MAX_LOG_BYTES))
            return file.read(_MAX_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
