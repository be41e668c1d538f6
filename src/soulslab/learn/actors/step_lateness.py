"""Looks over an actor's shoulder: how late its steps come, where the environment has a pace to keep up with."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from soulslab.learn.environment import Info

LATENESS: Final = "late_s"
"""Key of ``info`` in which an environment in real time says by how much a step was late (s).

That is wall time from the moment at which its observation was due to the moment at which it was taken; it holds what
the agent took too long and what the system took to wake the process up.
"""


class StepCounter(Protocol):
    """Who keeps the counts; between processes a ``status.StatusBoard``."""

    def note_step(self, late_s: float | None) -> None:
        """Count a step that was so late (s); None where nothing is to be kept up with."""


class Stopwatch(VectorWrapper):
    """Counts the steps of an environment and their lateness; changes nothing.

    Attributes:
        has_pace: Whether the last step told its lateness; False before the first.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], counter: StepCounter) -> None:
        """Wrap an environment.

        Args:
            env: Steps N environments.
            counter: Where the counts go.
        """
        super().__init__(env)
        self._counter = counter
        self.has_pace = False

    def step(self, actions: Any) -> Any:
        """Step, and count it."""
        result = self.env.step(actions)
        late_s = _lateness(result[-1])
        self._counter.note_step(late_s)
        self.has_pace = late_s is not None
        return result


def _lateness(info: Info) -> float | None:
    """Return the lateness of the step that was latest; None if no environment tells any.

    Gymnasium's own loop over environments moves what the last step of an episode says to ``final_info``.
    """
    found = [
        np.asarray(part[LATENESS], np.float64)[np.asarray(part.get(f"_{LATENESS}", True))]
        for part in (info, info.get("final_info", {}))
        if LATENESS in part
    ]
    told = np.concatenate([each.reshape(-1) for each in found]) if found else np.empty(0)
    return float(told.max()) if len(told) else None
