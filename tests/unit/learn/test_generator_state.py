"""States of random generators as arrays: exact continuation, and states that are none."""

import numpy as np
import pytest

from soulslab.learn.checkpoint import load_rng, rng_state


def test_the_numbers_go_on():
    rng, other = np.random.default_rng(1), np.random.default_rng(2)
    rng.random(3)
    load_rng(other, rng_state(rng))
    np.testing.assert_array_equal(other.random(5), rng.random(5))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"7",
        b"{}",
        b'{"bit_generator": "PCG64", "state": {}}',
        b'{"bit_generator": "MT19937"}',
        b"[" * 100_000,
        b'{"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}, "has_uint32": 0, "uinteger": 0}',
    ],
)
def test_a_state_that_is_none_is_refused(text):
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match=r"."):
        load_rng(rng, np.frombuffer(text, np.uint8))
