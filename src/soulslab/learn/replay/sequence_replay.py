"""A replay buffer of which sequences of consecutive steps are drawn, for a network with a recurrent layer.

Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning" (R2D2): each step is stored
with the state of the recurrent layer before it. A sequence starts with burn-in steps, from which only the state is
computed, because the stored one is that of older weights. Then come the learned steps, and as many further steps as
their n-step returns need. The learned steps of neighbouring sequences overlap by half. Each sequence has a priority.

Unlike in R2D2 a sequence may contain the end of an episode: the state is reset at the start of the next one.

Shapes: S sequences, T learned steps, W steps of a sequence, E streams (environments), F features, A actions, H W C one
frame, K frames stacked, M units of the recurrent layer. Rows of steps are ordered by step, then by sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.errors import ConfigError
from soulslab.learn.replay.n_step_accumulator import accumulate
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.row_ring import Link, Ring
from soulslab.learn.replay.step_rows import Column, StepShape
from soulslab.learn.settings import ReplaySettings


class SequenceRing(Ring):
    """Rows of E streams; what starts at a place is a sequence of rows, all of which are stored."""

    def __init__(
        self, shape: StepShape, settings: ReplaySettings, n_streams: int, length: int, path: Path | None = None
    ) -> None:
        """Allocate the rows for sequences of W = ``length`` rows; see :class:`Ring` for arguments and errors."""
        super().__init__(shape, settings.capacity, n_streams, path)
        needed = length + shape.frame_stack - 1  # the first row needs the frames before it
        if self.n_per_stream < needed:
            raise ConfigError(
                f"{settings.capacity} steps for {n_streams} environments are {self.n_per_stream} for each, but a "
                f"sequence with network.memory needs {needed}; set it to at least {needed * n_streams}, or lower "
                "replay.sequence_steps, replay.burn_in_steps or learner.n_steps",
                path="replay.capacity",
            )
        self._n_not_first = self.n_per_stream - shape.frame_stack + 1
        self._length = length
        self._every = max(1, settings.sequence_steps // 2)

    def append(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Append rows; return the changes of the places at which a sequence can start, as those of `Ring.append`."""
        before = self.written.copy()
        super().append(rows)
        events = [np.empty(0, np.int64)]
        for stream in np.flatnonzero(self.written != before).tolist():
            (first, end), (now_first, now_end) = (self._range(int(n)) for n in (before[stream], self.written[stream]))
            events.append(~self._starts(stream, first, min(end, now_first)))
            events.append(self._starts(stream, max(end, now_first), now_end))
        return np.concatenate(events)

    def beginnings(self) -> NDArray[np.int64]:
        """Return the places at which a sequence can start, ascending, int64 (m,)."""
        written = enumerate(self.written.tolist())
        return np.sort(np.concatenate([self._starts(stream, *self._range(n)) for stream, n in written]))

    def _range(self, written: int) -> tuple[int, int]:
        """Return the running numbers between which a sequence can start after this number of rows."""
        return max(0, written - self._n_not_first), max(0, written - self._length + 1)

    def _starts(self, stream: int, first: int, end: int) -> NDArray[np.int64]:
        """Return the places at which a sequence starts with running number ``first`` to ``end`` - 1, int64 (m,)."""
        numbers = np.arange(first + -first % self._every, end, self._every)
        return stream * self.n_per_stream + numbers % self.n_per_stream


