"""A replay buffer: rows are appended, transitions are drawn into a batch that is allocated once.

Shapes: B batch, E streams (environments), F features, A actions, H W C one frame, K frames stacked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulslab.errors import ConfigError, NonFiniteError, ReplayError, cut
from soulslab.learn.archive import Tensors
from soulslab.learn.replay.first_priorities import FirstPriorities
from soulslab.learn.replay.n_step_accumulator import Accumulator, BatchArrays
from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.replay.row_ring import Ring
from soulslab.learn.replay.samplers import PrioritisedSampler, Sampler, UniformSampler
from soulslab.learn.replay.step_rows import Batch, Outcome, StepShape, Transitions, row_type
from soulslab.learn.settings import ReplaySettings

MAP_NAME: Final = "replay.rows"
"""File that holds the rows of a mapped buffer while the program runs; it is unlinked once it is mapped."""


_FINAL: Final = int(Outcome.FINAL)
_EXPONENT: Final = np.uint32(0x7F800000)
"""Bits of the exponent of a float32, which are all set in NaN and infinity only."""


class ReplayBuffer:
    """The newest steps of E environments, and the priorities with which they are drawn.

    Attributes:
        ring: Storage of the steps; its length is the number of rows, including `FINAL` ones.
        sampler: Draws from the transitions that are complete; ``sampler.n_places`` is their number.
    """

    def __init__(self, shape: StepShape, settings: ReplaySettings, n_streams: int, folder: Path | None = None) -> None:
        """Make an empty buffer; each environment gets an equal share of the capacity.

        ``folder`` holds the file of a mapped buffer, which is only working memory; ``replay_store.ReplayStore`` saves
        the rows. If the shape has values, :meth:`append` computes priorities from them; they are not kept with the
        rows. Raises ConfigError for a too small capacity, CheckpointError without enough space on the disk.
        """
        if settings.is_mapped and folder is None:
            raise ConfigError("a mapped buffer needs a folder for its file", path="replay.is_mapped")
        path = folder / MAP_NAME if settings.is_mapped and folder is not None else None
        self.ring = self._make_ring(msgspec.structs.replace(shape, has_values=False), settings, n_streams, path)
        self._shape = shape
        self._alpha = settings.alpha
        self.sampler = self._make_sampler()
        self._accumulator = Accumulator(self.ring, shape)
        self._first_priorities = FirstPriorities(self.ring) if shape.has_values and settings.alpha else None
        self._seen: tuple[Batch, BatchArrays] | None = None

    @property
    def n_bytes(self) -> int:
        """Size of a full buffer in memory or in its file (bytes)."""
        n_values = self._first_priorities.n_bytes if self._first_priorities is not None else 0
        return self.ring.bytes.nbytes + self.ring.heads.nbytes + self.sampler.n_bytes + n_values

    def append(self, rows: NDArray[Any], *, n_steps: int = 1, gamma: float = 1.0) -> None:
        """Append rows, those of each stream in order; the oldest rows of their streams are overwritten.

        If the rows hold values, the first priorities of transitions of at most n steps, with this discount per game
        decision, are computed from them. Other transitions get the largest priority so far. Raises ReplayError or
        NonFiniteError for invalid rows; then none of the rows was stored.
        """
        rows = check_rows(rows, self._shape, len(self.ring.written))
        self.sampler.change(self.ring.append(rows))
        if self._first_priorities is not None:
            self.sampler.set_first_errors(*self._first_priorities.compute(rows, n_steps, gamma))

    def make_batch(self, batch_size: int) -> Batch:
        """Return an empty batch of B = ``batch_size`` transitions, to be filled repeatedly."""
        shape, n = self._shape, batch_size
        pixels = next_pixels = None
        if shape.pixels is not None:
            size = (n, shape.pixels.height_px, shape.pixels.width_px, shape.pixels.n_channels * shape.frame_stack)
            pixels, next_pixels = (torch.zeros(size, dtype=torch.uint8) for _ in range(2))
        return Transitions(
            features=torch.zeros(n, shape.n_features),
            pixels=pixels,
            blocked=torch.zeros(n, shape.n_actions, dtype=torch.bool),
            actions=torch.zeros(n, 1, dtype=torch.int64),
            rewards=torch.zeros(n),
            discounts=torch.zeros(n),
            next_features=torch.zeros(n, shape.n_features),
            next_pixels=next_pixels,
            next_blocked=torch.zeros(n, shape.n_actions, dtype=torch.bool),
            weights=torch.zeros(n),
            places=torch.zeros(n, dtype=torch.int64),
        )

    def sample(self, batch: Batch, *, n_steps: int, gamma: float, beta: float, rng: np.random.Generator) -> None:
        """Draw transitions of at most n steps with replacement into a batch of :meth:`make_batch`, or a part of it.

        ``beta`` is the share of the bias of prioritised sampling that the weights correct, 0..1. Raises ReplayError if
        the buffer has no transitions.
        """
        self._require_places("a step with a known successor")
        if self._seen is None or self._seen[0] is not batch:  # the same batch is used repeatedly
            self._seen = batch, self._accumulator.view(batch)
        arrays = self._seen[1]
        if len(arrays.places):
            self.sampler.draw(arrays.places, arrays.weights, beta=beta, rng=rng)
            self._accumulator.fill(arrays, n_steps, gamma)

    def _require_places(self, what: str) -> None:
        if not self.sampler.n_places:
            raise ReplayError(
                f"there is nothing to draw yet: none of the {len(self.ring)} rows is {what}; append steps before the "
                "first update (learner.learning_starts)"
            )

    def priorities(self, places: Tensor) -> NDArray[np.float64]:
        """Return the priorities of transitions of a batch, float64 (B,); 0 for one that has been overwritten."""
        return self.sampler.priorities(self._known(places))

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities of transitions of a batch from their errors, float32 (B,).

        A step that has been overwritten since it was drawn is ignored, unless another can be drawn at its place. Raises
        ReplayError for places of another buffer, NonFinitePriorityError for NaN; then no priority was changed.
        """
        where, values = self._known(places), errors.detach().numpy()
        if values.shape != where.shape:
            raise ReplayError(f"there are {len(where)} places, but errors of shape {values.shape}; give one for each")
        self.sampler.set_errors(where, np.asarray(values, np.float32))

    def clear(self) -> None:
        """Remove all steps."""
        self.ring.restore(np.zeros_like(self.ring.written))
        self.sampler = self._make_sampler()
        if self._first_priorities is not None:
            self._first_priorities.clear()

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs, except for the rows; see ``ReplayStore``."""
        return {"written": self.ring.written.copy(), **self.sampler.state()}

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned, after the rows of the same checkpoint were loaded."""
        if not np.array_equal(state["written"], self.ring.written):
            theirs = cut(str(state["written"].tolist()), 200)
            raise ReplayError(
                f"the state is of {theirs} rows per environment, but {self.ring.written.tolist()} were loaded; load "
                "the rows of the same checkpoint first"
            )
        self.sampler.load(state, self.ring.beginnings())

    def _make_ring(self, shape: StepShape, settings: ReplaySettings, n_streams: int, path: Path | None) -> Ring:
        return Ring(shape, settings.capacity, n_streams, path)

    def _make_sampler(self) -> Sampler:
        n = len(self.ring.rows)
        return PrioritisedSampler(n, self._alpha) if self._alpha else UniformSampler(n)

    def _known(self, places: Tensor) -> NDArray[np.int64]:
        found: NDArray[np.int64] = places.numpy()
        if found.dtype != np.int64 or found.ndim != 1:
            raise ReplayError(f"places must be int64 with one axis, not {found.dtype} of shape {found.shape}")
        n = len(self.ring.rows)
        if not _are_all_below(found, n):
            raise ReplayError(f"places {found.min()} to {found.max()} are not all in 0 to {n - 1}")
        return found


