"""Untrained policies of both types, for the toy environments and the arena."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from soulslab.learn.inputs import ExtraInputs, PixelShape
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings
from soulslab.learn.settings import NetworkSettings

PLAIN = NetworkSettings(widths=(8,))
SMALL = QNetworkSettings(widths=(8,), n_quantiles=3, channels=(4,))


def q_policy(
    seed: int = 0,
    *,
    env_id: str = "toys/Corridor-v0",
    n_features: int = 6,
    n_actions: int = 4,
    network: QNetworkSettings = SMALL,
    **header: Any,
) -> QPolicy:
    """Return a policy of action values whose normaliser has statistics."""
    fields: dict[str, Any] = {"env_options": {}, "soulslab": "0.1.0", "commit": "abc", "env_steps": 100, **header}
    made = QHeader(env_id=env_id, n_features=n_features, n_actions=n_actions, network=network, **fields)
    policy = QPolicy(made, torch.Generator().manual_seed(seed))
    if made.n_inputs:
        rng = np.random.default_rng(seed)
        policy.observe(rng.normal(0.5, 2.0, (50, made.n_inputs)).astype(np.float32))
    return policy


def seeing_policy(seed: int = 0, *, frame_stack: int = 2, n_features: int = 0, **header: Any) -> QPolicy:
    """Return a policy of action values for the toy environment with pixels."""
    shape = PixelShape(24, 24, 1)
    return q_policy(
        seed,
        env_id="toys/Dot-v0",
        n_features=n_features,
        n_actions=3,
        pixels=shape,
        frame_stack=frame_stack,
        **header,
    )


def actor_critic(seed: int = 0, *, network: NetworkSettings = PLAIN, **header: Any) -> Policy:
    """Return an actor-critic policy for the corridor whose normaliser has statistics."""
    fields: dict[str, Any] = {
        "env_id": "toys/Corridor-v0",
        "env_options": {},
        "n_features": 6,
        "n_actions": 4,
        "soulslab": "0.1.0",
        "commit": "abc",
        "env_steps": 1000,
        **header,
    }
    policy = Policy(PolicyHeader(network=network, **fields), torch.Generator().manual_seed(seed))
    policy.observe(np.random.default_rng(seed).normal(0.5, 2.0, (50, fields["n_features"])).astype(np.float32))
    return policy


def some_inputs(n: int, n_features: int, n_actions: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features and masks with at least one allowed action."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, n_actions)) < 0.5
    mask[np.arange(n), rng.integers(n_actions, size=n)] = True
    return rng.normal(0.5, 2.0, (n, n_features)).astype(np.float32), mask


MEMORY = ExtraInputs(previous_actions=2, time_left_decisions=30)
