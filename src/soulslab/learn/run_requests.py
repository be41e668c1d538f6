"""Requests to a running process through its folder: stop, and save now.

Another process writes an empty file; the run removes it and acts. Only users who may write to the folder can do so.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from soulslab.learn.archive import write_atomically

STOP_NAME: Final = "stop.request"
SAVE_NAME: Final = "save.request"

CHECK_EVERY_S: Final = 0.25
"""Shortest time between two looks at the folder (s)."""


class RunRequests:
    """The requests to the run of a folder, as the run reads them."""

    def __init__(self, folder: Path) -> None:
        self._paths = {name: folder / name for name in (STOP_NAME, SAVE_NAME)}
        self._checked_s = float("-inf")

    def take(self) -> str:
        """Return the name of a request and remove it, or "" without one; the folder is checked four times a second."""
        now_s = time.monotonic()
        if now_s - self._checked_s < CHECK_EVERY_S:
            return ""
        self._checked_s = now_s
        for name, path in self._paths.items():
            if path.exists():
                path.unlink(missing_ok=True)
                return name
        return ""


def request(folder: Path, name: str) -> None:
    """Ask the run of a folder to act on `STOP_NAME` or `SAVE_NAME`; raises CheckpointError without the rights."""
    write_atomically(folder / name, b"")


def clear_requests(folder: Path) -> None:
    """Remove all requests; the run does so once it holds the folder, before anything else."""
    for name in (STOP_NAME, SAVE_NAME):
        (folder / name).unlink(missing_ok=True)
