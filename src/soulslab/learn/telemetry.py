"""What a run says about itself: typed messages through one sink.

The trainer writes messages and knows no reader; a console, TensorBoard, a file or a live page is a
:class:`Sink`. A number that does not exist yet is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
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
        win_rate: Share of wins among the last finished fights, 1000 of PPO and 100 of Rainbow, 0..1.
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


class LearningStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What the Rainbow updates since the last message did, as means over them.

    Attributes:
        env_steps: Game decisions taken.
        n_updates: Updates made so far.
        updates_per_second: Updates per second of training time since the last message.
        loss: Quantile Huber loss, importance weights included.
        q_mean: Value of the actions taken.
        q_max: Largest value of an open action, mean over the batches' observations.
        td_error: Mean size of the temporal-difference error.
        priority_mean: Mean priority of the transitions drawn last.
        priority_max: Largest priority so far.
        grad_norm: Norm of the gradient before clipping.
        lr: Learning rate.
        epsilon: Share of random actions.
        n_steps: Rewards summed up before the bootstrap.
        gamma: Discount per game decision.
        beta: Share of the sampling bias that is corrected.
        n_replay: Environment steps in the replay buffer.
        n_resets: Resets of the network so far.
    """

    env_steps: int
    n_updates: int
    updates_per_second: float
    loss: float
    q_mean: float
    q_max: float
    td_error: float
    priority_mean: float
    priority_max: float
    grad_norm: float
    lr: float
    epsilon: float
    n_steps: int
    gamma: float
    beta: float
    n_replay: int
    n_resets: int


class ActorStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """How the actor fares beside the learner.

    Attributes:
        env_steps: Game decisions taken.
        staleness_updates: Updates that the weights it acts with lie behind the learner's.
        n_dropped: Steps lost so far because the channel was full.
        n_late: Steps so far that came later than the game's own pace allows.
        lateness_p99_ms: 99th percentile of how late a step came since the last message (ms); None if nothing is to
            be kept up with.
        n_restarts: Times that it was started anew.
    """

    env_steps: int
    staleness_updates: int
    n_dropped: int
    n_late: int
    lateness_p99_ms: float | None
    n_restarts: int


class FightStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What the last episodes were like, as means over those since the last message, or the last twenty if that is more.

    Attributes:
        env_steps: Game decisions taken.
        n_fights: Episodes that the means are over, at least 1.
        reward_terms: Share of each term of the reward in the return.
        damage_by_attack: Hit points that each attack of the boss took.
        action_shares: Share of each action among those chosen, by its number, (A,).
    """

    env_steps: int
    n_fights: int
    reward_terms: dict[str, float]
    damage_by_attack: dict[str, float]
    action_shares: tuple[float, ...]


class Evaluated(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What the policy came to on fresh fights in the middle of a run.

    Attributes:
        env_steps: Game decisions taken.
        n_fights: Greedy fights played.
        mean_return: Their mean return.
        win_rate: Share of wins, 0..1; None where nobody can win.
        low: Lower end of its 95 % Wilson interval.
        high: Upper end of that interval.
    """

    env_steps: int
    n_fights: int
    mean_return: float
    win_rate: float | None
    low: float | None
    high: float | None


class EvaluationProgress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """How far an evaluation is.

    Attributes:
        n_done: Fights finished that count.
        n_fights: Fights asked for.
        n_wins: Fights won so far; None where nobody can win.
    """

    n_done: int
    n_fights: int
    n_wins: int | None


Message = (
    TrainStarted
    | TrainProgress
    | UpdateStats
    | LearningStats
    | ActorStats
    | FightStats
    | Evaluated
    | CheckpointSaved
    | TrainFinished
    | EvaluationProgress
)


class Sink(Protocol):
    """Whatever listens to a run."""

    def write(self, message: Message) -> None:
        """Take one message; must be quick, the run waits."""

    def close(self) -> None:
        """Flush and free what is held; no message follows."""


def close_all(sinks: Sequence[Sink]) -> None:
    """Close every sink, also where one of them cannot; its error is raised when all are closed."""
    with ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.close)


def tell(sinks: Sequence[Sink], message: Message) -> None:
    """Write one message to every sink."""
    for sink in sinks:
        sink.write(message)
