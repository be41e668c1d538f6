"""Gymnasium's `TimeLimit` around an environment, so that the last step of a truncated fight has its report."""

from __future__ import annotations

import inspect
from typing import Any

from gymnasium import Env
from gymnasium.wrappers import TimeLimit


class OuterTimeLimits:
    """The `TimeLimit` wrappers around an environment.

    Neither ``gymnasium.make(..., max_episode_steps=n)`` nor the wrapper tells the environment its limit: only the
    ``spec`` of the wrapper has it. The wrappers are therefore found among the callers of the environment's `reset`,
    which every reset of a wrapper calls.
    """

    def __init__(self) -> None:
        self._wrappers: list[TimeLimit[Any, Any]] = []

    def find(self, env: Env[Any, Any]) -> None:
        """Find the wrappers through which `reset` of the environment was called; the caller is that `reset`."""
        self._wrappers = []
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_code is TimeLimit.reset.__code__ and frame.f_locals["self"].unwrapped is env:
                self._wrappers.append(frame.f_locals["self"])
            frame = frame.f_back

    def end_with_this_step(self) -> bool:
        """Return whether a wrapper will truncate the episode after the step that the environment plays now."""
        # The wrappers count, because a wrapper between them and the environment may play several steps for one.
        return any((limit._elapsed_steps or 0) + 1 >= limit._max_episode_steps for limit in self._wrappers)
