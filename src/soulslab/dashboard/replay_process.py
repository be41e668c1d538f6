"""Processes that replay recorded fights for the server of the dashboard.

A replay imports torch and the compiled simulator. This holds the lock of the Python interpreter for seconds, so that a
server that did it itself would answer no page meanwhile.

::

    request:  a line of JSON on standard input, see `ReplayRequest`
    answers:  kind (1 byte), length (4 bytes, big endian), content; on standard output, until the kind is END
"""

from __future__ import annotations

import logging
import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from soulslab.closing import Closing
from soulslab.dashboard.child_process import own_session
from soulslab.errors import SoulslabError

MESSAGE: Final = b"m"
"""A message for the live page."""

FAILURE: Final = b"f"
"""Why the fight cannot be replayed, as text; END follows."""

END: Final = b"e"

_HEADER: Final = struct.Struct(">cI")
_IDLE_S: Final = 300.0
"""Time without a replay after which a process is ended, because it uses the memory of torch (s)."""

_log = logging.getLogger(__name__)


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A fight to replay.

    Attributes:
        folder: Folder of the recorded fights.
        fight: Number of the fight.
        policy: Folder of the run whose policy is asked at every step; "" for none.
        film: File for a video of the fight, which is written instead of the messages; "" for messages.
    """

    folder: str
    fight: int
    policy: str = ""
    film: str = ""


class ReplayProcess(Closing):
    """A process that answers one request after the other; it ends with this process.

    Attributes:
        is_waiting: Whether the process has answered all requests completely.
    """

    def __init__(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "soulslab.dashboard.replay_process"]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            **own_session(),
        )
        self._is_answered = self.is_waiting = True

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, request: ReplayRequest) -> None:
        """Send a request, whose answers `read` returns."""
        self._is_answered = self.is_waiting = False
        try:
            _pipe(self._process.stdin).write(msgspec.json.encode(request) + b"\n")
            _pipe(self._process.stdin).flush()
        except OSError:  # the process has ended; `read` reports it
            _log.debug("a process for replays has ended", exc_info=True)

    def read(self) -> tuple[bytes, bytes]:
        """Return kind and content of the next answer; a process that has ended gives a failure."""
        if self._is_answered:
            return END, b""
        stdout = _pipe(self._process.stdout)
        header = stdout.read(_HEADER.size)
        if len(header) == _HEADER.size:
            kind, length = _HEADER.unpack(header)
            content = stdout.read(length)
            if len(content) == length:
                self._is_answered = self.is_waiting = kind == END
                return kind, content
        self._is_answered = True
        return FAILURE, b"the process that replays fights has ended; the log of the dashboard may say why"

    def close(self) -> None:
        """End the process, also while another thread reads; a second call does nothing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # a request that was not sent
                _pipe(pipe).close()


class ReplayProcesses:
    """Processes for replays, of which at most one waits for the next request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: ReplayProcess | None = None
        self._timer: threading.Timer | None = None

    def take(self) -> ReplayProcess:
        """Return a process that waits for a request; give it back afterwards."""
        with self._lock:
            process, self._idle = self._idle, None
            if self._timer is not None:
                self._timer.cancel()
        if process is not None and process.is_alive:
            return process
        return ReplayProcess()

    def give_back(self, process: ReplayProcess) -> None:
        """Keep a process that has answered its request completely, and end any other one."""
        with self._lock:
            if process.is_waiting and self._idle is None:
                self._idle = process
                self._timer = threading.Timer(_IDLE_S, self._end_idle)
                self._timer.daemon = True
                self._timer.start()
                return
        process.close()

    def _end_idle(self) -> None:
        with self._lock:
            process, self._idle = self._idle, None
        if process is not None:
            process.close()


def main() -> None:
    """Answer requests until standard input is closed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # a library that prints must not damage the answers
    for line in sys.stdin.buffer:
        try:
            _answer(msgspec.json.decode(line, type=ReplayRequest), answers)
        except BrokenPipeError:  # the server has ended
            os._exit(1)


def _answer(request: ReplayRequest, answers: IO[bytes]) -> None:
    """Answer one request; an error is an answer, too."""
    # The server imports this module, but does not replay.
    from soulslab.dashboard.recorded_fights import film_fight, replay_fight  # noqa: PLC0415

    folder = Path(request.folder)
    try:
        if request.film:
            film_fight(folder, request.fight, Path(request.film))
        else:
            player = None
            if request.policy:
                from soulslab.learn.players import load_player  # noqa: PLC0415  (torch takes a second)

                player = load_player(Path(request.policy))
            for message in replay_fight(folder, request.fight, player):
                _send(answers, MESSAGE, message)
    except SoulslabError as error:
        _send(answers, FAILURE, str(error).encode())
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  (a data set of another program; the next request is answered)
        _log.warning("%s, fight %d: cannot be replayed: %r", folder, request.fight, error)
        _send(answers, FAILURE, f"{folder}, fight {request.fight}: cannot be replayed: {error!r}".encode())
    _send(answers, END, b"")


def _send(answers: IO[bytes], kind: bytes, content: bytes) -> None:
    answers.write(_HEADER.pack(kind, len(content)) + content)
    answers.flush()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AssertionError("the process has pipes")
    return pipe


if __name__ == "__main__":
    main()
