"""CPU time and memory that malformed inputs take, in this process and in a process that reads HDF5 files."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from soulslab.config.hdf5_files import Hdf5Reader

MAX_CPU_S = 2.0
MAX_MEMORY_BYTES = 500 << 20


class InputCosts:
    """Checks that each input takes at most `MAX_CPU_S` of CPU time, and all of them `MAX_MEMORY_BYTES` more memory."""

    def __init__(self, reader: Hdf5Reader | None = None) -> None:
        """Begin to measure; the process of the reader counts as well."""
        self._reader = reader
        self._peaks: dict[str, int] = {}
        self._child: psutil.Process | None = None
        self._note_peaks()

    @contextmanager
    def limited(self, name: object = "") -> Iterator[None]:
        """Check the input that the block reads."""
        if self._reader is not None:
            self._child = psutil.Process(self._reader._started().pid)
            self._note_peaks()
        before_s = self._cpu_s()
        yield
        spent_s = self._cpu_s() - before_s
        assert spent_s < MAX_CPU_S, f"{name}: {spent_s:.2f} s of CPU time"
        grown = {pid: max(0, _peak_bytes(pid) - before) for pid, before in self._peaks.items()}
        assert sum(grown.values()) < MAX_MEMORY_BYTES, f"{name}: {sum(grown.values()) >> 20} MB more memory"

    def _cpu_s(self) -> float:
        """Return the CPU time of this process, of a reader that has ended, and of one that runs (s)."""
        ended = psutil.Process().cpu_times()
        spent_s = time.process_time() + ended.children_user + ended.children_system
        try:
            times = self._child.cpu_times() if self._child is not None else None
        except psutil.NoSuchProcess:
            times = None
        return spent_s + (times.user + times.system if times is not None else 0.0)

    def _note_peaks(self) -> None:
        """Forget the greatest memory of a process that is not measured yet; note what it has now."""
        if sys.platform != "linux":
            return
        pids = ["self", *([str(self._child.pid)] if self._child is not None else [])]
        for pid in pids:
            if pid not in self._peaks:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._peaks = {pid: self._peaks.get(pid) or _peak_bytes(pid) for pid in pids}


def _peak_bytes(pid: str) -> int:
    """Return the most memory that a process had since it was forgotten; 0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return 1024 * int(found[1]) if found else 0
