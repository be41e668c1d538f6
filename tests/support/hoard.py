"""Compiles and drives ``hoard.c``, a small program with values for the scanner to find."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.image import read_image

SOURCE = Path(__file__).with_name("hoard.c")
NAME = "siphon_hoard"


def compile_hoard(folder):
    compiler = which("gcc")
    assert compiler, "gcc is not installed: apt-get install gcc"
    program = folder / NAME
    subprocess.run([compiler, "-O1", "-fPIE", "-pie", "-o", str(program), str(SOURCE)], check=True)
    return program


class Hoard:
    """The running program: addresses of its values, its memory and its image."""

    def __init__(self, program, seed):
        self.process = subprocess.Popen(
            [str(program), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        places = [int(word, 16) for word in self.process.stdout.readline().split()]
        self.health, self.stamina, self.name, self.title, self.score, self.game = places
        # The C library allocates its input buffer with the first line; after the answer the heap does not change.
        self.do("noise", 0)
        self.memory = LinuxMemory(self.process.pid)
        self.image = read_image(self.memory, program.name)

    def do(self, word, value):
        self.process.stdin.write(f"{word} {value}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def running_hoard(program, seed=1):
    hoard = Hoard(program, seed)
    try:
        yield hoard
    finally:
        hoard.memory.close()
        hoard.close()
