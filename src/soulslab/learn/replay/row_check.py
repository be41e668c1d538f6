"""Validation of rows before they are stored in a replay buffer."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import NonFiniteError, ReplayError
from soulslab.learn.replay.numba_kernel import kernel
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type

_REWARD, _FEATURE, _STREAM, _ACTION, _OUTCOME = range(1, 6)
_N_OUTCOMES: Final = len(Outcome)
_FINAL: Final = int(Outcome.FINAL)


class RowCheck:
    """Validates rows."""

    def __init__(self, shape: StepShape, n_streams: int) -> None:
        """Store the valid ranges.

        Args:
            shape: Sizes of a step.
            n_streams: Number of environments; their indices start at 0.
        """
        self._type = row_type(shape)
        self._n_features = shape.n_features
        self._n_actions = shape.n_actions
        self._n_streams = n_streams
        self._reward_at = self._type.fields["reward"][1] // 4 if self._type.fields else 0

    def check(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Validate rows and return them as a contiguous array.

        Args:
            rows: Record array (n,) of ``step_rows.row_type``.

        Raises:
            ReplayError: The rows have another type, or an unknown stream, action or outcome.
            NonFiniteError: A reward or a feature is NaN or infinite.
        """
        if rows.dtype != self._type or rows.ndim != 1:
            raise ReplayError(
                f"rows of type {rows.dtype} and shape {rows.shape} do not match a buffer of one axis of {self._type}; "
                "make them with row_type(shape) and the shape of the buffer"
            )
        rows = np.ascontiguousarray(rows)
        words = rows.view(np.float32).reshape(len(rows), rows.dtype.itemsize // 4)
        what, i = _first_fault(
            words,
            self._n_features,
            self._reward_at,
            rows["stream"],
            rows["action"],
            rows["outcome"],
            self._n_streams,
            self._n_actions,
        )
        if what:
            self._complain(what, i, rows)
        return rows

    def _complain(self, what: int, i: int, rows: NDArray[Any]) -> None:
        row = rows[i]
        stream = int(row["stream"])
        where = f"row {i} of {len(rows)} (environment {stream})"
        if what == _STREAM:
            raise ReplayError(f"{where}: the buffer has only environments 0 to {self._n_streams - 1}")
        if what == _ACTION:
            raise ReplayError(f"{where}: action {row['action']} is not one of 0 to {self._n_actions - 1}")
        if what == _OUTCOME:
            raise ReplayError(f"{where}: outcome {row['outcome']} is not one of 0 to {_N_OUTCOMES - 1}")
        # If the episode started before these rows, its steps are counted from the first of these rows.
        mine = np.flatnonzero(rows["stream"][: i + 1] == stream)
        begun = np.flatnonzero(rows["is_first"][mine])
        step = len(mine) - 1 - (int(begun[-1]) if len(begun) else 0)
        if what == _REWARD:
            raise NonFiniteError("reward", stream, step + 1, str(row["reward"]))
        features = row["features"]
        raise NonFiniteError("observation", stream, step, str(features[~np.isfinite(features)][0]))


@kernel
def _first_fault(
    words: NDArray[np.float32],
    n_features: int,
    reward_at: int,
    streams: NDArray[np.uint16],
    actions: NDArray[np.int16],
    outcomes: NDArray[np.uint8],
    n_streams: int,
    n_actions: int,
) -> tuple[int, int]:
    """Return the kind of fault of the first row that has one, and its index; 0 without a fault.

    Args:
        words: The rows as float32 (n, bytes of a row / 4); the features come first.
        n_features: Number of features, F.
        reward_at: Index of the reward in a row of ``words``.
        streams: uint16 (n,).
        actions: int16 (n,).
        outcomes: uint8 (n,).
        n_streams: Number of streams, E.
        n_actions: Number of actions, A.
    """
    for i in range(len(words)):
        if streams[i] >= n_streams:
            return _STREAM, i
        if outcomes[i] >= _N_OUTCOMES:
            return _OUTCOME, i
        if outcomes[i] != _FINAL:  # a FINAL row has neither action nor reward
            if actions[i] < 0 or actions[i] >= n_actions:
                return _ACTION, i
            if not np.isfinite(words[i, reward_at]):
                return _REWARD, i
        for j in range(n_features):
            if not np.isfinite(words[i, j]):
                return _FEATURE, i
    return 0, 0
