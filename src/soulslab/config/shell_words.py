"""Paths in commands that users copy into a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path


def shell_word(path: Path | str) -> str:
    """Return a path as one word of a command line, in quotation marks if it needs them."""
    # The command prompt of Windows knows only double quotation marks.
    return subprocess.list2cmdline([str(path)]) if os.name == "nt" else shlex.quote(str(path))
