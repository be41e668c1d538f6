"""The actor's process, as the learner sees it: found or started, started anew when it fails, asked to end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final

from soulslab.errors import ActorError
from soulslab.learn.actors.actor_status import StatusBoard
from soulslab.learn.actors.shared_folder import ACTOR_LOCK
from soulslab.learn.process_lock import is_held

PROGRAM: Final = "soulslab.learn.rainbow.remote_actor_program"
LOG_NAME: Final = "actor.log"
MAX_FAILURES: Final = 5
FAILURES_WITHIN_S: Final = 600.0
STOP_DEADLINE_S: Final = 60.0
"""A step and a reset of a real game may take so long (s)."""

_TERMINATE_DEADLINE_S: Final = 10.0
_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 2000
_MAX_LOG_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class ActorProcess:
    """The process that plays for a run. It lives in a session of its own, so Ctrl-C does not reach it."""

    def __init__(self, run_dir: Path, place: Path, status: StatusBoard) -> None:
        """Look after the actor of a run; `watch` starts it.

        Args:
            run_dir: Folder of the run, with its settings.
            place: Folder with the memory.
            status: What the actor says of itself.
        """
        self._run_dir = run_dir
        self._lock = place / ACTOR_LOCK
        self._status = status
        self._child: subprocess.Popen[bytes] | None = None
        self._is_found = False
        self._failures: deque[float] = deque()

    @property
    def log_path(self) -> Path:
        """The file that the actor writes to."""
        return self._run_dir / LOG_NAME

    def is_alive(self) -> bool:
        """Tell whether an actor of this run lives, whoever started it."""
        if self._child is not None:
            return self._child.poll() is None
        return is_held(self._lock)

    def watch(self) -> None:
        """Start the actor if there is none; a living one, left by a learner that died, is taken over.

        Raises:
            ActorError: It failed more often than `MAX_FAILURES` within `FAILURES_WITHIN_S`, or cannot be started.
        """
        if self.is_alive():
            if self._child is None and not self._is_found:
                _log.info("the actor of this run still plays (process %d); going on with it", self._status.read().pid)
                self._is_found = True
            return
        if self._child is not None or self._is_found:
            self._note_failure()
        self._start()

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Ask the actor to end and wait until it has.

        One that we started and that does not end in time is ended by the system.

        Args:
            deadline_s: How long it may take (s).

        Raises:
            ActorError: It does not end, and another process has started it.
        """
        self._status.ask_stop(True)
        if self._child is not None:
            _end(self._child, deadline_s)
            self._child = None
            return
        deadline = time.monotonic() + deadline_s
        while is_held(self._lock):
            if time.monotonic() > deadline:
                pid = self._status.read().pid
                raise ActorError(
                    self._run_dir, f"its actor (process {pid}) did not end within {deadline_s:.0f} s; end it yourself"
                )
            time.sleep(_POLL_S)

    def log_tail(self) -> str:
        """Return the last lines of the actor's log; "" if there is none."""
        try:
            with self.log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return (text.partition("\n")[2] if size > _TAIL_BYTES else text).strip()

    def _note_failure(self) -> None:
        now = time.monotonic()
        self._failures.append(now)
        while now - self._failures[0] > FAILURES_WITHIN_S:
            self._failures.popleft()
        status = None if self._child is None else self._child.returncode
        how = "ended" if status is None else f"ended with {status}"
        if len(self._failures) > MAX_FAILURES:
            raise ActorError(
                self._run_dir,
                f"its actor {how}, and did so {len(self._failures)} times within {FAILURES_WITHIN_S / 60:.0f} minutes; "
                f"mend what {self.log_path} tells and resume the run",
                log_tail=self.log_tail(),
            )
        _log.warning("the actor %s; starting it anew (see %s)", how, self.log_path)

    def _start(self) -> None:
        self._status.ask_stop(False)
        self._is_found = False
        command = [sys.executable, "-m", PROGRAM, str(self._run_dir.resolve())]
        try:
            if self.log_path.exists() and self.log_path.stat().st_size > _MAX_LOG_BYTES:
                self.log_path.replace(self.log_path.with_name(f"{LOG_NAME}.old"))
            with self.log_path.open("ab") as log:
                self._child = subprocess.Popen(  # noqa: S603 - our own program
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
        except OSError as error:
            raise ActorError(self._run_dir, f"its actor could not be started: {error.strerror or error}") from error
        _log.info("the actor plays in process %d; its log is %s", self._child.pid, self.log_path)


def _end(child: subprocess.Popen[bytes], deadline_s: float) -> None:
    """Wait until a process of ours ends; after the deadline, end it."""
    try:
        child.wait(deadline_s)
    except subprocess.TimeoutExpired:
        _log.warning("the actor (process %d) did not end within %.0f s; ending it", child.pid, deadline_s)
        child.terminate()
        try:
            child.wait(_TERMINATE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
