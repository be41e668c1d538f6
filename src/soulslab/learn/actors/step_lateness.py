"""Lateness of an actor's steps in environments that run in real time."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from soulslab.learn.environment import Info

LATENESS: Final = "late_s"
"""Key of ``info`` in which a real-time environment reports the lateness of a step (s).

That is the wall time between the moment at which the observation was due and the moment at which it was made. It
includes the time that the agent took too long and the time in which the system woke the process up.
"""


class StepCounter(Protocol):
    """Counts steps and their lateness; between processes this is an ``actor_status.StatusBoard``."""

    def note_step(self, late_s: float | None) -> None:
        """Count a step with its lateness (s); None if the environment does not run in real time."""


class LatenessWrapper(VectorWrapper):
    """Counts the steps of a vector environment and their lateness; the steps themselves are unchanged.

    Attributes:
        has_pace: Whether the last step reported its lateness; False before the first step.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], counter: StepCounter) -> None:
        """Wrap an environment.

        Args:
            env: Vector environment with N environments.
            counter: Receives the counts.
        """
        super().__init__(env)
        self._counter = counter
        self.has_pace = False

    def step(self, actions: Any) -> Any:
        """Step the environments and count the step."""
        result = self.env.step(actions)
        late_s = _lateness(result[-1])
        self._counter.note_step(late_s)
        self.has_pace = late_s is not None
        return result


def _lateness(info: Info) -> float | None:
    """Return the lateness of the latest environment; None if no environment reports one.

    Gymnasium's vector environments put the info of the last step of an episode into ``final_info``.
    """
    found = [
        np.asarray(part[LATENESS], np.float64)[np.asarray(part.get(f"_{LATENESS}", True))]
        for part in (info, info.get("final_info", {}))
        if LATENESS in part
    ]
    told = np.concatenate([each.reshape(-1) for each in found]) if found else np.empty(0)
    return float(told.max()) if len(told) else None