class Sequences(NamedTuple, Generic[Column]):
    """Sequences for an update, allocated once and overwritten by each draw.

    Attributes:
        features: float32 (W * S, F).
        pixels: uint8 (W * S, H, W, C * K), oldest frame first; None without pixels.
        blocked: True for forbidden actions, bool (W * S, A).
        is_first: True for the first observation of an episode, bool (W, S, 1).
        memory: State of the recurrent layer before the first step, float32 (S, M), as it was while acting.
        actions: Actions of the learned steps, int64 (T * S, 1).
        rewards: Their n-step returns, float32 (T * S,); see `Transitions`.
        discounts: Discounts of the value of the next observation, float32 (T * S,); see `Transitions`.
        ends: Row of the next observation of each learned step, int64 (T * S,), counted from the first learned step.
        is_known: False for rows at which no transition starts, such as the last observation of a truncated episode,
            bool (T * S,).
        weights: Importance weights, float32 (S,), at most 1.
        places: Places of the sequences in their buffer, int64 (S,), for ``SequenceReplay.set_priorities``.
    """

    features: Column
    pixels: Column | None
    blocked: Column
    is_first: Column
    memory: Column
    actions: Column
    rewards: Column
    discounts: Column
    ends: Column
    is_known: Column
    weights: Column
    places: Column


#: Sequences as tensors on the CPU.
SequenceBatch: TypeAlias = "Sequences[Tensor]"


class SequenceReplay(ReplayBuffer):
    """The newest steps of E environments, and the priorities with which sequences of them are drawn."""

    def __init__(
        self, shape: StepShape, settings: ReplaySettings, n_streams: int, n_steps: int, folder: Path | None = None
    ) -> None:
        """Make an empty buffer for returns of n steps; see :class:`ReplayBuffer` for arguments and errors."""
        self._n_steps = n_steps
        self.burn_in_steps, self.sequence_steps = settings.burn_in_steps, settings.sequence_steps
        self.length = settings.burn_in_steps + settings.sequence_steps + n_steps
        super().__init__(shape, settings, n_streams, folder)

    def make_sequences(self, n: int) -> SequenceBatch:
        """Return S = n empty sequences, to be filled repeatedly."""
        rows, n_learned = self.make_batch(self.length * n), self.sequence_steps * n
        return Sequences(
            features=rows.features,
            pixels=rows.pixels,
            blocked=rows.blocked,
            is_first=torch.zeros(self.length, n, 1, dtype=torch.bool),
            memory=torch.zeros(n, self._shape.n_memory),
            actions=torch.zeros(n_learned, 1, dtype=torch.int64),
            rewards=torch.zeros(n_learned),
            discounts=torch.zeros(n_learned),
            ends=torch.zeros(n_learned, dtype=torch.int64),
            is_known=torch.zeros(n_learned, dtype=torch.bool),
            weights=torch.zeros(n),
            places=torch.zeros(n, dtype=torch.int64),
        )

    def draw(self, batch: SequenceBatch, *, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Draw sequences with replacement; ``beta`` as in `ReplayBuffer.sample`.

        Raises ReplayError if the buffer has no sequence.
        """
        self._require_places("the start of a sequence")
        columns: list[Any] = [column.numpy() if column is not None else None for column in batch]
        out: Sequences[NDArray[Any]] = Sequences(*columns)
        ring, length = self.ring, self.ring.n_per_stream
        self.sampler.draw(out.places, out.weights, beta=beta, rng=rng)
        stream_starts = out.places - out.places % length
        rows = stream_starts + (out.places - stream_starts + np.arange(self.length)[:, None]) % length  # (W, S)
        out.is_first[..., 0] = ring.heads["is_first"][rows]
        out.memory[:] = ring.rows["memory"][out.places]
        self._accumulator.copy(rows.ravel(), out.features.view(np.uint8), out.blocked, out.pixels)
        learned = rows[self.burn_in_steps : self.burn_in_steps + self.sequence_steps].ravel()
        actions, ends = out.actions.reshape(-1), out.ends
        accumulate(ring.heads, length, learned, self._n_steps, gamma, actions, out.rewards, out.discounts, ends)
        ends[:] = np.arange(len(ends)) + (ends - learned) % length * len(out.places)
        out.is_known[:] = ring.heads["link"][learned] != Link.NOTHING

    def _make_ring(self, shape: StepShape, settings: ReplaySettings, n_streams: int, path: Path | None) -> Ring:
        return SequenceRing(shape, settings, n_streams, self.length, path)
