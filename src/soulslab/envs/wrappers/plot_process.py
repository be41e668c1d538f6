"""Draws a live plot, in a process of its own: ``plot_process.py TARGET INTERVAL_S``.

It imports nothing of soulslab, so that it is there soon. It reads JSON, one message a line: first what it draws, then
what happened, until the end of its input. It says ``ready`` once it can draw.
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
#: The window is given so much time at once, to move, and to be looked at.
_LOOK_S = 0.05
_PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="{seconds}">
<title>{title}</title><img alt="{title}" src="data:image/png;base64,{picture}">
"""


class Plot:
    """What is drawn: health, rewards and actions.

    Args:
        figure: Where to.
        title: Above it.
        actions: Their names.
        n_steps: So many of the last steps are drawn.
    """

    def __init__(self, figure: Figure, title: str, actions: list[str], n_steps: int) -> None:
        self.figure = figure
        self._title = title
        self._actions = actions
        self._counts = [0] * len(actions)
        self._steps: deque[tuple[int, float, float, float]] = deque(maxlen=n_steps)
        self._starts: deque[int] = deque(maxlen=n_steps)
        self._returns: deque[float] = deque(maxlen=n_steps)
        self._axes = figure.subplots(1, 3, width_ratios=(5, 5, 3))

    def take(self, message: dict[str, Any]) -> None:
        """Take in what happened: rows of (step, player's health, boss's, reward, return, is a start, actions)."""
        for step, player, boss, reward, return_, is_start, actions in message["rows"]:
            if is_start:
                self._starts.append(step)
            self._steps.append((step, player, boss, reward))
            self._returns.append(return_)
            for action in actions:
                self._counts[action] += 1

    def draw(self) -> None:
        """Draw all of it anew."""
        health, rewards, actions = self._axes
        for axes in self._axes:
            axes.clear()
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, color=_FAINT, alpha=0.25, linewidth=0.6)
        steps = [row[0] for row in self._steps]
        health.plot(steps, [row[1] for row in self._steps], color=_INK, label="player")
        health.plot(steps, [row[2] for row in self._steps], color=_BOSS, label="boss")
        health.set(title="health", xlabel="step", ylim=(-0.02, 1.02))
        health.legend(loc="lower left", fontsize=8)
        rewards.plot(steps, [row[3] for row in self._steps], color=_FAINT, drawstyle="steps-mid", label="reward")
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
    """Draws into a PNG or an HTML page, which is whole at any time."""

    def __init__(self, path: Path, interval_s: float) -> None:
        self.figure = Figure(figsize=(13.0, 4.2), dpi=90, layout="constrained")
        self._path, self._interval_s = path, interval_s
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def show(self, title: str) -> None:
        """Write the file."""
        picture = io.BytesIO()
        self.figure.savefig(picture, format="png")
        data = picture.getvalue()
        if self._path.suffix == ".html":
            seconds, shown = max(1, round(self._interval_s)), base64.b64encode(data).decode()
            data = _PAGE.format(seconds=seconds, title=title, picture=shown).encode()
        self._temporary.write_bytes(data)
        self._temporary.replace(self._path)

    def wait(self) -> bool:
        """Return whether anybody still looks."""
        return True


class WindowTarget:
    """Draws into a window of its own."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt  # noqa: PLC0415 (opens no window for a file)

        self.figure = plt.figure(figsize=(12.0, 4.0), layout="constrained")
        if type(self.figure.canvas).required_interactive_framework is None:
            sys.exit(
                "matplotlib has no toolkit for windows here: install tkinter (python3-tk) or PyQt6, or plot to a file"
            )
        self._is_open = plt.fignum_exists
        plt.show(block=False)

    def show(self, title: str) -> None:
        """Bring it on the screen."""
        if manager := self.figure.canvas.manager:
            manager.set_window_title(title)
        self.figure.canvas.draw_idle()

    def wait(self) -> bool:
        """Let the window live for a moment; return whether it is still open."""
        if self._is_open(self.figure.number):
            self.figure.canvas.start_event_loop(_LOOK_S)
        return bool(self._is_open(self.figure.number))


def run(target: FileTarget | WindowTarget, lines: TextIO, said: TextIO) -> None:
    """Draw what is told until there is no more."""
    first = json.loads(lines.readline())
    plot = Plot(target.figure, first["title"], first["actions"], first["n_steps"])
    plot.draw()
    target.show(first["title"])
    said.write("ready\n")
    said.flush()
    messages: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, messages), daemon=True).start()
    while target.wait():
        try:
            line = messages.get(timeout=_LOOK_S)
        except queue.Empty:
            continue
        # Whatever has come in meanwhile is drawn at once.
        while line and not messages.empty():
            plot.take(json.loads(line))
            line = messages.get()
        if line:
            plot.take(json.loads(line))
        plot.draw()
        target.show(first["title"])
        if not line:
            return


def _read(lines: TextIO, messages: queue.SimpleQueue[str]) -> None:
    """Hand the lines on; the last one is empty."""
    while True:
        line = lines.readline()
        messages.put(line)
        if not line:
            return


def main() -> None:
    """Draw what comes in."""
    if hasattr(os, "nice"):
        os.nice(10)  # the game and the agent come first
    where, interval_s = sys.argv[1], float(sys.argv[2])
    run(WindowTarget() if where == "window" else FileTarget(Path(where), interval_s), sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
