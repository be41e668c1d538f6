"""Saving numpy's random generators as arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rng_state(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return the state of a generator as JSON in bytes, uint8; its integers are longer than 64 bits."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8).copy()


def load_rng(rng: np.random.Generator, state: NDArray[Any]) -> None:
    """Restore the state of a generator from :func:`rng_state`.

    Raises:
        ValueError: The state is malformed, or belongs to another type of generator.
    """
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a state of a random generator: {error}") from error
