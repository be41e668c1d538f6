"""Saving numpy's random generators as arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rng_state(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return the state of a generator as JSON in bytes, uint8; its numbers are longer than 64 bits."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8).copy()


def load_rng(rng: np.random.Generator, state: NDArray[Any]) -> None:
    """Continue from what :func:`rng_state` returned.

    Raises:
        ValueError: It is the state of another kind of generator, or none.
    """
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no state of a generator: {error}") from error
