"""What a run says about itself: typed messages through one sink.

The trainer writes messages and knows no reader; a console, TensorBoard, a file or a live page is a
:class:`Sink`. A number that does not exist yet is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class TrainStarted(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A run begins or goes on.

    Attributes:
        env_id: Gymnasium id.
        total_steps: Game decisions at which the run is complete.
        env_steps: Game decisions taken before.
        seed: Seed of the run.
        is_resumed: Whether it goes on from a checkpoint.
    """

    env_id: str
    total_steps: int
    env_steps: int
    seed: int
    is_resumed: bool


class TrainProgress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Where a run stands after an update.

    Attributes:
        env_steps: Game decisions taken, all environments together.
        total_steps: Game decisions at which the run is complete.
        seconds: Training time, resumed parts included (s).
        steps_per_second: Game decisions per second in this iteration.
        n_fights: Episodes finished.
        win_rate: Share of wins among the last finished fights (see ``tracker.WINDOW``), 0..1.
        mean_return: Mean return of those episodes.
        mean_decisions: Mean length of those episodes (game decisions).
    """

    env_steps: int
    total_steps: int
    seconds: float
    steps_per_second: float
    n_fights: int
    win_rate: float | None
    mean_return: float | None
    mean_decisions: float | None


class UpdateStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What one PPO update did, as means over its minibatches.

    Attributes:
        env_steps: Game decisions taken.
        policy_loss: Clipped objective, negated.
        value_loss: Squared error of the critic, in normalised units.
        entropy: Entropy of the masked policy (nats).
        approx_kl: How far the policy moved (nats), Schulman's estimator ``(ratio - 1) - log ratio``.
        clip_fraction: Share of transitions whose ratio was clipped, 0..1.
        explained_variance: 1 - Var(returns - values) / Var(returns), before the update.
        grad_norm: Norm of the gradient before clipping.
        lr: Learning rate.
        entropy_coef: Weight of the entropy bonus.
    """

    env_steps: int
    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    explained_variance: float
    grad_norm: float
    lr: float
    entropy_coef: float


class CheckpointSaved(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A checkpoint lies safely on the disk.

    Attributes:
        env_steps: Game decisions taken.
        path: The file.
    """

    env_steps: int
    path: str


class TrainFinished(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A run ends.

    Attributes:
        env_steps: Game decisions taken.
        seconds: Training time, resumed parts included (s).
        reason: Why it ended, one of ``train.StopReason``.
    """

    env_steps: int
    seconds: float
    reason: str


class EvaluationProgress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """How far an evaluation is.

    Attributes:
        n_done: Fights finished that count.
        n_fights: Fights asked for.
        n_wins: Fights won so far.
    """

    n_done: int
    n_fights: int
    n_wins: int


Message = TrainStarted | TrainProgress | UpdateStats | CheckpointSaved | TrainFinished | EvaluationProgress


class Sink(Protocol):
    """Whatever listens to a run."""

    def write(self, message: Message) -> None:
        """Take one message; must be quick, the run waits."""

    def close(self) -> None:
        """Flush and free what is held; no message follows."""


def tell(sinks: Sequence[Sink], message: Message) -> None:
    """Write one message to every sink."""
    for sink in sinks:
        sink.write(message)