def check_rows(rows: NDArray[Any], shape: StepShape, n_streams: int) -> NDArray[Any]:
    """Return rows (n,) of E environments, contiguous; raises ReplayError or NonFiniteError for an invalid one."""
    expected = row_type(shape)
    if rows.dtype != expected or rows.ndim != 1:
        raise ReplayError(
            f"rows of type {rows.dtype} and shape {rows.shape} do not match a buffer of one axis of {expected}; "
            "make them with row_type(shape) and the shape of the buffer"
        )
    rows = np.ascontiguousarray(rows)
    words = rows.view(np.uint32).reshape(len(rows), expected.itemsize // 4)
    columns = rows["reward"], rows["action"], rows["stream"], rows["outcome"]
    i = _find_wrong(words[:, : shape.n_features], *columns, shape.n_actions, n_streams)
    if i >= 0:
        _complain(i, rows, shape, n_streams)
    if shape.has_log_probs:
        wrong = np.flatnonzero(~(np.isfinite(rows["log_prob"]) & (rows["log_prob"] <= 0.0)))
        if len(wrong):
            found = rows["log_prob"][wrong[0]]
            raise ReplayError(f"row {wrong[0]} of {len(rows)}: {found} is not the logarithm of a probability")
    if shape.has_values:
        wrong = np.flatnonzero(~(np.isfinite(rows["action_value"]) & np.isfinite(rows["best_value"])))
        if len(wrong):
            found = rows["action_value"][wrong[0]], rows["best_value"][wrong[0]]
            raise ReplayError(f"row {wrong[0]} of {len(rows)}: the values {found} of actions are not finite")
    return rows


def _complain(i: int, rows: NDArray[Any], shape: StepShape, n_streams: int) -> NoReturn:
    """Raise the error for row i."""
    row = rows[i]
    stream = int(row["stream"])
    where = f"row {i} of {len(rows)} (environment {stream})"
    if stream >= n_streams:
        raise ReplayError(f"{where}: the buffer has only environments 0 to {n_streams - 1}")
    if row["outcome"] >= len(Outcome):
        raise ReplayError(f"{where}: outcome {row['outcome']} is not one of 0 to {len(Outcome) - 1}")
    # If the episode started before these rows, its steps are counted from the first of these rows.
    mine = np.flatnonzero(rows["stream"][: i + 1] == stream)
    begun = np.flatnonzero(rows["is_first"][mine])
    step = len(mine) - 1 - (int(begun[-1]) if len(begun) else 0)
    if row["outcome"] != Outcome.FINAL:
        if not 0 <= row["action"] < shape.n_actions:
            raise ReplayError(f"{where}: action {row['action']} is not one of 0 to {shape.n_actions - 1}")
        if not np.isfinite(row["reward"]):
            raise NonFiniteError("reward", stream, step + 1, str(row["reward"]))
    features = row["features"]
    raise NonFiniteError("observation", stream, step, str(features[~np.isfinite(features)][0]))


@kernel
def _find_wrong(
    features: NDArray[np.uint32],
    rewards: NDArray[np.float32],
    actions: NDArray[np.int16],
    streams: NDArray[np.uint16],
    outcomes: NDArray[np.uint8],
    n_actions: int,
    n_streams: int,
) -> int:
    """Return the index of the first invalid row, -1 if there is none; ``features`` are the bits of float32 (n, F)."""
    for i in range(len(rewards)):
        is_wrong = streams[i] >= n_streams or outcomes[i] > _FINAL
        if outcomes[i] != _FINAL:  # such a row has neither action nor reward
            is_wrong |= not 0 <= actions[i] < n_actions or not np.isfinite(rewards[i])
        n_infinite = 0
        for j in range(features.shape[1]):
            n_infinite += (features[i, j] & _EXPONENT) == _EXPONENT  # several at once, which `isfinite` is not
        if is_wrong or n_infinite:
            return i
    return -1


@kernel
def _are_all_below(places: NDArray[np.int64], n: int) -> bool:
    """Return whether all places are in 0..n-1; numpy takes ten times as long for so few places."""
    are_all = True
    for place in places:
        are_all &= 0 <= place < n
    return are_all
