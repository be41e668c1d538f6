"""Compilation of functions over arrays with numba, cached on the disk if possible."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import numba as nb

from soulslab.numba_cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays; with ``NUMBA_DISABLE_JIT=1`` return it unchanged.

    numba's cache on the disk only notices changes of the source file of the outermost function, so a kernel must only
    call functions of the same file. A kernel does not check indices; its caller must.
    """
    compiled: Any = nb.njit(nogil=True, error_model="numpy")(function)
    if compiled is not function:
        cache: Any = KernelCache
        with suppress(RuntimeError):  # numba found no folder for its cache; then each process compiles the function
            compiled._cache = cache(function)  # as numba's own `enable_caching` does
    result: Callable[P, R] = compiled
    return result
