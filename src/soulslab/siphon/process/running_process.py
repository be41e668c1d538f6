"""A running process in a list of processes, and the comparison of its names with that of a game."""

from __future__ import annotations

import time

import msgspec

from soulslab.siphon.process.image import file_name, same_name

#: Number of characters that Linux keeps of a process name (TASK_COMM_LEN - 1, include/linux/sched.h).
MAX_COMM = 15
WINE_LOADERS = ("wine", "wine64", "wine-preloader", "wine64-preloader")


class RunningProcess(msgspec.Struct, frozen=True):
    """A process.

    Attributes:
        pid: Process id.
        comm: Name of the process; Linux cuts it to 15 characters.
        program: File name of the program; "" if it cannot be read.
        arguments: Command line, on Windows only the path of the program; empty if it cannot be read.
        started_s: Start in seconds since 1970; 0 if it cannot be read.
    """

    pid: int
    comm: str
    program: str
    arguments: tuple[str, ...]
    started_s: float

    @property
    def name(self) -> str:
        """Name of the program, for people."""
        first = file_name(self.arguments[0]) if self.arguments else ""
        if self.comm and first[:MAX_COMM] == self.comm:
            return first
        return self.comm or self.program

    def describe(self) -> str:
        """Return one line for an error message."""
        started = f"started {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.started_s))}"
        command = " ".join(self.arguments).strip() or self.comm
        return f"{self.pid}, {started if self.started_s else 'start unknown'}: {command}"

    def rank(self, wanted: str) -> int:
        """Return 2 for a process whose program has a file name, 1 for one with that name (a script), or 0."""
        names = [file_name(argument) for argument in self.arguments]
        if same_name(self.program, wanted) or (names and same_name(names[0], wanted)):
            return 2
        is_called_so = same_name(self.name, wanted)
        if len(wanted) > MAX_COMM:
            is_cut = self.comm.casefold() == wanted[:MAX_COMM].casefold()
            is_called_so |= is_cut and (not names or any(same_name(name, wanted) for name in names))
        if not is_called_so:
            return 0
        return 2 if self.program in WINE_LOADERS else 1
