"""Environment of the processes that benchmarks start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that imports ``benchmarks``, which is not installed.

    Args:
        variables: More variables.
    """
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **variables}
