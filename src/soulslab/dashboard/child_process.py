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
    # On Windows, loading a library that queries standard input blocks while a thread reads standard input, and no other
    # thread can start meanwhile. NumPy and SciPy have such libraries, so the null device replaces standard input.
    pipe = os.dup(0)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_end_with_pipe, args=(pipe,), name="soulslab-parent-death", daemon=True).start()


def _end_with_pipe(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
