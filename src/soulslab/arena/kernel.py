"""Compilation of the arena's kernels with numba, and a disk cache that depends on all source files of the rules.

The kernels are compiled at the first step of the first simulator, once per machine and user. A lock lets one process
compile; other processes that start meanwhile wait and load the result.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ParamSpec, TextIO, TypeVar

import numba as nb
from numba.core.registry import CPUDispatcher

from soulslab.numba_cache import KernelCache

#: numba defines its settings at run time, so a type checker does not know them.
config: Any = nb.config

P = ParamSpec("P")
R = TypeVar("R")

_TARGET_OPTIONS = {
    "nopython": True,
    "boundscheck": None,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # nothing passes kernels to C
}
LOCK_NAME = "compile.lock"
#: Number of compiled functions after which a line says how many they are, on standard error that is no terminal.
LINE_EVERY = 20
_log = logging.getLogger(__name__)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of the arena with numba; return it unchanged if ``NUMBA_DISABLE_JIT=1``.

    numba's disk cache checks only the source file of the outermost function, so it would miss a change of an inlined
    rule. Here the name of the cache folder contains a digest of all source files of the arena.
    """
    return _compiled(_Kernel, function, _TARGET_OPTIONS)


def rule(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call; it cannot be called from Python.

    A kernel has a wrapper that converts the arguments of a call from Python. Most functions of the arena are called
    only by other compiled functions; without the wrapper they compile in two thirds of the time.
    """
    return _compiled(_Rule, function, {**_TARGET_OPTIONS, "no_cpython_wrapper": True})


def _compiled(kind: type[_Kernel], function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    if config.DISABLE_JIT:
        return function
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_DIR or "")
    try:
        compiled: Any = kind(py_func=function, locals={}, targetoptions=options)
        if CACHE_DIR is not None:
            cache: Any = _Cache
            compiled._cache = cache(function)  # as numba's own `enable_caching` does
    finally:
        config.CACHE_DIR = previous
    result: Callable[P, R] = compiled
    return result


class _Kernel(CPUDispatcher):
    """A compiled function that reports its compilation."""

    _cache_misses: Counter[Any]

    def compile(self, sig: Any) -> Any:
        """Load or compile the code for the argument types of a call."""
        with _compilation.function():
            n_compiled = self._cache_misses.total()
            code = super().compile(sig)
            if self._cache_misses.total() > n_compiled:
                _compilation.count()
            return code


class _Rule(_Kernel):
    """A compiled function without a wrapper for Python."""

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        """Refuse the call: without a wrapper it would crash the process."""
        raise TypeError(f"{self.py_func.__name__} is a rule, which only kernels can call; decorate it with @kernel")


class _Cache(KernelCache):
    """Disk cache of one function's compiled code; a miss is compiled under the machine-wide lock."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the argument types of a call, or None if this process has to compile it."""
        cache: Any = super()
        code = cache.load_overload(sig, target_context)
        if code is None and _compilation.lock_machine():  # another process may have compiled it meanwhile
            code = cache.load_overload(sig, target_context)
        return code


class _Compilation:
    """The compilation in this process: its lock, and its messages in the log or on standard error."""

    def __init__(self) -> None:
        self._thread = threading.RLock()
        self._lock: IO[bytes] | None = None
        self._depth = 0
        self._n_functions = 0
        self._is_announced = False

    @contextmanager
    def function(self) -> Iterator[None]:
        """Load or compile one function and the functions that it calls."""
        with self._thread:
            if self._depth == 0:
                yield from self._outermost()
            else:  # a function that is loaded from the cache does not load the functions that it calls
                self._announce()
                yield

    def count(self) -> None:
        """Count a function that was compiled."""
        self._n_functions += 1
        n, stream = self._n_functions, _terminal()
        if stream is not None:
            stream.write(f"\rfunctions compiled: {n}")
            stream.flush()
        elif n % LINE_EVERY == 0 and not _log.hasHandlers():
            _say(f"{n} functions compiled")

    def lock_machine(self) -> bool:
        """Wait until no other process compiles; return whether this call acquired the lock.

        The lock is released when the outermost compilation ends, or when the process ends.
        """
        if self._lock is not None or CACHE_DIR is None:
            return False
        self._lock = (CACHE_DIR / LOCK_NAME).open("ab")
        from filelock import lock_descriptor  # noqa: PLC0415  (only a process that compiles needs it)

        lock_descriptor(self._lock.fileno(), poll_interval=0.01)
        return True

    def _outermost(self) -> Iterator[None]:
        self._depth, n_before, started_s = 1, self._n_functions, time.monotonic()
        # numba creates millions of small objects that stay alive; without garbage collection it takes 10 % less time.
        had_gc = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if had_gc:
                gc.enable()
            self._depth = 0
            if self._lock is not None:
                self._lock.close()
                self._lock = None
            if n := self._n_functions - n_before:
                if (stream := _terminal()) is not None:
                    stream.write(f"\r{'':40}\r")  # removes the count
                    stream.flush()
                _log.debug("compiled %d functions in %.1f s", n, time.monotonic() - started_s)

    def _announce(self) -> None:
        """Report the compilation once: a process compiles several kernels, each at its first call."""
        if not self._is_announced:
            self._is_announced = True
            text = "compiling the rules of the fight, once per machine; this takes about 10 s"
            if _log.hasHandlers():
                _log.info(text)
            else:
                _say(text)


def _say(text: str) -> None:
    """Write a line to standard error, for a program that has not configured logging."""
    if sys.stderr is not None:  # as in a Windows program without a console
        sys.stderr.write(f"soulslab: {text}\n")


def _terminal() -> TextIO | None:
    """Return the terminal to which a count may be written; None if there is none, or the log hides the message."""
    stream = sys.__stderr__
    # A progress bar of rich replaces sys.stderr while it is shown.
    if stream is None or stream is not sys.stderr or not stream.isatty():
        return None
    return stream if not _log.hasHandlers() or _log.isEnabledFor(logging.INFO) else None


_compilation = _Compilation()


def cache_folder() -> Path:
    """Return the cache folder of soulslab for this user; it may not exist yet."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "soulslab"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "soulslab"


def _cache_dir() -> Path | None:
    """Return the cache folder of this version of the rules, or None if it cannot be written to."""
    digest = hashlib.sha256(nb.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = Path(config.CACHE_DIR) if config.CACHE_DIR else cache_folder()
    folder = root / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


#: Folder of the compiled kernels; None means that each process compiles them again (`soulslab doctor` reports this).
CACHE_DIR = _cache_dir()
