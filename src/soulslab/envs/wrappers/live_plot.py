"""Health, rewards and actions of the present fights, drawn while they go on."""

from __future__ import annotations

import contextlib
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
from soulslab.envs.wrappers.duel_source import duel_of
from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError, MissingDependencyError

#: Draws; a script that imports nothing of ours.
SCRIPT = Path(__file__).with_name("plot_process.py")

#: Steps that wait to be drawn; older ones are dropped when the drawing cannot keep up.
_MAX_ROWS = 20_000
_START_S = 120.0
_END_S = 60.0

_log = logging.getLogger(__name__)


class LivePlot(Wrapper, RecordConstructorArgs):
    """Shows a plot of the health of both, the rewards and how often each action was taken.

    Another process draws, with less priority, and a thread talks to it: a step only takes notes (some microseconds)
    and never waits, whatever the drawing takes. When the window is closed, the environment goes on without.

    Args:
        env: Any duel.
        target: ``"window"``, or a file that ends in ``.png`` or ``.html`` (a page that reloads itself).
        every_steps: The plot is renewed after so many steps,
        interval_s: but not more often than this, in wall time.
        n_steps: So many of the last steps are drawn.

    Raises:
        EnvironmentUsageError: An option is wrong, there is no screen for a window, or the file cannot be written.
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
        self._drawing: _Drawing | None = _Drawing(str(target), interval_s, head)
        self._rows: deque[tuple[Any, ...]] = deque(maxlen=_MAX_ROWS)
        self._n_steps = 0
        self._return = 0.0
        self._next_s = time.monotonic()
        self._is_start = True

    @property
    def is_drawing(self) -> bool:
        """Whether the plot is still shown."""
        return self._drawing is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._return, self._is_start = 0.0, True
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._drawing is not None:
            self._note(action, float(reward))
            if self._n_steps % self._every_steps == 0 and time.monotonic() >= self._next_s:
                self._send(self._drawing)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Draw what is left, leave the file, and close the environment; a second call does nothing."""
        drawing, self._drawing = self._drawing, None
        try:
            if drawing is not None:
                drawing.close(list(self._rows))
        finally:
            super().close()

    def _note(self, action: Any, reward: float) -> None:
        state = self._duel.duel_state
        self._n_steps += 1
        self._return += reward
        player, boss = state.player_hp / state.player_max_hp, state.boss_hp / state.boss_max_hp
        taken = [int(action)] if np.ndim(action) == 0 else np.flatnonzero(np.asarray(action) >= 0.5).tolist()
        self._rows.append((self._n_steps, float(player), float(boss), reward, self._return, self._is_start, taken))
        self._is_start = False

    def _send(self, drawing: _Drawing) -> None:
        if drawing.send(list(self._rows)):
            self._rows.clear()
        self._next_s = time.monotonic() + self._interval_s
        if not drawing.is_alive:
            _log.warning("the live plot has ended (%s); the environment goes on without it", drawing.last_words())
            self._drawing = None
            drawing.close([])


class _Drawing:
    """The process that draws, and the thread that talks to it.

    Args:
        target: See `LivePlot`.
        interval_s: See `LivePlot`.
        head: What is drawn.

    Raises:
        EnvironmentUsageError: It cannot draw there.
    """

    def __init__(self, target: str, interval_s: float, head: dict[str, Any]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process may write)
        # -P: modules beside the script are none of its own.
        self._process = subprocess.Popen(  # noqa: S603 (our own script)
            [sys.executable, "-P", str(SCRIPT), target, str(interval_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        # One message under way and one that waits: what comes after them is kept by the wrapper.
        self._messages: queue.Queue[bytes | None] = queue.Queue(maxsize=2)
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._messages.put(_line(head))
        self._thread.start()
        if not self._is_ready():
            words = self.last_words()
            self.close([])
            raise EnvironmentUsageError(f"LivePlot cannot draw to {target}: {words}")

    @property
    def is_alive(self) -> bool:
        """Whether the process still draws."""
        return self._process.poll() is None

    def send(self, rows: list[Any]) -> bool:
        """Send steps to draw; return whether they could be, without waiting."""
        try:
            self._messages.put_nowait(_line({"rows": rows}))
        except queue.Full:
            return False
        return True

    def last_words(self) -> str:
        """Return the last line of what it said of its errors."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its window was closed"

    def close(self, rows: list[Any]) -> None:
        """Draw these, too, and end the process."""
        end_s = time.monotonic() + _END_S
        try:
            for message in (_line({"rows": rows}), None):
                self._messages.put(message, timeout=max(0.01, end_s - time.monotonic()))
            self._process.wait(max(0.01, end_s - time.monotonic()))
        except (queue.Full, subprocess.TimeoutExpired):
            _log.warning("the live plot did not end within %.0f s, so it was ended", _END_S)
            self._process.kill()
            self._process.wait()
            self._end_talk()
        self._thread.join(_END_S)
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def _end_talk(self) -> None:
        """Let the thread end, whatever still waits to be said: there is nobody left to say it to."""
        while True:
            try:
                self._messages.put_nowait(None)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._messages.get_nowait()
            else:
                return

    def _is_ready(self) -> bool:
        """Wait until it can draw; return whether it can."""
        watch = threading.Timer(_START_S, self._process.kill)
        watch.start()
        try:
            return self._process.stdout is not None and self._process.stdout.readline() == b"ready\n"
        finally:
            watch.cancel()

    def _talk(self) -> None:
        """Pass the messages on; what cannot be is dropped, as the process has ended then."""
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
    """Return the names of what a histogram counts: actions, or buttons."""
    known = getattr(env.unwrapped, "action_names", None)
    if known is not None:
        return list(known)
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return [action_name(i) if space.n == N_ACTIONS else str(i) for i in range(int(space.n))]
    return [str(i) for i in range(spaces.flatdim(space))]


def _check(target: str, every_steps: int, interval_s: float, n_steps: int) -> None:
    for name, value in (("every_steps", every_steps), ("n_steps", n_steps)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise EnvironmentUsageError(f"LivePlot: {name} must be a whole number from 1, not {value!r}")
    if not interval_s >= 0.0:
        raise EnvironmentUsageError(f"LivePlot: interval_s must be 0 or more, not {interval_s!r}")
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "learn")
    if target == "window":
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise EnvironmentUsageError(
                "LivePlot: there is no screen for a window (no DISPLAY); give a file, such as target='fight.html'"
            )
    elif Path(target).suffix not in {".png", ".html"}:
        raise EnvironmentUsageError(f"LivePlot: target must be 'window' or end in .png or .html, not {target!r}")
    elif not Path(target).parent.is_dir():
        raise EnvironmentUsageError(f"LivePlot: there is no folder {Path(target).parent} for {target}; make it first")
