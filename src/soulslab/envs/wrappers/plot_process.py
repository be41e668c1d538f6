"""The process that draws a live plot: ``plot_process.py TARGET INTERVAL_S``.

It does not import soulslab, so that it starts quickly. It reads JSON messages from standard input, one on each line:
first the title, the action names and the number of steps to show, then rows with steps. It prints ``ready`` once it can
draw, and ends with its input.
"""

from __future__ import annotations

import base64
import io
import json
import os
import queue
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, TextIO

from matplotlib.figure import Figure

_INK, _BOSS, _FAINT = "#1b4965", "#9d3c3c", "#9aa5b1"
#: Wall time for events of the window between two checks for messages.
_POLL_S = 0.05
_PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="{seconds}">
<title>{title}</title><img alt="{title}" src="data:image/png;base64,{picture}">
"""


class Plot:
    """A plot of health, rewards and actions."""

    def __init__(self, figure: Figure, title: str, actions: list[str], n_steps: int) -> None:
        self.figure = figure
        self._title = title
        self._actions = actions
        self._counts = [0] * len(actions)
        self._steps: deque[tuple[int, float, float, float]] = deque(maxlen=n_steps)
        self._starts: deque[int] = deque(maxlen=n_steps)
        self._returns: deque[float] = deque(maxlen=n_steps)
        self._axes = figure.subplots(1, 3, width_ratios=(5, 5, 3))

    def add(self, message: dict[str, Any]) -> None:
        """Add rows of (step, health of the player, health of the boss, reward, return, is a start, actions)."""
        for step, player, boss, reward, return_, is_start, actions in message["rows"]:
            if is_start:
                self._starts.append(step)
            self._steps.append((step, player, boss, reward))
            self._returns.append(return_)
            for action in actions:
                self._counts[action] += 1

    def draw(self) -> None:
        """Redraw the figure."""
        health, rewards, actions = self._axes
        for axes in self._axes:
            axes.clear()
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, color=_FAINT, alpha=0.25, linewidth=0.6)
        steps, player, boss, reward = zip(*self._steps, strict=True) if self._steps else ((), (), (), ())
        health.plot(steps, player, color=_INK, label="player")
        health.plot(steps, boss, color=_BOSS, label="boss")
        health.set(title="health", xlabel="step", ylim=(-0.02, 1.02))
        health.legend(loc="lower left", fontsize=8)
        rewards.plot(steps, reward, color=_FAINT, drawstyle="steps-mid", label="reward")
        rewards.plot(steps, list(self._returns), color=_INK, label="return of the episode")
        rewards.set(title="reward", xlabel="step")
        rewards.legend(loc="lower left", fontsize=8)
        for start in self._starts:
            if steps and start >= steps[0]:
                health.axvline(start, color=_FAINT, linewidth=0.8, linestyle="--")
                rewards.axvline(start, color=_FAINT, linewidth=0.8, linestyle="--")
        total = max(1, sum(self._counts))
        actions.barh(self._actions, [count / total for count in self._counts], color=_INK)
        actions.set(title="actions")
        actions.tick_params(axis="y", labelsize=6)
        actions.invert_yaxis()
        self.figure.suptitle(self._title, fontsize=10)


class FileTarget:
    """Draws to a PNG file or an HTML page, which is replaced atomically.

    Windows refuses to replace a file while another program reads it. The old picture then stays until the next one.
    """

    def __init__(self, path: Path, interval_s: float) -> None:
        self.figure = Figure(figsize=(13.0, 4.2), dpi=90, layout="constrained")
        self._path, self._interval_s = path, interval_s
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._is_written = False

    def show(self, title: str) -> None:
        """Write the file. Raises PermissionError if the first picture must not be written."""
        picture = io.BytesIO()
        self.figure.savefig(picture, format="png")
        data = picture.getvalue()
        if self._path.suffix == ".html":
            seconds, shown = max(1, round(self._interval_s)), base64.b64encode(data).decode()
            data = _PAGE.format(seconds=seconds, title=title, picture=shown).encode()
        self._temporary.write_bytes(data)
        try:
            self._temporary.replace(self._path)
            self._is_written = True
        except PermissionError:
            self._temporary.unlink()
            if not self._is_written:
                raise

    def wait(self) -> bool:
        """Return whether to continue; always true for a file."""
        return True


class WindowTarget:
    """Draws in a window."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 (only needed for a window)

        self.figure = plt.figure(figsize=(12.0, 4.0), layout="constrained")
        if type(self.figure.canvas).required_interactive_framework is None:
            sys.exit(
                "matplotlib has no toolkit for windows here: install tkinter (python3-tk) or PyQt6, or plot to a file"
            )
        self._is_open = plt.fignum_exists
        plt.show(block=False)

    def show(self, title: str) -> None:
        """Update the window."""
        if manager := self.figure.canvas.manager:
            manager.set_window_title(title)
        self.figure.canvas.draw_idle()

    def wait(self) -> bool:
        """Handle events of the window for a moment; return whether it is still open."""
        if self._is_open(self.figure.number):
            self.figure.canvas.start_event_loop(_POLL_S)
        return bool(self._is_open(self.figure.number))


def run(target: FileTarget | WindowTarget, lines: TextIO, output: TextIO) -> None:
    """Draw the messages of an input, one JSON message on each line, until it ends; write ``ready`` once it can draw."""
    first = json.loads(lines.readline())
    plot = Plot(target.figure, first["title"], first["actions"], first["n_steps"])
    plot.draw()
    target.show(first["title"])
    output.write("ready\n")
    output.flush()
    messages: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, messages), daemon=True).start()
    while target.wait():
        try:
            line = messages.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        # Draw all messages that have arrived in the meantime at once.
        while line and not messages.empty():
            plot.add(json.loads(line))
            line = messages.get()
        if line:
            plot.add(json.loads(line))
        plot.draw()
        target.show(first["title"])
        if not line:
            return


def _read(lines: TextIO, messages: queue.SimpleQueue[str]) -> None:
    """Put the lines of an input into a queue; an empty line marks the end."""
    for line in lines:
        messages.put(line)
    messages.put("")


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)  # lower priority than the game and the agent
    place = sys.argv[1]
    run(WindowTarget() if place == "window" else FileTarget(Path(place), float(sys.argv[2])), sys.stdin, sys.stdout)
