"""Compilation of the arena's kernels: numba, with a cache that notices every change of the rules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba as nb

#: numba's settings are made at run time, where a type checker does not see them.
config: Any = nb.config

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of the arena with numba; with ``NUMBA_DISABLE_JIT=1`` return it unchanged.

    numba's disk cache looks at the source file of the outermost function only, so a change in an inlined
    rule would go unnoticed. Here the cache folder's name carries a digest of all the arena's sources.
    """
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_DIR or "")
    try:
        compiled: Callable[P, R] = nb.njit(cache=CACHE_DIR is not None, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = previous
    return compiled


def _cache_dir() -> Path | None:
    """Return the cache folder of this very version of the rules; None if it cannot be written to."""
    digest = hashlib.sha256(nb.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    if config.CACHE_DIR:
        root = Path(config.CACHE_DIR)
    elif os.name == "nt":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "soulslab"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "soulslab"
    folder = root / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


#: Where compiled kernels are kept; None (`soulslab doctor` says so) means that each process compiles anew.
CACHE_DIR = _cache_dir()
