"""Counters through which an actor reports its state and its lateness, and the learner asks it to stop.

Lateness is counted in classes whose bounds grow by a constant factor. A quantile is therefore at most a tenth too high,
the memory has a fixed size, and the counts continue after a crash of either process.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from soulslab.learn.actors.memory_block import MemoryBlock, open_block
from soulslab.learn.environment import Info

LATE_S: Final = 0.005
"""A step counts as late if it comes more than this after its time (s)."""

_SHORTEST_S: Final = 20e-6
_GROWTH: Final = 1.1
_N_CLASSES: Final = 160  # up to 76 s
N_STATUS_BYTES: Final = 8 * _N_CLASSES
_EDGES_S: Final = _SHORTEST_S * _GROWTH ** np.arange(_N_CLASSES)
LAYOUT: Final = f"{_N_CLASSES} classes from {_SHORTEST_S} by {_GROWTH}"
# The actor writes all counters but the last one, which the learner writes.
_STATE, _PID, _N_WAITS, _N_STEPS, _N_LATE, _VERSION, _N_STARTS, _STOP = range(8)


class ActorState(enum.IntEnum):
    """State of an actor: loading, stepping or waiting for a game to start, ended as requested, or with an error."""

    NONE = 0
    STARTING = 1
    PLAYING = 2
    STOPPED = 3
    FAILED = 4


class ActorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of an actor; a killed actor leaves its last state, and pid 0 means that none was started.

    ``n_steps`` is the number of steps of all actors of the run; ``n_late`` of them were later than `LATE_S`.
    ``weights_version`` is -1 if it has no weights.
    """

    state: ActorState
    pid: int
    n_steps: int
    n_late: int
    weights_version: int
    n_starts: int


class StatusBoard:
    """A memory block of counters; the actor writes all but one, the learner writes that one."""

    def __init__(self, block: MemoryBlock) -> None:
        self._block = block
        self._classes: NDArray[np.uint64] = block.data.view(np.uint64)

    def begin(self, pid: int) -> None:
        """Record that an actor starts (called by the actor)."""
        block = self._block
        block.set(_PID, pid)
        block.set(_VERSION, 0)
        block.set(_N_STARTS, block.get(_N_STARTS) + 1)
        self.set_state(ActorState.STARTING)

    def set_state(self, state: ActorState) -> None:
        """Record the state of the actor (called by the actor)."""
        self._block.set(_STATE, state)

    def set_version(self, version: int) -> None:
        """Record the version of the weights with which the actor acts (called by the actor)."""
        self._block.set(_VERSION, version + 1)

    def note_step(self, late_s: float | None) -> None:
        """Count a step with its lateness (s), None without real time (called by the actor)."""
        block = self._block
        block.set(_N_STEPS, block.get(_N_STEPS) + 1)
        if late_s is not None:
            self._classes[lateness_class(late_s)] += np.uint64(1)
            if late_s > LATE_S:
                block.set(_N_LATE, block.get(_N_LATE) + 1)

    def note_alive(self) -> None:
        """Record that the actor waits without a step, and is not frozen (called by the actor)."""
        self._block.set(_N_WAITS, self._block.get(_N_WAITS) + 1)

    @property
    def n_signs(self) -> int:
        """Number of steps and of records of waiting; it does not change while an actor is frozen."""
        return self._block.get(_N_STEPS) + self._block.get(_N_WAITS)

    @property
    def is_stop_requested(self) -> bool:
        """Whether the actor has been asked to stop."""
        return bool(self._block.get(_STOP))

    def set_stop_request(self, is_asked: bool) -> None:
        """Ask the actor to stop, or withdraw the request (called by the learner)."""
        self._block.set(_STOP, is_asked)

    def read(self) -> ActorStatus:
        """Return the status of the actor (called by the learner)."""
        block = self._block
        return ActorStatus(
            state=ActorState(block.get(_STATE)),
            pid=block.get(_PID),
            n_steps=block.get(_N_STEPS),
            n_late=block.get(_N_LATE),
            weights_version=block.get(_VERSION) - 1,
            n_starts=block.get(_N_STARTS),
        )

    def lateness(self) -> NDArray[np.uint64]:
        """Return the number of steps so far in each class of lateness, as a copy."""
        return self._classes.copy()

    def close(self) -> None:
        """Unmap the memory; a second call does nothing."""
        self._classes = np.empty(0, np.uint64)
        self._block.close()


def lateness_class(late_s: float) -> int:
    """Return the class of a lateness in seconds."""
    return min(int(np.searchsorted(_EDGES_S, late_s)), _N_CLASSES - 1)


def lateness_quantile_s(classes: NDArray[np.uint64], share: float) -> float | None:
    """Return a quantile of the lateness (s) from the number of steps per class; None without steps.

    It is the upper bound of the class of the quantile, at most a tenth too high.
    """
    total = int(classes.sum())
    if total == 0:
        return None
    index = int(np.searchsorted(np.cumsum(classes), max(share * total, 1)))
    return 0.0 if index == 0 else float(_EDGES_S[min(index, _N_CLASSES - 1)])


def open_status(path: Path) -> StatusBoard:
    """Open a block of counters; see `open_block`."""
    return StatusBoard(open_block(path, "status", LAYOUT))


LATENESS: Final = "late_s"
"""Key of ``info`` in which a real-time environment reports the lateness of a step (s).

That is the wall time between the moment at which the observation was due and the moment at which it was made. It
includes the time that the agent took too long and the time in which the system woke the process up.
"""


class LatenessWrapper(VectorWrapper):
    """Passes the lateness of each step of a vector environment (s), or None without real time, to a function.

    ``has_pace`` is whether the last step reported its lateness.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], note_step: Callable[[float | None], None]) -> None:
        super().__init__(env)
        self._note_step = note_step
        self.has_pace = False

    def step(self, actions: Any) -> Any:
        """Step the environments and count the step."""
        result = self.env.step(actions)
        late_s = _lateness(result[-1])
        self._note_step(late_s)
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
    reported_s = np.concatenate([each.reshape(-1) for each in found]) if found else np.empty(0)
    return float(reported_s.max()) if len(reported_s) else None
