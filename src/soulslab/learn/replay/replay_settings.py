"""The settings of a replay buffer, with their defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.learn.settings import Share


class ReplaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Size of the replay buffer, and how transitions are drawn from it.

    Attributes:
        capacity: Number of environment steps to keep; the oldest are overwritten first.
        alpha: Exponent of prioritised sampling: a transition is drawn with a probability proportional to
            ``priority ** alpha``; 0 draws uniformly.
        beta: Share of the bias of prioritised sampling that is corrected at the start.
        beta_end: Share of the bias that is corrected at ``run.total_steps``; linear between them.
        is_mapped: Whether to keep the steps in a memory-mapped file in the folder of the run instead of in memory.
    """

    capacity: Annotated[int, Meta(ge=1, le=2**31)] = 1_000_000
    alpha: Share = 0.5
    beta: Share = 0.4
    beta_end: Share = 1.0
    is_mapped: bool = False
