"""A wrapper that plots health, rewards and actions during the fights."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from soulslab.arena.vocabulary import N_ACTIONS, action_name
from soulslab.envs.arguments import checked_count
from soulslab.envs.wrappers.duel_source import Env, Wrapper, duel_of
from soulslab.errors import EnvironmentUsageError, MissingDependencyError

#: The script that draws. It does not import soulslab.
SCRIPT = Path(__file__).with_name("plot_process.py")

#: Most steps that wait to be drawn; the oldest ones are dropped if drawing is too slow.
_MAX_ROWS = 20_000
_START_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 60.0

_log = logging.getLogger(__name__)


class LivePlot(Wrapper, RecordConstructorArgs):
    """Plots the health of both fighters, the rewards, and how often each action was used.

    A separate process with lower priority draws, and a thread sends it the data. A step only stores its values (some
    microseconds) and never waits for the plot. If the window is closed, the environment continues without the plot.

    Args:
        target: ``"window"``, or a file that ends in ``.png`` or ``.html`` (a page that reloads itself).
        every_steps: Number of steps after which the plot is updated.
        interval_s: Shortest wall time between two updates.
        n_steps: Number of steps that the plot shows.

    Raises:
        EnvironmentUsageError: An option is invalid, a window has no display, or the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """

    def __init__(
        self,
        env: Env,
        target: str | Path = "window",
        every_steps: int = 10,
        interval_s: float = 1.0,
        n_steps: int = 600,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, target=target, every_steps=every_steps, interval_s=interval_s, n_steps=n_steps
        )
        super().__init__(env)
        _check(str(target), every_steps, interval_s, n_steps)
        self._duel = duel_of(env, "LivePlot")
        self._every_steps, self._interval_s = every_steps, interval_s
        title = env.spec.id if env.spec else type(env.unwrapped).__name__
        head = {"title": title, "actions": _action_names(env), "n_steps": n_steps}
        self._plot: _PlotProcess | None = _PlotProcess(str(target), interval_s, head)
        self._rows: deque[tuple[Any, ...]] = deque(maxlen=_MAX_ROWS)
        self._n_steps = 0
        self._return = 0.0
        self._next_s = time.monotonic()
        self._is_start = True

    @property
    def is_drawing(self) -> bool:
        """Whether the plot is still updated."""
        return self._plot is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._return, self._is_start = 0.0, True
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._plot is not None:
            self._add_row(action, float(reward))
            if self._n_steps % self._every_steps == 0 and time.monotonic() >= self._next_s:
                self._send(self._plot)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Draw the last steps, and close the plot and the environment; a second call does nothing."""
        plot, self._plot = self._plot, None
        try:
            if plot is not None:
                plot.close(list(self._rows))
        finally:
            super().close()

    def _add_row(self, action: Any, reward: float) -> None:
        state = self._duel.duel_state
        self._n_steps += 1
        self._return += reward
        player, boss = state.player_hp / state.player_max_hp, state.boss_hp / state.boss_max_hp
        taken = [int(action)] if np.ndim(action) == 0 else np.flatnonzero(np.asarray(action) >= 0.5).tolist()
        self._rows.append((self._n_steps, float(player), float(boss), reward, self._return, self._is_start, taken))
        self._is_start = False

    def _send(self, plot: _PlotProcess) -> None:
        if plot.send(list(self._rows)):
            self._rows.clear()
        self._next_s = time.monotonic() + self._interval_s
        if not plot.is_alive:
            _log.warning("the live plot has ended (%s); the environment continues without it", plot.last_error())
            self._plot = None
            plot.close([])


class _PlotProcess:
    """The process that draws, and the thread that sends it messages: first the head, then rows of steps.

    Raises:
        EnvironmentUsageError: The process cannot draw to the target.
    """

    def __init__(self, target: str, interval_s: float, head: dict[str, Any]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process may write)
        # -P: do not import modules from the folder of the script.
        self._process = subprocess.Popen(  # noqa: S603 (our own script)
            [sys.executable, "-P", str(SCRIPT), target, str(interval_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        # The queue holds one message that is being sent and one that waits; the wrapper keeps all later rows.
        self._messages: queue.Queue[bytes | None] = queue.Queue(maxsize=2)
        self._thread = threading.Thread(target=self._send_messages, daemon=True)
        self._messages.put(_line(head))
        self._thread.start()
        if not self._is_ready():
            reason = self.last_error()
            self.close([])
            raise EnvironmentUsageError(f"LivePlot cannot draw to {target}: {reason}")

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def send(self, rows: list[Any]) -> bool:
        """Send steps to draw, without waiting; return False if the queue is full."""
        try:
            self._messages.put_nowait(_line({"rows": rows}))
        except queue.Full:
            return False
        return True

    def last_error(self) -> str:
        """Return the last line of the process's standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its window was closed"

    def close(self, rows: list[Any]) -> None:
        """Draw the last rows, and end the process."""
        end_s = time.monotonic() + _END_TIMEOUT_S
        try:
            for message in (_line({"rows": rows}), None):
                self._messages.put(message, timeout=max(0.01, end_s - time.monotonic()))
            self._process.wait(max(0.01, end_s - time.monotonic()))
        except (queue.Full, subprocess.TimeoutExpired):
            _log.warning("the live plot did not end within %.0f s and was killed", _END_TIMEOUT_S)
            self._process.kill()
            self._process.wait()
            self._messages.put(None)  # the thread discards what it cannot send
        self._thread.join(_END_TIMEOUT_S)
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def _is_ready(self) -> bool:
        """Wait until the process has started; return whether it can draw."""
        watchdog = threading.Timer(_START_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            # Windows ends the line with "\r\n".
            return self._process.stdout is not None and self._process.stdout.readline().strip() == b"ready"
        finally:
            watchdog.cancel()
            watchdog.join()

    def _send_messages(self) -> None:
        """Send the messages of the queue; once the process has ended, messages are dropped."""
        pipe = self._process.stdin
        is_open = pipe is not None
        while (message := self._messages.get()) is not None:
            try:
                if pipe is not None and is_open:
                    pipe.write(message)
                    pipe.flush()
            except OSError:
                is_open = False
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            _log.debug("the live plot had ended before its last message")


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def _action_names(env: Env) -> list[str]:
    """Return the names of the histogram's bars: actions, or buttons."""
    known = getattr(env.unwrapped, "action_names", None)
    if known is not None:
        return list(known)
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return [action_name(i) if space.n == N_ACTIONS else str(i) for i in range(int(space.n))]
    return [str(i) for i in range(spaces.flatdim(space))]


def _check(target: str, every_steps: int, interval_s: float, n_steps: int) -> None:
    for name, value in (("every_steps", every_steps), ("n_steps", n_steps)):
        checked_count(f"LivePlot: {name}", value)
    if not interval_s >= 0.0:
        raise EnvironmentUsageError(f"LivePlot: interval_s must be 0 or more, not {interval_s!r}")
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "learn")
    if target == "window":
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise EnvironmentUsageError(
                "LivePlot: no display for a window (DISPLAY is not set); use a file, such as target='fight.html'"
            )
    elif Path(target).suffix not in {".png", ".html"}:
        raise EnvironmentUsageError(f"LivePlot: target must be 'window' or end in .png or .html, not {target!r}")
    elif not Path(target).parent.is_dir():
        raise EnvironmentUsageError(
            f"LivePlot: the folder {Path(target).parent} of {target} does not exist; create it first"
        )
