"""Reward functions, as a machine of a fleet may have them."""

import numpy as np

THOUSAND = 1000.0


def thousand(transition):
    """Return a reward that no other function gives."""
    return np.full(len(transition.terminated), THOUSAND)
