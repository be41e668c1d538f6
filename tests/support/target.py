"""Compiles and drives ``target.c``, a small program whose memory the tests read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from select import select

from soulslab.siphon.attributes.address_resolution import ResolvedAddresses
from soulslab.siphon.profile import Attribute, Base, Entity, Process, Profile
from support.waiting import PATIENCE_S

SOURCE = Path(__file__).with_name("target.c")
#: ``ERROR_INTERNAL_ERROR`` of Windows.
WINE_INTERNAL_ERROR = 1359
NAME = "siphon_target_program"
#: Address at which its command "map" maps memory.
AREA = 0x140000000


def compile_target(folder: Path, name: str = NAME) -> Path:
    """Compile the program into a folder."""
    program = folder / name
    gcc = shutil.which("gcc")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    subprocess.run([gcc, "-O1", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    return program


class Target:
    """A running target.

    Attributes:
        pid: Process of the target.
        root: Address of the pointer to the world.
        root_pointer: Address of a pointer to `root`.
        function: Address of code.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.root, self.root_pointer, self.function = (int(word, 16) for word in self._answer().split())

    def do(self, command: str) -> int:
        """Send a command and wait for the answer; return its address."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        answer = self._answer()
        return 0 if answer == "(nil)" else int(answer, 16)

    def exit(self, status: int = 0) -> None:
        """End the target and wait for its end; it remains a zombie until `reap`."""
        assert self.process.stdin
        self.process.stdin.write(f"exit {status}\n")
        self.process.stdin.flush()
        if sys.platform == "win32":
            self.process.wait(PATIENCE_S)  # its handle remains open
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def reap(self) -> int:
        """Read the exit status, and free the pid."""
        status = self.process.wait(PATIENCE_S)
        if sys.platform == "win32":
            self.process._handle.Close()
        return status

    def _answer(self) -> str:
        assert self.process.stdout
        if sys.platform != "win32":  # where only sockets can be waited for
            ready, _, _ = select([self.process.stdout], [], [], PATIENCE_S)
            assert ready, "the target does not answer"
        line = self.process.stdout.readline()
        assert line, f"the target ended with {self.process.wait(PATIENCE_S)}"
        return line.strip()


def _started(command: Sequence[str | Path], **options: object) -> subprocess.Popen[str]:
    """Start a program; Wine rarely fails with an internal error, and starts it the next time."""
    start = partial(
        subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **options
    )
    for _ in range(2):
        try:
            return start()
        except OSError as error:
            if getattr(error, "winerror", None) != WINE_INTERNAL_ERROR:
                raise
    return start()


@contextmanager
def running(command: Sequence[str | Path], **options: object) -> Iterator[Target]:
    """A context with a running target."""
    with _started(command, **options) as process:
        try:
            yield Target(process)
        finally:
            process.kill()


def _at(offset: int, kind: str, **facts: object) -> Attribute:
    return Attribute(base="root", offsets=(0x0, 0x8, 0x28, offset), type=kind, source="target.c", **facts)  # type: ignore[arg-type]


def _of(entity: str, offset: int, kind: str, **facts: object) -> Attribute:
    return Attribute(entity=entity, offsets=(offset,), type=kind, source="target.c", **facts)  # type: ignore[arg-type]


def _entity(number: int) -> Entity:
    return Entity(base="root", begin=(0x0, 0x10), end=(0x0, 0x18), id_offsets=(0x0,), id=number, source="target.c")


ATTRIBUTES = {
    "hp": _at(0x4, "i32", range=(0, 1000)),
    "x": _at(0x8, "f32", range=(-1e4, 1e4)),
    "position": _at(0x8, "f32", length=3, range=(-1e4, 1e4)),
    "is_hurt": _at(0x14, "flag", bit=2),
    "is_seen": _at(0x14, "flag", bit=0),
    "is_alive": _at(0x15, "bool"),
    "speed": _at(0x18, "f64", range=(0, 0.1)),
    "name": _at(0x20, "utf8", length=16),
    "title": _at(0x30, "utf16", length=32),
    "raw": _at(0x20, "bytes", length=6),
    "angle": _at(0x50, "i32", scale=1 / 65536, range=(-2, 2), unit="rad"),
    "mark": _at(0x60, "u32", range=(0, 2**32 - 1)),
    "serial": _at(0x64, "u32", range=(0, 2**32 - 1), is_writable=False),
    "exp": Attribute(
        base="pointer", offsets=(0x0, 0x8, 0x28, 0x58, 0x10), type="i64", range=(0, 1e15), source="target.c"
    ),
    "boss_hp": _of("boss", 0x4, "i32", range=(0, 1000)),
    "boss_title": _of("boss", 0x30, "utf16", length=32),
    "other_hp": _of("other", 0x4, "i32", range=(0, 1000)),
}

PROFILE = Profile(
    name="target",
    process=Process(executable=NAME),
    bases={
        "root": Base(offset=0, source="printed by the target"),
        "pointer": Base(offset=0, is_pointer=True, source="printed by the target"),
    },
    entities={"boss": _entity(11), "other": _entity(12)},
    attributes=ATTRIBUTES,
)


def places_of(target: Target) -> ResolvedAddresses:
    """Return the addresses of the bases."""
    return ResolvedAddresses(bases={"root": target.root, "pointer": target.root_pointer})
