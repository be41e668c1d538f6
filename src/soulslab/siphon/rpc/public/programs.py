"""ExecuteCommand: runs only programs that the operator of the server has allowed."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from soulslab.errors import AccessRefusedError, LaunchError
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2
from soulslab.siphon.rpc.public.call_handlers import text_of

DEFAULT_TIMEOUT_S = 30
MAX_TIMEOUT_S = 600
MAX_OUTPUT_BYTES = 1 << 20
#: Longest time that the pipes may stay open after the end, because of processes outside the program's group.
PIPES_S = 1.0
POLL_S = 0.02
#: Variables of our environment that the program inherits; others may contain secrets.
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "DISPLAY", "XAUTHORITY", "TZ", "TMPDIR")


class Programs:
    """Runs allowed programs, without a shell."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        self._allowed = tuple(path.resolve() for path in allowed)

    def run(self, request: pb2.ExecuteCommandRequest, gone: threading.Event) -> pb2.ExecuteCommandResponse:
        """Run a program, given by its path or unambiguous name, to its end.

        The program and all of its processes are killed after `timeout_s` (0 for 30 s), and when `gone` is set. Raises
        `AccessRefusedError` if it is not allowed, and `LaunchError` if it cannot be started.
        """
        program, timeout_s = self._find(request.command), request.timeout_seconds
        if not 0 <= timeout_s <= MAX_TIMEOUT_S:
            raise LaunchError(f"timeout_seconds is {timeout_s}; it is 0 (for {DEFAULT_TIMEOUT_S}) to {MAX_TIMEOUT_S}")
        start_s = time.monotonic()
        pipe = subprocess.PIPE if request.capture_output else subprocess.DEVNULL
        try:
            process = subprocess.Popen(  # noqa: S603  (a program that the operator named; no shell)
                [str(program), *request.args],
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                cwd=request.working_directory or None,
                env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # a ValueError: a zero character in an argument
            raise LaunchError(f"{program} cannot be started: {error}") from error
        with process:  # closes the pipes
            output = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
            problem = _follow(process, timeout_s or DEFAULT_TIMEOUT_S, gone, output)
        texts = [kept.decode("utf-8", "replace") for kept in output.values()] or ["", ""]
        return pb2.ExecuteCommandResponse(
            success=not problem and process.returncode == 0,
            message=text_of(problem or f"exit status {process.returncode}"),
            exit_code=process.returncode,  # negative for a signal
            stdout_output=texts[0],
            stderr_output=texts[1],
            execution_time_ms=int((time.monotonic() - start_s) * 1000),
        )

    def _find(self, name: str) -> Path:
        if not self._allowed:
            raise AccessRefusedError("this server runs no programs; its operator allows them by their paths")
        if "\0" not in name:
            path = Path(name)
            fitting = [path.resolve()] if path.is_absolute() else [p for p in self._allowed if p.name == name]
            if len(fitting) == 1 and fitting[0] in self._allowed:
                return fitting[0]
        known = ", ".join(str(path) for path in self._allowed)
        raise AccessRefusedError(f"{name!r} is not among the programs that this server runs: {known}")


def _follow(
    process: subprocess.Popen[bytes], timeout_s: float, gone: threading.Event, output: dict[IO[bytes], bytearray]
) -> str:
    """Wait for the end, and read the pipes of `output`; return why the program was killed."""
    end_s = time.monotonic() + timeout_s
    problem = ""
    with selectors.DefaultSelector() as pipes:
        for pipe in output:
            pipes.register(pipe, selectors.EVENT_READ)
        # Not reaped before its group is dead, because the id of the group could be reused.
        while not problem and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            _read(pipes, output)
            if time.monotonic() >= end_s:
                problem = f"it took longer than {timeout_s:g} s and was killed"
            elif gone.is_set():
                problem = "the client is gone, so it was killed"
        # Remaining processes of its group are killed with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_s = time.monotonic() + PIPES_S
        while pipes.get_map() and time.monotonic() < end_s:
            _read(pipes, output)
    return problem


def _read(pipes: selectors.BaseSelector, output: dict[IO[bytes], bytearray]) -> None:
    """Read what the pipes hold, after a short wait; only the beginning of the output is kept."""
    for ready, _ in pipes.select(POLL_S):
        pipe: Any = ready.fileobj
        data = os.read(ready.fd, 65536)
        if not data:
            pipes.unregister(pipe)
        output[pipe] += data[: MAX_OUTPUT_BYTES - len(output[pipe])]
