"""Disk cache of functions that numba compiles."""

from __future__ import annotations

from typing import Any

from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys


class KernelCache(FunctionCache):
    """numba's cache of one function, which loads compiled code without numba's compiler.

    Before it reads the cache, numba registers everything that its compiler supports. That takes half a second in each
    process, and only a function that is not in the cache needs it; numba does it again before it compiles.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the argument types of a call, or None if it has to be compiled."""
        rtsys.initialize(target_context)  # compiled code calls numba's runtime
        cache: Any = self
        code: Any = None
        with cache._guard_against_spurious_io_errors():
            code = cache._load_overload(sig, target_context)
        return code  # noqa: RET504 - None if the block has caught an error
