"""Reproducible scripts of actions for environments, in which actions are held for some steps."""

from __future__ import annotations

import numpy as np

from soulslab.arena.vocabulary import N_ACTIONS


def script(seed: int, n_steps: int) -> np.ndarray:
    """Return actions (n_steps,) int64."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, N_ACTIONS, n_steps)
    held = rng.random(n_steps) < 0.5
    for t in range(1, n_steps):
        if held[t]:
            actions[t] = actions[t - 1]
    return actions


def scripts(seeds: object, n_steps: int) -> np.ndarray:
    """Return a script for each seed, (n_steps, N)."""
    return np.stack([script(seed, n_steps) for seed in seeds], axis=1)
