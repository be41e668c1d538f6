"""Releases held keys when this process dies: a small helper process that outlives this one by a moment.

A key that was pressed through XTest stays pressed in the X server, and a key that was sent to a game stays pressed in
the game, when the program that pressed it is killed. No handler runs on SIGKILL, and a library must not replace the
signal handlers of the program that uses it, so another process watches. It is informed before each press and after each
release through a pipe; when this process ends for any reason, it releases the remaining keys and ends too. It starts
with the first press. A display that ends with this process does not need it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from soulslab.errors import InputError

#: A separate script without imports from soulslab, so that it starts within a tenth of a second.
SCRIPT = Path(__file__).with_name("guard_process.py")
_END_S = 5.0


class Guard(Protocol):
    """Is informed about every press and release.

    A recipe describes how to release a key: ``xtest 3 25`` (type of the event, detail) or ``send 0x400001 2 0319...``
    (window, mask, the event in hex).
    """

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Record keys that are about to be pressed: name and recipe."""
        ...

    def free(self, names: Iterable[str]) -> None:
        """Remove keys that were released."""
        ...

    def close(self) -> None:
        """End the guard; a second call does nothing."""
        ...


class NoGuard:
    """No guard, for a display that ends with this process."""

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Do nothing."""

    def free(self, names: Iterable[str]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ProcessGuard:
    """A guard in a separate process.

    Args:
        display: Name of the display on which it releases the keys; it connects as a child process does.
    """

    def __init__(self, display: str) -> None:
        self._display = display
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Record keys that are about to be pressed; the first press starts the process."""
        lines = [f"hold {name} {recipe}\n" for name, recipe in recipes]
        if lines:
            self._tell(self._process or self._start(), lines)

    def free(self, names: Iterable[str]) -> None:
        """Remove keys that were released."""
        if self._process is not None:
            self._tell(self._process, [f"free {name}\n" for name in names])

    def close(self) -> None:
        """End the process, which releases the keys that are still recorded. A second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101  # it was started with a pipe
        try:
            process.stdin.close()
            process.wait(_END_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            # In a separate session, so that Ctrl-C in the terminal does not end it.
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                [sys.executable, "-I", str(SCRIPT), self._display, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            raise InputError(f"cannot start the process that releases keys when this one dies: {error}") from error
        return self._process

    @staticmethod
    def _tell(process: subprocess.Popen[bytes], lines: list[str]) -> None:
        assert process.stdin is not None  # noqa: S101
        try:
            process.stdin.write("".join(lines).encode())
            process.stdin.flush()
        except OSError as error:
            raise InputError(
                f"the process {process.pid} that releases keys when this one dies has ended; open the session again"
            ) from error
