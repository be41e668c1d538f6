"""Runs ``windows_painter.c`` on Windows: windows with known pixels, which record keys, buttons and movements."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

EXTENDED = 0xE000


def picture(width: int, height: int, seed: int) -> NDArray[np.uint8]:
    """Return the pixels that the program paints: (H, W, 3) uint8, RGB."""
    y, x = np.mgrid[:height, :width].astype(np.uint32)
    mixed = x * np.uint32(0x9E3779B1) + y * np.uint32(0x85EBCA77) + np.uint32(seed * 0xC2B2AE3D & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x2C1B3C6D)
    mixed ^= mixed >> np.uint32(13)
    return np.stack([mixed >> np.uint32(shift) & np.uint32(0xFF) for shift in (16, 8, 0)], axis=-1).astype(np.uint8)


class WindowsPainter:
    """A running program; see `windows_painter.c` for its commands."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [os.environ["WINDOWS_PAINTER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.pid = self.process.pid
        self._windows: list[int] = []

    def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\r\n")

    def open(self, x: int, y: int, width: int, height: int, title: str = "painter") -> int:
        """Open a window and return its handle."""
        self._windows.append(int(self.ask("open", x, y, width, height, title)))
        return self._windows[-1]

    def close_all(self) -> None:
        """Handle messages again and close every window."""
        self.ask("go")
        for window in self._windows:
            self.ask("destroy", window)
        self._windows.clear()

    def events(self, what: str = "events") -> list[tuple[str, int, int]]:
        """Return what arrived since the last call: kind, code, value."""
        found = [text.split() for text in self.ask(what).split(",") if text]
        return [(kind, int(code), int(value)) for kind, code, value in found]

    def down(self) -> set[int]:
        """Return the virtual keys that are down by ``GetAsyncKeyState``."""
        return {int(word) for word in self.ask("down").split()}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # an unwritten command
                continue


@contextmanager
def painting() -> Iterator[WindowsPainter]:
    """Run the program."""
    painter = WindowsPainter()
    try:
        yield painter
    finally:
        painter.close()
