"""What a learner is asked in ``python -m benchmarks train``, and what it came to."""

from __future__ import annotations

from typing import Final

import msgspec

from soulslab.learn.settings import TrainSettings

#: The moving win rates whose first reaching is timed; at the second one training ends.
HALF: Final = 0.5
MOST: Final = 0.8


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One learner's task, the same for all.

    Attributes:
        train: soulslab's config; its environment is everybody's.
        seed: Of learner and fights.
        limit_s: Training time after which it ends, reached or not (s).
        n_fights: Greedy fights of the evaluation that follows.
    """

    train: TrainSettings
    seed: int
    limit_s: float
    n_fights: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner came to.

    Attributes:
        n_envs: Environments it played side by side.
        seconds: Training time (s).
        n_decisions: Game decisions taken in training.
        n_policy_steps: Times it chose an action; a step over locked moments takes several decisions.
        half_s: Training time until half of the last fights were won (s); None if that was not reached.
        most_s: The same for four of five.
        n_fights: Greedy fights after training.
        n_wins: How many of them it won.
    """

    n_envs: int
    seconds: float
    n_decisions: int
    n_policy_steps: int
    half_s: float | None
    most_s: float | None
    n_fights: int
    n_wins: int
