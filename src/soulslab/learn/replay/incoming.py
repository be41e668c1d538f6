"""What a row must be to be kept; nothing wrong gets into a replay buffer, where it would be learned from for hours."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import NonFiniteError, ReplayError
from soulslab.learn.replay.elements import Outcome, StepShape, row_type
from soulslab.learn.replay.kernel import kernel

_REWARD, _FEATURE, _STREAM, _ACTION, _OUTCOME = range(1, 6)
_N_OUTCOMES: Final = len(Outcome)
_FINAL: Final = int(Outcome.FINAL)


class RowCheck:
    """Looks at rows before they are kept."""

    def __init__(self, shape: StepShape, n_streams: int) -> None:
        """Know what rows there may be.

        Args:
            shape: Sizes of a step.
            n_streams: Environments; their numbers go from 0.
        """
        self._type = row_type(shape)
        self._n_features = shape.n_features
        self._n_actions = shape.n_actions
        self._n_streams = n_streams
        self._reward_at = self._type.fields["reward"][1] // 4 if self._type.fields else 0

    def check(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows, without gaps between them.

        Args:
            rows: Record array (n,) of ``elements.row_type``.

        Raises:
            ReplayError: They are of another type, or a row names an unknown stream, action or outcome.
            NonFiniteError: A reward or a feature is NaN or infinite.
        """
        if rows.dtype != self._type or rows.ndim != 1:
            raise ReplayError(
                f"rows of type {rows.dtype} and shape {rows.shape} do not fit a buffer of one axis of {self._type}; "
                "make them with row_type(shape) for the shape that the buffer has"
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
            raise ReplayError(f"{where}: the buffer has environments 0 to {self._n_streams - 1} alone")
        if what == _ACTION:
            raise ReplayError(f"{where}: action {row['action']} is not one of 0 to {self._n_actions - 1}")
        if what == _OUTCOME:
            raise ReplayError(f"{where}: outcome {row['outcome']} is not one of 0 to {_N_OUTCOMES - 1}")
        # Of an episode that began before these rows, the steps are counted from their first on.
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
    """Return what is wrong with the first row that has a fault, and its index; 0 for none.

    Args:
        words: The rows as float32 (n, bytes of a row / 4); the features come first.
        n_features: F.
        reward_at: Place of the reward in them.
        streams: uint16 (n,).
        actions: int16 (n,).
        outcomes: uint8 (n,).
        n_streams: E.
        n_actions: A.
    """
    for i in range(len(words)):
        if streams[i] >= n_streams:
            return _STREAM, i
        if outcomes[i] >= _N_OUTCOMES:
            return _OUTCOME, i
        if outcomes[i] != _FINAL:  # which is no step, so it has neither an action nor a reward
            if actions[i] < 0 or actions[i] >= n_actions:
                return _ACTION, i
            if not np.isfinite(words[i, reward_at]):
                return _REWARD, i
        for j in range(n_features):
            if not np.isfinite(words[i, j]):
                return _FEATURE, i
    return 0, 0
