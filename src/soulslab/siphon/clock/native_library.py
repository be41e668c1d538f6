"""The controller's part of the clock library, through ctypes (see ``native/control.c``).

`check_can_preload` detects programs that cannot load the library, by their headers (man 5 elf, man 8 ld.so).
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.process.elf import MAGIC

#: Units of speed in the page: integers give the same result in the game and here.
UNIT_SPEED = 2**32
FOREVER_NS = 2**63 - 1
#: Results of `soulslab_clock_wait`: the game runs; all of its threads wait for time; it is proven that none can run;
#: there are more than `MAX_THREADS`.
RUNS, PARKED, STILL, CROWDED = 0, 1, 2, 3
#: `CLOCK_N_SLOTS`: number of threads of a game and of its other processes that can be held.
MAX_THREADS = 4096
#: Numbers of `enum clock_boundary`.
BOUNDARIES = {"auto": 0, "frame": 1, "idle": 2, "sleep": 3}

_PAGE, _INT, _NS = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_SIGNATURES = {
    "create": (_INT, (_INT,)),
    "fix_start": (None, (_PAGE, _NS, _NS, ctypes.c_uint64)),
    "map": (_INT, (_INT, ctypes.POINTER(ctypes.c_void_p))),
    "unmap": (None, (_PAGE,)),
    "own": (_INT, (_PAGE, _INT, _INT)),
    "disown": (None, (_PAGE, _INT)),
    "owner": (_INT, (_PAGE,)),
    "key": (ctypes.c_uint64, (_PAGE,)),
    "set_boundary": (None, (_PAGE, ctypes.c_uint32, ctypes.c_uint32)),
    "publish": (None, (_PAGE, _NS, _NS, _NS)),
    "now": (_NS, (_PAGE, ctypes.POINTER(_NS), ctypes.POINTER(_NS))),
    "time_reads": (ctypes.c_uint64, (_PAGE,)),
    "counter_at": (ctypes.c_uint64, (_PAGE,)),
    "wait": (_INT, (_PAGE, _INT, _NS)),
    "step": (_INT, (_PAGE, _INT, _NS, _NS)),
    "parked": (_INT, (_PAGE, _INT, ctypes.POINTER(_INT), _INT)),
    "set_servers": (None, (_PAGE, ctypes.POINTER(_INT), _INT)),
    "is_still": (_INT, (_PAGE, _INT)),
}


class NativeLibrary:
    """The functions of the library as attributes, without their prefix ``soulslab_clock_``."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, f"soulslab_clock_{name}")
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # never reached: all functions are set above; for the type checker


def library_path(name: str) -> Path:
    """Return the path of ``_preload`` or ``_control``.

    Raises:
        ClockUnavailableError: It was not built.
    """
    if not sys.platform.startswith("linux"):
        raise ClockUnavailableError(f"the lockstep clock needs Linux; this is {sys.platform}. Use another clock grade")
    found = sorted(Path(__file__).parent.glob(f"{name}*.so"))
    if not found:
        raise ClockUnavailableError(
            "the clock library was not built when soulslab was installed, because no C compiler was found; install gcc "
            "and libc6-dev (on Debian: sudo apt-get install gcc libc6-dev), then install soulslab again from its "
            "clone, wheel or git address: pip install --force-reinstall --no-deps PLACE"
        )
    return found[0]


@functools.cache
def native_library() -> NativeLibrary:
    """Load the controller's part.

    Raises:
        ClockUnavailableError: It was not built, or cannot be loaded.
    """
    path = library_path("_control")
    try:
        return NativeLibrary(path)
    except (OSError, AttributeError) as error:
        raise ClockUnavailableError(
            f"the clock library cannot be loaded ({error}); install soulslab again from its clone, wheel or git "
            "address: pip install --force-reinstall --no-deps PLACE"
        ) from error


def error_text(status: int) -> str:
    """Return the text for a negative error number."""
    return os.strerror(-status)


_CLASS_32 = 1
#: e_phoff, e_phentsize, e_phnum.
_ELF_HEADER = Struct("<32xQ14xHH6x")
_PT_INTERP = 3
_PRELOAD_ADVICE = "Use the grade realtime, or scaled if the profile has an attribute for the speed"


def check_can_preload(pid: int) -> None:
    """Refuse a process whose executable cannot load the clock library.

    Only a program that the dynamic loader starts can load it. The loader ignores ``LD_PRELOAD`` for programs with the
    privileges of another user or group. A process that has ended is not refused.

    Args:
        pid: Process that has not loaded the library.

    Raises:
        ClockUnavailableError: It is a 32-bit, a statically linked, or a setuid or setgid program.
    """
    path = Path(f"/proc/{pid}/exe")
    name = reason = ""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        if _has_privileges(pid):
            reason = "a program with additional privileges (setuid or setgid)"
        name = str(path.readlink())
        with path.open("rb") as file:
            reason = reason or _find_reason(file.fileno())
        if str(path.readlink()) != name:  # the process has executed another program in the meantime
            return
    if reason:
        raise ClockUnavailableError(
            f"process {pid} cannot load the clock library: {name or 'it'} is {reason}. {_PRELOAD_ADVICE}"
        )


def _has_privileges(pid: int) -> bool:
    """Return whether the effective user or group differs from the real one (proc(5), ``status``)."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    ids = [line.split()[1:3] for line in text.splitlines() if line.startswith(("Uid:", "Gid:"))]
    return any(real != effective for real, effective in ids)


def _find_reason(file: int) -> str:
    """Return the property of the executable that prevents loading the library; "" for none."""
    header = os.pread(file, _ELF_HEADER.size, 0)
    if header[:4] != MAGIC or len(header) < _ELF_HEADER.size:
        return ""
    if header[4] == _CLASS_32:
        return "a 32-bit program"
    table_at, entry_size, n_segments = _ELF_HEADER.unpack(header)
    table = os.pread(file, entry_size * n_segments, table_at)
    kinds = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), entry_size or 1)]
    return "statically linked" if _PT_INTERP not in kinds else ""
