"""Task and result of a learner in ``python -m benchmarks train``."""

from __future__ import annotations

from typing import Final

import msgspec

from soulslab.learn.settings import TrainSettings

#: Moving win rates for which the training time is measured; training ends at the second one.
HALF: Final = 0.5
MOST: Final = 0.8


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Task of a learner; equal for all learners.

    Attributes:
        train: soulslab's config; all learners use its environment.
        seed: Seed of learner and fights.
        limit_s: Maximum training time (s).
        n_fights: Greedy fights of the evaluation after training.
    """

    train: TrainSettings
    seed: int
    limit_s: float
    n_fights: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a learner.

    Attributes:
        n_envs: Number of parallel environments.
        seconds: Training time (s).
        n_decisions: Game decisions taken in training.
        n_policy_steps: Number of chosen actions; a step that skips locked decisions takes several decisions.
        half_s: Training time until the moving win rate was 50 % (s); None if it was not reached.
        most_s: The same for 80 %.
        n_fights: Greedy fights after training.
        n_wins: Number of them that were won.
    """

    n_envs: int
    seconds: float
    n_decisions: int
    n_policy_steps: int
    half_s: float | None
    most_s: float | None
    n_fights: int
    n_wins: int
