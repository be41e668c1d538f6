"""A small X client that paints known pixels and changes its windows as games do, in a child process.

with Painter(display) as painter:
    window = painter.open(10, 20, 320, 200)
    painter.paint(window, seed=1)          # the pixels of `pattern(320, 200, 1)`
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import xcffib
import xcffib.xproto
from xcffib.xproto import CW, GC, ClientMessageEvent, ConfigWindow, EventMask, ExposeEvent

MAX_PART_BYTES = 200_000


def pattern(width: int, height: int, seed: int):
    """Return (H, W, 3) uint8 RGB noise, in which a pixel at a wrong position is detected."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


class Painter:
    """Starts the child process and sends commands; each returns after the X server has executed it."""

    def __init__(self, display: str, environment: Mapping[str, str] | None = None) -> None:
        self.display = display
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "DISPLAY": display, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid

    def ask(self, command: str, **values: Any) -> Any:
        from support.waiting import PATIENCE_S  # noqa: PLC0415 - the child process has no path to this package

        self.process.stdin.write(json.dumps([command, values]).encode() + b"\n")
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], f"the painter does not answer {command}"
        return json.loads(self.process.stdout.readline())

    def open(self, x: int, y: int, width: int, height: int, *, title: str = "painter", depth: int = 24) -> int:
        return self.ask("open", x=x, y=y, width=width, height=height, title=title, depth=depth)

    def paint(self, window: int, seed: int) -> None:
        self.ask("paint", window=window, seed=seed)

    def configure(self, window: int, **values: int) -> None:
        """x, y, width, height, stack_mode (0 above, 1 below)."""
        self.ask("configure", window=window, values=values)

    def do(self, request: str, window: int) -> None:
        """MapWindow, UnmapWindow, DestroyWindow."""
        self.ask("do", request=request, window=window)

    def burst(self, window: int, n: int, rgb: int) -> None:
        """Fill the window n times with black and then with a colour; returns before the server has executed it."""
        self.ask("burst", window=window, n=n, rgb=rgb)

    def cursor(self, window: int) -> None:
        """Show the pointer as a cross over the window, and move it to the centre."""
        self.ask("cursor", window=window)

    def set_repaints(self, is_on: bool) -> None:
        """Set whether exposed parts of a window are repainted; a paused game does not repaint."""
        self.ask("set_repaints", is_on=is_on)

    def windows(self) -> list[int]:
        return self.ask("windows_open")

    def close_all(self) -> None:
        """Close every window."""
        self.ask("close_all")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self) -> Painter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Client:
    """The X client in the child process."""

    def __init__(self) -> None:
        self.raw = xcffib.connect()
        self.core = self.raw.core
        self.screen = self.raw.setup.roots[0]
        self.windows: dict[int, dict[str, int]] = {}
        self.repaints = True

    def open(self, x, y, width, height, title, depth):
        window = self.raw.generate_id()
        visual, mask, values = self.screen.root_visual, CW.EventMask, [EventMask.Exposure]
        if depth != self.screen.root_depth:
            allowed = next(entry for entry in self.screen.allowed_depths if entry.depth == depth)
            visual = allowed.visuals[0].visual_id
            colormap = self.raw.generate_id()
            self.core.CreateColormap(0, colormap, self.screen.root, visual, is_checked=True).check()
            mask, values = CW.BorderPixel | CW.EventMask | CW.Colormap, [0, EventMask.Exposure, colormap]
        self.core.CreateWindow(
            depth, window, self.screen.root, x, y, width, height, 0, 1, visual, mask, values, is_checked=True
        ).check()
        name = title.encode()
        self.core.ChangeProperty(0, window, 39, 31, 8, len(name), name)  # WM_NAME, STRING
        gc = self.raw.generate_id()
        self.core.CreateGC(gc, window, GC.GraphicsExposures, [0])
        self.windows[window] = {"depth": depth, "gc": gc, "pixmap": 0}
        self.core.MapWindow(window)
        return window

    def paint(self, window, seed):
        about = self.windows[window]
        size = self.core.GetGeometry(window).reply()
        if about["pixmap"]:
            self.core.FreePixmap(about["pixmap"])
        about["pixmap"] = self.raw.generate_id()
        self.core.CreatePixmap(about["depth"], about["pixmap"], window, size.width, size.height)
        bgrx = np.zeros((size.height, size.width, 4), np.uint8)
        bgrx[..., :3] = pattern(size.width, size.height, seed)[..., ::-1]
        rows = max(MAX_PART_BYTES // (size.width * 4), 1)
        for top in range(0, size.height, rows):
            part = bgrx[top : top + rows]
            data = part.tobytes()
            place = (size.width, len(part), 0, top, 0, about["depth"], len(data), data)
            self.core.PutImage(2, about["pixmap"], about["gc"], *place, is_checked=True).check()
        self.show(window)

    def show(self, window):
        about = self.windows[window]
        if about["pixmap"]:
            size = self.core.GetGeometry(about["pixmap"]).reply()
            self.core.CopyArea(about["pixmap"], window, about["gc"], 0, 0, 0, 0, size.width, size.height)

    def configure(self, window, values):
        names = {"x": ConfigWindow.X, "y": ConfigWindow.Y, "width": ConfigWindow.Width, "height": ConfigWindow.Height}
        names["stack_mode"] = ConfigWindow.StackMode
        chosen = {names[name]: value for name, value in values.items()}
        # In the order of the bits.
        mask, signed = sum(chosen), [chosen[bit] for bit in sorted(chosen)]
        self.core.ConfigureWindow(window, mask, signed, is_checked=True).check()

    def do(self, request, window):
        getattr(self.core, request)(window, is_checked=True).check()
        if request == "DestroyWindow":
            self.windows.pop(window, None)

    def windows_open(self):
        return list(self.windows)

    def close_all(self):
        for window in self.windows:
            # A reparented window is destroyed with its frame.
            with suppress(xcffib.xproto.WindowError):
                self.core.DestroyWindow(window, is_checked=True).check()
        self.windows.clear()
        self.repaints = True

    def reparent(self, window, parent, x, y):
        self.core.ReparentWindow(window, parent, x, y, is_checked=True).check()

    def burst(self, window, n, rgb):
        gc = self.windows[window]["gc"]
        everything = [xcffib.xproto.RECTANGLE.synthetic(0, 0, 4096, 4096)]
        self.core.ChangeGC(gc, GC.Foreground, [0])
        for _ in range(n):
            self.core.PolyFillRectangle(window, gc, 1, everything)
        self.core.ChangeGC(gc, GC.Foreground, [rgb])
        self.core.PolyFillRectangle(window, gc, 1, everything)
        self.raw.flush()

    def cursor(self, window):
        font, cursor = self.raw.generate_id(), self.raw.generate_id()
        self.core.OpenFont(font, 6, "cursor", is_checked=True).check()
        self.core.CreateGlyphCursor(cursor, font, font, 30, 31, 0, 0, 0, 0xFFFF, 0, 0)
        self.core.ChangeWindowAttributes(window, CW.Cursor, [cursor], is_checked=True).check()
        size = self.core.GetGeometry(window).reply()
        self.core.WarpPointer(0, window, 0, 0, 0, 0, size.width // 2, size.height // 2)

    def set_repaints(self, is_on):
        self.repaints = is_on

    def run(self):
        poll = select.poll()
        poll.register(sys.stdin, select.POLLIN)
        poll.register(self.raw.get_file_descriptor(), select.POLLIN)
        while True:
            while (event := self.raw.poll_for_event()) is not None:
                if isinstance(event, ExposeEvent) and self.repaints and event.window in self.windows:
                    self.show(event.window)
                elif isinstance(event, ClientMessageEvent):
                    self.do("DestroyWindow", event.window)
                self.raw.flush()
            if 0 not in dict(poll.poll(50)):
                continue
            line = sys.stdin.buffer.readline()
            if not line:
                return
            command, values = json.loads(line)
            answer = getattr(self, command)(**values)
            if command != "burst":
                self.core.GetInputFocus().reply()
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _Client().run()
