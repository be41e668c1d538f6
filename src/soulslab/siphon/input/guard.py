"""Releases held keys when we die: a small process that outlives us by a moment.

A key that XTest pressed stays down in the X server, and one that was sent to a game stays down in the game, when the
program that pressed it is killed. No handler runs on SIGKILL, and a library must not replace the handlers of the
program that uses it; so another process watches. It is told before each press and after each release, through a pipe;
when we end, in whatever way, it releases what is left and ends, too. It starts with the first press, and is not needed
where the display dies with us.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from soulslab.errors import InputError

#: A script of its own that imports nothing of ours, so that it is there within a tenth of a second.
SCRIPT = Path(__file__).with_name("guard_process.py")
_END_S = 5.0


class Guard(Protocol):
    """What is told of every press and release.

    A recipe says how to release a key: ``xtest 3 25`` (type of the event, detail) or ``send 0x400001 2 0319...``
    (window, mask, the event in hex).
    """

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Note keys that are about to go down: name and recipe."""
        ...

    def free(self, names: Iterable[str]) -> None:
        """Forget keys that have gone up."""
        ...

    def close(self) -> None:
        """End it; a second call does nothing."""
        ...


class NoGuard:
    """For a display that ends when we do: there is nothing to guard."""

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Do nothing."""

    def free(self, names: Iterable[str]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ProcessGuard:
    """A guard in a process of its own.

    Args:
        display: Name of the display that it releases the keys on; it connects as a child of ours does.
    """

    def __init__(self, display: str) -> None:
        self._display = display
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, recipes: Iterable[tuple[str, str]]) -> None:
        """Note keys that are about to go down; starts the process with the first."""
        lines = [f"hold {name} {recipe}\n" for name, recipe in recipes]
        if lines:
            self._tell(self._process or self._start(), lines)

    def free(self, names: Iterable[str]) -> None:
        """Forget keys that have gone up."""
        if self._process is not None:
            self._tell(self._process, [f"free {name}\n" for name in names])

    def close(self) -> None:
        """End the process; it releases what it still knows to be down. A second call does nothing."""
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
            # A session of its own: Ctrl-C in the terminal must not end it together with us.
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
