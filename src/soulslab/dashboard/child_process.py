"""Processes of the dashboard that Ctrl-C does not reach, and that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any


def own_session() -> dict[str, Any]:
    """Return the options of a process that Ctrl-C in the terminal of this one does not reach."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def end_with_input() -> None:
    """End this process when its standard input is closed; a thread waits for that."""
    # While a thread reads standard input, Windows blocks libraries that look at it when they are loaded, as those of
    # NumPy and SciPy do, and with them all starts of threads. So another file becomes standard input.
    pipe = os.dup(0)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_end_with_pipe, args=(pipe,), name="soulslab-parent-death", daemon=True).start()


def _end_with_pipe(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
