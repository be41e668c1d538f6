"""Artificial steps of environments, whose features contain their position."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from soulslab.learn.actors.transport import EpisodeResult, Weights
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type

SHAPE = StepShape(n_features=3, n_actions=4)
ROW = row_type(SHAPE)


def steps(start: int, n: int, *, stream: int = 0, length: int = 5) -> np.ndarray:
    """Return n rows of a stream from number ``start`` on, in episodes of a given length.

    The first feature is the number of the row, the second that of the stream.
    """
    rows = np.zeros(n, ROW)
    numbers = np.arange(start, start + n)
    rows["features"][:, 0] = numbers
    rows["features"][:, 1] = stream
    rows["stream"] = stream
    rows["n_decisions"] = 1
    rows["is_first"] = numbers % length == 0
    rows["outcome"] = np.where(numbers % length == length - 1, Outcome.TERMINATED, Outcome.GOES_ON)
    return rows


def numbers_of(rows: np.ndarray, stream: int = 0) -> list[int]:
    """Return the numbers of the rows of a stream, in order."""
    return rows["features"][rows["stream"] == stream, 0].astype(int).tolist()


def assert_whole_episodes(numbers: list[int], length: int = 5) -> None:
    """Assert that rows are consecutive within each episode."""
    for before, after in pairwise(numbers):
        assert after == before + 1 or after % length == 0, (before, after)
    assert not numbers or numbers[0] % length == 0


def result(number: int, n_attacks: int = 2) -> EpisodeResult:
    """Return the result of an episode; many attacks make it long."""
    return EpisodeResult(
        total_reward=float(number),
        n_decisions=7,
        n_steps=5,
        is_won=number % 2 == 0,
        reward_terms={"damage": 1.5},
        damage_by_attack={f"attack {i}": float(i) for i in range(n_attacks)},
        actions=(1, 2, 3, 4),
        weights_version=number,
    )


def some_weights(version: int, n: int = 1000) -> Weights:
    """Return weights in which each number is the version."""
    tensors = {
        "parameters": np.full(n, version, np.float32),
        "mean": np.full(3, version, np.float64),
        "count": np.array(version, np.float64),
    }
    return Weights(version=version, epsilon=1.0 / (1 + version), tensors=tensors)


def assert_of_one_version(weights: Weights) -> None:
    """Assert that weights are exactly what `some_weights` returned for their version."""
    n = len(weights.tensors["parameters"])
    expected = some_weights(weights.version, n)
    assert weights.epsilon == expected.epsilon
    assert weights.tensors.keys() == expected.tensors.keys()
    for name, array in expected.tensors.items():
        found = weights.tensors[name]
        assert found.dtype == array.dtype and found.shape == array.shape and (found == array).all(), name
