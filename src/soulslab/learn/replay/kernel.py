"""Compilation of the replay's kernels with numba, kept on the disk where there is a place for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba as nb

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays; with ``NUMBA_DISABLE_JIT=1`` return it unchanged.

    numba's cache on the disk notices a change of the source file that the outermost function stands in, and of no
    other; so a kernel here calls functions of its own file alone.

    A kernel checks no index: what calls it must.
    """
    compiled: Callable[P, R]
    try:
        compiled = nb.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no folder to keep it in; then each process compiles anew
        compiled = nb.njit(nogil=True, error_model="numpy")(function)
    return compiled
