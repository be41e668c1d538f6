"""``python -m benchmarks train``: compare our PPO with stable-baselines3's PPO and sb3-contrib's MaskablePPO.

All learners train on the same environment with the same options, one after another on one core, until 80 % of the
last fights are won or the time limit is reached. Locked decisions are skipped. Training time counts from the first
step, after compilation. The moving win rate is over the last 200 fights; soulslab's is over the last 1000, which takes
longer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from benchmarks.result import Cell, MoreThan, Result, Row
from benchmarks.training_outcome import HALF, MOST, Outcome, Trial
from soulslab.errors import MissingDependencyError
from soulslab.learn.environment import make_vector
from soulslab.learn.evaluate import EvaluationSettings, evaluate, wilson_interval
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.telemetry import Message, Sink, UpdateStats
from soulslab.learn.train import train_uninterrupted

OURS = "soulslab PPO"
#: Targets for the ratio of policy steps per second, and for the ratio of times to a win rate of 80 %.
SPEED_TARGET, TIME_TARGET = 5.0, 3.0

_log = logging.getLogger(__name__)


class TrainBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: soulslab's config; all learners use its environment.
        seeds: Seeds; all learners run with one seed before the next one.
        limit_s: Maximum training time per learner and seed (s). The default with one seed takes at most 25 minutes.
        n_fights: Greedy fights of each evaluation.
    """

    train: TrainSettings
    seeds: tuple[int, ...] = (0,)
    limit_s: float = 280.0
    n_fights: int = 300

    def quick(self) -> TrainBenchSettings:
        """Return settings for a run of half a minute, in which little is learned."""
        return msgspec.structs.replace(self, seeds=self.seeds[:1], limit_s=2.0, n_fights=20)


def measure_training(settings: TrainBenchSettings) -> list[Result]:
    """Train all learners with all seeds.

    Raises:
        MissingDependencyError: The peers are not installed.
    """
    learners = _learners()
    _compile(settings.train)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in learners}
    rows: list[Row] = []
    for seed in settings.seeds:
        trial = Trial(train=settings.train, seed=seed, limit_s=settings.limit_s, n_fights=settings.n_fights)
        for name, learner in learners.items():
            _log.info("%s, seed %d", name, seed)
            outcome = learner(trial, [ConsoleSink()])
            outcomes[name].append(outcome)
            rows.append(_row(name, trial, outcome))
    return [
        Result(
            title=f"training until {100 * MOST:.0f} % of the last fights are won, or {settings.limit_s:.0f} s; "
            f"then {settings.n_fights} greedy fights (95 % interval)",
            rows=rows,
        ),
        Result(title="soulslab against each (medians over the seeds)", rows=compare(outcomes, settings.limit_s)),
    ]


def train_ours(trial: Trial, sinks: Sequence[Sink]) -> Outcome:
    """Train soulslab's PPO until the win rate or the time limit is reached, then evaluate greedy actions."""
    base = trial.train
    run = msgspec.structs.replace(base.run, seed=trial.seed, max_seconds=trial.limit_s, stop_win_rate=MOST)
    updates = _UpdateCount()
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train_uninterrupted(msgspec.structs.replace(base, run=run), Path(folder), sinks=[*sinks, updates])
        policy = Policy.load(result.policy_path)
    fights = EvaluationSettings(
        env_id=base.env.id, env_options=base.env.options, n_fights=trial.n_fights, seed=trial.seed
    )
    reached = {milestone.win_rate: milestone.seconds for milestone in result.milestones}
    return Outcome(
        n_envs=base.env.n_envs,
        seconds=result.train_seconds,
        n_decisions=result.env_steps,
        n_policy_steps=updates.n * base.learner.n_steps * base.env.n_envs,
        half_s=reached.get(HALF),
        most_s=reached.get(MOST),
        n_fights=trial.n_fights,
        n_wins=evaluate(policy, fights).n_wins or 0,
    )


class _UpdateCount:
    """Counts the updates of a run, each of which follows one rollout."""

    def __init__(self) -> None:
        self.n = 0

    def write(self, message: Message) -> None:
        self.n += isinstance(message, UpdateStats)

    def close(self) -> None:
        """Do nothing."""


def _learners() -> dict[str, Callable[[Trial, Sequence[Sink]], Outcome]]:
    try:
        # Optional, and slow to import.
        from benchmarks.peers import PEERS, train_peer  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("sb3-contrib", "peers") from error
    return {OURS: train_ours, **{peer.name: partial(train_peer, peer) for peer in PEERS}}


def _compile(settings: TrainSettings) -> None:
    """Take a step, so that the rules are compiled before the measurement."""
    with closing(make_vector(settings.env.id, 1, settings.env.options)) as env:
        env.reset(seed=0)
        env.step(np.zeros(1, np.int64))


def _row(name: str, trial: Trial, outcome: Outcome) -> Row:
    low, high = wilson_interval(outcome.n_wins, outcome.n_fights)
    late = MoreThan(trial.limit_s)
    return {
        "learner": name,
        "seed": trial.seed,
        "envs": outcome.n_envs,
        "env steps/s": round(outcome.n_decisions / outcome.seconds),
        "policy steps/s": round(outcome.n_policy_steps / outcome.seconds),
        "to 50 % (s)": outcome.half_s if outcome.half_s is not None else late,
        "to 80 % (s)": outcome.most_s if outcome.most_s is not None else late,
        "greedy won (%)": 100 * outcome.n_wins / outcome.n_fights,
        "from (%)": 100 * low,
        "to (%)": 100 * high,
    }


def compare(outcomes: dict[str, list[Outcome]], limit_s: float) -> list[Row]:
    """Compare soulslab with each peer.

    Args:
        outcomes: Outcomes of each learner, including `OURS`, one per seed.
        limit_s: Maximum training time (s).
    """
    ours = outcomes[OURS]
    rows: list[Row] = []
    for name, theirs in outcomes.items():
        if name == OURS:
            continue
        speed = _policy_rate(ours) / _policy_rate(theirs)
        rows.append(
            {
                "learner": name,
                "policy steps/s: ours / theirs": speed,
                f"at least {SPEED_TARGET:.0f}": speed >= SPEED_TARGET,
                "time to 80 %: theirs / ours": (ratio := _time_ratio(ours, theirs, limit_s)),
                f"at least {TIME_TARGET:.0f}": _is_enough(ratio),
            }
        )
    return rows


def _policy_rate(outcomes: list[Outcome]) -> float:
    return median(outcome.n_policy_steps / outcome.seconds for outcome in outcomes)


def _time_ratio(ours: list[Outcome], theirs: list[Outcome], limit_s: float) -> MoreThan | float | None:
    """Return the ratio of their time to 80 % to ours; a lower bound if they did not reach it."""
    our_s, their_s = (
        median(outcome.most_s if outcome.most_s is not None else math.inf for outcome in each)
        for each in (ours, theirs)
    )
    if math.isinf(our_s):
        return None
    return MoreThan(limit_s / our_s) if math.isinf(their_s) else their_s / our_s


def _is_enough(ratio: MoreThan | float | None) -> Cell:
    """Return whether the target is met; None if the time limit was too short."""
    if isinstance(ratio, MoreThan):
        return True if ratio.value >= TIME_TARGET else None
    return ratio >= TIME_TARGET if ratio is not None else None
