"""The process name of the game."""

from __future__ import annotations

import ctypes
import os
import sys

from setproctitle import setproctitle

_PR_SET_NAME = 15


def set_process_name(name: str) -> None:
    """Set the name of this process, as if a program with that name had been started.

    The command line becomes the name, and so does the short name (``comm``), of which Linux keeps 15 characters
    (man 2 prctl, PR_SET_NAME).

    Args:
        name: File name of the program: ``eldenring.exe``.
    """
    if len(name) < sum(len(argument) + 1 for argument in sys.orig_argv):
        # The environment follows the command line in memory, and a long name would overwrite it. Programs that attach
        # to the window read its display from there.
        os.environ.setdefault("SPT_NOENV", "1")
    setproctitle(name)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
