"""What an actor says of itself and is asked to do: counters that each side looks at whenever it likes.

Lateness is counted in classes that grow by a factor, so that any quantile comes out at most a tenth too high, in
little room, and both sides can count on after a crash.
"""

from __future__ import annotations

import enum
import math
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.learn.actors.memory_block import Block, create_block, open_block

LATE_S: Final = 0.005
"""A step that comes more than this after its time is late (s)."""

_SHORTEST_S: Final = 20e-6
_GROWTH: Final = 1.1
_N_CLASSES: Final = 160  # up to 76 s
_EDGES_S: Final = _SHORTEST_S * _GROWTH ** np.arange(_N_CLASSES)
_LAYOUT: Final = f"{_N_CLASSES} classes from {_SHORTEST_S} by {_GROWTH}"
# The first counters are the actor's, the last one the learner's.
_STATE, _PID, _BEAT, _N_STEPS, _N_LATE, _VERSION, _N_STARTS, _STOP = range(8)


class ActorState(enum.IntEnum):
    """What an actor is doing."""

    NONE = 0
    """Nobody has played yet."""
    STARTING = 1
    """Its program and its environments are being loaded."""
    PLAYING = 2
    """It plays, or waits for a game to begin."""
    STOPPED = 3
    """It ended in order: it was asked to, or no learner was there any more."""
    FAILED = 4
    """It ended with an error, which stands in its log."""


class ActorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an actor.

    Attributes:
        state: What it is doing; one that was killed still says what it did.
        pid: Its process; 0 before the first.
        silent_s: Time since its last step (s).
        n_steps: Calls of ``step`` so far, by all actors of the run; each steps all environments.
        n_late: Those that were later than ``LATE_S``.
        weights_version: Version of the weights that it acts with; -1 if it has none.
        n_starts: How often an actor was started.
    """

    state: ActorState
    pid: int
    silent_s: float
    n_steps: int
    n_late: int
    weights_version: int
    n_starts: int


class StatusBoard:
    """A block of counters; the actor writes to all but one, the learner to that one."""

    def __init__(self, block: Block) -> None:
        """Use a block; see `create_status` and `open_status`."""
        self._block = block
        self._classes: NDArray[np.uint64] = block.data.view(np.uint64)

    @property
    def token(self) -> int:
        """Random number of the memory that it belongs to."""
        return self._block.token

    def begin(self, pid: int) -> None:
        """Say that an actor starts (the actor)."""
        block = self._block
        block.set(_PID, pid)
        block.set(_VERSION, 0)
        block.set(_N_STARTS, block.get(_N_STARTS) + 1)
        self.set_state(ActorState.STARTING)

    def set_state(self, state: ActorState) -> None:
        """Say what the actor is doing (the actor)."""
        self._block.set(_STATE, state)
        self._block.set(_BEAT, time.monotonic_ns())

    def set_version(self, version: int) -> None:
        """Say with which weights the actor acts (the actor)."""
        self._block.set(_VERSION, version + 1)

    def note_step(self, late_s: float | None) -> None:
        """Count a step (the actor).

        Args:
            late_s: By how much it was late (s); None where nothing is to be kept up with.
        """
        block = self._block
        block.set(_N_STEPS, block.get(_N_STEPS) + 1)
        if late_s is not None:
            self._classes[lateness_class(late_s)] += np.uint64(1)
            if late_s > LATE_S:
                block.set(_N_LATE, block.get(_N_LATE) + 1)
        block.set(_BEAT, time.monotonic_ns())

    @property
    def is_stop_asked(self) -> bool:
        """Whether the actor is asked to end."""
        return bool(self._block.get(_STOP))

    def ask_stop(self, is_asked: bool) -> None:
        """Ask the actor to end, or not any more (the learner)."""
        self._block.set(_STOP, is_asked)

    def read(self) -> ActorStatus:
        """Return all that the actor says (the learner)."""
        block = self._block
        return ActorStatus(
            state=ActorState(block.get(_STATE)),
            pid=block.get(_PID),
            silent_s=max(0.0, (time.monotonic_ns() - block.get(_BEAT)) / 1e9),
            n_steps=block.get(_N_STEPS),
            n_late=block.get(_N_LATE),
            weights_version=block.get(_VERSION) - 1,
            n_starts=block.get(_N_STARTS),
        )

    def lateness(self) -> NDArray[np.uint64]:
        """Return how many steps so far fell into each class of lateness, as a copy."""
        return self._classes.copy()


def lateness_class(late_s: float) -> int:
    """Return the class of a lateness (s)."""
    if late_s <= _SHORTEST_S:
        return 0
    return min(math.ceil(math.log(late_s / _SHORTEST_S) / math.log(_GROWTH)), _N_CLASSES - 1)


def lateness_quantile_s(classes: NDArray[np.uint64], share: float) -> float | None:
    """Return the lateness that this share of the steps does not exceed (s).

    Args:
        classes: How many steps fell into each class.
        share: 0..1.

    Returns:
        The upper end of its class, at most a tenth too much; None if there are no steps.
    """
    total = int(classes.sum())
    if total == 0:
        return None
    index = int(np.searchsorted(np.cumsum(classes), max(share * total, 1)))
    return 0.0 if index == 0 else float(_EDGES_S[min(index, _N_CLASSES - 1)])


def create_status(path: Path, token: int) -> StatusBoard:
    """Make a block of counters; for the rest see `create_block`."""
    return StatusBoard(create_block(path, "status", _LAYOUT, 8 * _N_CLASSES, token))


def open_status(path: Path) -> StatusBoard:
    """Open a block of counters; for the rest see `open_block`."""
    return StatusBoard(open_block(path, "status", _LAYOUT))
