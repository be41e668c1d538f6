"""Telemetry of a run: typed messages, and the interface of their receivers.

Training writes messages to sinks: a console, TensorBoard, a file or a dashboard is a :class:`Sink`. A number that is
not known yet is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

import msgspec


class TrainStarted(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A run starts or is resumed.

    Attributes:
        env_id: Gymnasium id.
        total_steps: Game decisions at which the run is complete.
        env_steps: Game decisions before this start.
        seed: Seed of the run.
        is_resumed: Whether the run continues from a checkpoint.
    """

    env_id: str
    total_steps: int
    env_steps: int
    seed: int
    is_resumed: bool


class TrainProgress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Progress of a run.

    Attributes:
        env_steps: Game decisions taken, all environments together.
        total_steps: Game decisions at which the run is complete.
        seconds: Training time, including the time before a resume (s).
        steps_per_second: Game decisions per second in the last 10 s.
        n_fights: Finished episodes.
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
    """Statistics of one PPO update, as means over its minibatches.

    Attributes:
        env_steps: Game decisions taken.
        policy_loss: Clipped objective, negated.
        value_loss: Squared error of the critic, in normalised units.
        entropy: Entropy of the masked policy (nats).
        approx_kl: KL divergence from the policy before the update (nats), Schulman's estimator ``(ratio - 1) - log
            ratio``.
        clip_fraction: Share of transitions whose ratio was clipped, 0..1.
        explained_variance: 1 - Var(returns - values) / Var(returns), before the update.
        grad_norm: Norm of the gradient before clipping.
        lr: Learning rate.
        entropy_coef: Weight of the entropy bonus.
        updates_per_second: Updates per second of training time since the last message; None in older files.
        teacher_loss: Cross-entropy of the policy with the probabilities of its teacher (nats); None without a teacher.
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
    updates_per_second: float | None = None
    teacher_loss: float | None = None


class CheckpointSaved(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A checkpoint was written.

    Attributes:
        env_steps: Game decisions taken.
        path: The file.
    """

    env_steps: int
    path: str


class TrainFinished(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A run has ended.

    Attributes:
        env_steps: Game decisions taken.
        seconds: Training time, including the time before a resume (s).
        reason: Why it ended, one of ``run_folder.StopReason``.
    """

    env_steps: int
    seconds: float
    reason: str


class LearningStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Statistics of the Rainbow updates since the last message, as means.

    Attributes:
        env_steps: Game decisions taken.
        n_updates: Updates made so far.
        updates_per_second: Updates per second of training time since the last message.
        loss: Quantile Huber loss, including importance weights.
        q_mean: Value of the actions taken.
        q_max: Largest value of an allowed action, mean over the batches' observations.
        td_error: Mean absolute temporal-difference error.
        priority_mean: Mean priority of the transitions drawn last.
        priority_max: Largest priority so far.
        grad_norm: Norm of the gradient before clipping.
        lr: Learning rate.
        epsilon: Share of random actions.
        beta: Share of the sampling bias that is corrected.
        n_replay: Environment steps in the replay buffer.
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
    beta: float
    n_replay: int


class ActorStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Statistics of the actor.

    Attributes:
        env_steps: Game decisions taken.
        staleness_updates: Updates of the learner since those of the actor's weights.
        n_dropped: Steps lost so far because the transport was full.
        n_late: Steps so far that were late in a real-time game.
        lateness_p99_ms: 99th percentile of the lateness of the steps since the last message (ms); None if the game does
            not run in real time.
        n_restarts: Number of restarts after failures.
    """

    env_steps: int
    staleness_updates: int
    n_dropped: int
    n_late: int
    lateness_p99_ms: float | None
    n_restarts: int


class FightStats(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Means over at least twenty episodes: those since the last message, for Rainbow also earlier ones.

    Attributes:
        env_steps: Game decisions taken.
        n_fights: Number of episodes, at least 1.
        reward_terms: Share of each term of the reward in the return.
        damage_by_attack: Hit points lost to each attack of the boss.
        kills_by_attack: Share of the episodes that each attack of the boss ended.
        wins_by_pose: Share of wins from each start pose, by its number.
        action_shares: Share of each action among the chosen ones, by its number, (A,); empty if it is not counted.
        uses_by_attack: Number of uses of each attack of the boss per episode.
        hits_by_attack: Number of uses of each attack that hit the player per episode.
        damage_dealt: Hit points that the boss lost per episode; None if it is not reported.
        damage_taken: Hit points that the player lost per episode; None if it is not reported.
        decisions_by_phase: Game decisions in each phase of the fight per episode, by the number of the phase.
        damage_dealt_by_phase: Hit points that the boss lost in each phase per episode.
        damage_taken_by_phase: Hit points that the player lost in each phase per episode.
        actions_by_situation: Share of each action among those chosen in a situation, (A,), by its name.
    """

    env_steps: int
    n_fights: int
    reward_terms: dict[str, float]
    damage_by_attack: dict[str, float]
    kills_by_attack: dict[str, float] = {}
    wins_by_pose: dict[str, float] = {}
    action_shares: tuple[float, ...] = ()
    uses_by_attack: dict[str, float] = {}
    hits_by_attack: dict[str, float] = {}
    damage_dealt: float | None = None
    damage_taken: float | None = None
    decisions_by_phase: dict[str, float] = {}
    damage_dealt_by_phase: dict[str, float] = {}
    damage_taken_by_phase: dict[str, float] = {}
    actions_by_situation: dict[str, tuple[float, ...]] = {}


class Evaluated(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Result of an evaluation during a run.

    Attributes:
        env_steps: Game decisions taken.
        n_fights: Number of greedy fights.
        mean_return: Mean return of the fights.
        win_rate: Share of wins, 0..1; None if the environment does not report wins.
        low: Lower end of the 95 % Wilson interval of the win rate.
        high: Upper end of that interval.
        damage_by_attack: Hit points lost to each attack of the boss, mean of the fights.
        kills_by_attack: Share of the fights that each attack of the boss ended.
        wins_by_pose: Share of wins from each start pose, by its number.
        uses_by_attack: Number of uses of each attack of the boss, mean of the fights.
        hits_by_attack: Number of uses of each attack that hit the player, mean of the fights.
    """

    env_steps: int
    n_fights: int
    mean_return: float
    win_rate: float | None
    low: float | None
    high: float | None
    damage_by_attack: dict[str, float] = {}
    kills_by_attack: dict[str, float] = {}
    wins_by_pose: dict[str, float] = {}
    uses_by_attack: dict[str, float] = {}
    hits_by_attack: dict[str, float] = {}


class EvaluationProgress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Progress of an evaluation.

    Attributes:
        n_done: Finished fights that count.
        n_fights: Number of fights of the evaluation.
        n_wins: Fights won so far; None if the environment does not report wins.
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
    """Receiver of telemetry."""

    def write(self, message: Message) -> None:
        """Process one message; must be quick, because training waits."""

    def close(self) -> None:
        """Flush and release resources; no message follows."""


def close_all(sinks: Sequence[Sink]) -> None:
    """Close all sinks, even if one raises an error; the error is raised afterwards."""
    with ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.close)


def send_message(sinks: Sequence[Sink], message: Message) -> None:
    """Write one message to every sink."""
    for sink in sinks:
        sink.write(message)
