"""The name that the game's process goes by."""

from __future__ import annotations

import ctypes
import os
import sys

from setproctitle import setproctitle

_PR_SET_NAME = 15


def set_process_name(name: str) -> None:
    """Let this process go by the name of a program, as if that had been started.

    Its command line becomes the name, and so does its short name (``comm``), of which Linux keeps 15 characters
    (man 2 prctl, PR_SET_NAME).

    Args:
        name: File name of the program: ``eldenring.exe``.
    """
    if len(name) < sum(len(argument) + 1 for argument in sys.orig_argv):
        # The environment lies behind the command line; a long name would be written over it. Whoever attaches to the
        # window reads there which display it is on.
        os.environ.setdefault("SPT_NOENV", "1")
    setproctitle(name)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
