"""The name that the game's process goes by."""

from __future__ import annotations

import ctypes

from setproctitle import setproctitle

_PR_SET_NAME = 15


def set_process_name(name: str) -> None:
    """Let this process go by the name of a program, as if that had been started.

    Its command line becomes the name, and so does its short name (``comm``), of which Linux keeps 15 characters
    (man 2 prctl, PR_SET_NAME).

    Args:
        name: File name of the program: ``eldenring.exe``.
    """
    setproctitle(name)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
