"""Detection of programs that cannot load the clock library, by their headers (man 5 elf, man 8 ld.so)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from struct import Struct

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.process.elf import MAGIC

_CLASS_32 = 1
#: e_phoff, e_phentsize, e_phnum.
_HEADER = Struct("<32xQ14xHH6x")
_PT_INTERP = 3
_ADVICE = "Use the grade realtime, or scaled if the profile has an attribute for the speed"


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
            f"process {pid} cannot load the clock library: {name or 'it'} is {reason}. {_ADVICE}"
        )


def _has_privileges(pid: int) -> bool:
    """Return whether the effective user or group differs from the real one (proc(5), ``status``)."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    ids = [line.split()[1:3] for line in text.splitlines() if line.startswith(("Uid:", "Gid:"))]
    return any(real != effective for real, effective in ids)


def _find_reason(file: int) -> str:
    """Return the property of the executable that prevents loading the library; "" for none."""
    header = os.pread(file, _HEADER.size, 0)
    if header[:4] != MAGIC or len(header) < _HEADER.size:
        return ""
    if header[4] == _CLASS_32:
        return "a 32-bit program"
    table_at, entry_size, n_segments = _HEADER.unpack(header)
    table = os.pread(file, entry_size * n_segments, table_at)
    kinds = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), entry_size or 1)]
    return "statically linked" if _PT_INTERP not in kinds else ""
