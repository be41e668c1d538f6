"""Compiles and runs ``clock_program.c``, which waits for time by a given method and writes a report."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from soulslab.siphon.clock.lockstep_page import native_library, open_page_of

SOURCE = Path(__file__).with_suffix(".c")
FIELDS = (
    "n_waits", "n_short", "n_backwards", "now_ns", "n_wakes", "n_watched", "highest_ns", "is_different",
    "is_ready",
)  # fmt: skip


def compile_clock_program(folder: Path, name: str = SOURCE.stem, *options: str) -> Path:
    """Compile the program, or another one of this folder with the same report, into a folder."""
    program = folder / name
    source = SOURCE.with_name(f"{name}.c")
    gcc = which("gcc")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    subprocess.run([gcc, "-O1", "-pthread", *options, "-o", str(program), str(source), "-ldl", "-lrt"], check=True)
    return program


class ClockProgram:
    """A running program; the fields of its report are attributes with the current values.

    Attributes:
        pid: Process of the program.
    """

    def __init__(self, process: subprocess.Popen[bytes], report: mmap.mmap) -> None:
        self.process = process
        self.pid = process.pid
        self._report = report

    def __getattr__(self, name: str) -> int:
        if name not in FIELDS:
            raise AttributeError(name)
        value: int = struct.unpack_from("q", self._report, FIELDS.index(name) * 8)[0]
        return value

    def send(self, byte: bytes) -> None:
        """Send the program an event: a byte to read, a signal (s) or a post of its semaphore (p)."""
        assert self.process.stdin
        os.write(self.process.stdin.fileno(), byte)


@contextmanager
def running_clock_program(
    program: Path, folder: Path, way: str, period_ms: int, environment: Mapping[str, str], n_watchers: int = 0
) -> Iterator[ClockProgram]:
    """Run the program within a context."""
    path = folder / "report"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as report:
        process = subprocess.Popen(
            [program, path, way, str(period_ms), str(n_watchers)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
        )
        with process:
            try:
                yield ClockProgram(process, report)
            finally:
                process.kill()


def speed_of(pid: int) -> int:
    """Return the speed of a process from its page, without becoming its controller."""
    native, address, number = native_library(), ctypes.c_void_p(), ctypes.c_int64()
    fd = open_page_of(pid)
    assert native.map(fd, ctypes.byref(address)) == 0
    speed = ctypes.c_int64()
    native.now(address, ctypes.byref(number), ctypes.byref(speed))
    native.unmap(address)
    os.close(fd)
    return speed.value
