"""``python -m benchmarks bosses``: train with the same config against every boss, and evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.result import Result, Row
from soulslab.arena.boss_file import boss_names
from soulslab.learn.evaluate import Evaluation, EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.run_folder import TrainResult
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.telemetry import Sink
from soulslab.learn.train import train_uninterrupted
from soulslab.learn.training import AnySettings

#: Share of greedy fights to win against each boss.
TARGET = 0.8


class BossesBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        train: The config; only its boss and its seed change.
        bosses: Names, or paths of boss files; by default all shipped bosses.
        seeds: Seeds; each is used with every boss.
        n_fights: Greedy fights of each evaluation.
        limit_s: Maximum training time per run (s); the shorter of this and the config's limit is used.
    """

    train: TrainSettings
    bosses: tuple[str, ...] = msgspec.field(default_factory=boss_names)
    seeds: tuple[int, ...] = (0,)
    n_fights: int = 1000
    limit_s: float = float("inf")

    def quick(self) -> BossesBenchSettings:
        """Return settings for a run of half a minute, in which little is learned."""
        return msgspec.structs.replace(self, seeds=self.seeds[:1], n_fights=50, limit_s=3.0)


def measure_bosses(settings: BossesBenchSettings) -> list[Result]:
    """Train on every boss with every seed, and evaluate."""
    rows = [_row(settings, boss, seed) for seed, boss in product(settings.seeds, settings.bosses)]
    return [Result(title="the same config on every boss; greedy fights after training (95 % interval)", rows=rows)]


def _row(settings: BossesBenchSettings, boss: str, seed: int) -> Row:
    """Train and evaluate one policy."""
    base = settings.train
    options = {**base.env.options, "boss": boss}
    max_seconds = min(base.run.max_seconds, settings.limit_s)
    train_settings = msgspec.structs.replace(
        base,
        env=msgspec.structs.replace(base.env, options=options),
        run=msgspec.structs.replace(base.run, seed=seed, max_seconds=max_seconds),
    )
    result, evaluation = train_and_evaluate(train_settings, settings.n_fights)
    won, interval = evaluation.win_rate, evaluation.interval
    return {
        "boss": boss,
        "seed": seed,
        "decisions": result.env_steps,
        "training (s)": result.train_seconds,
        "fights": evaluation.n_fights,
        "won (%)": 100 * won if won is not None else None,
        "from (%)": 100 * interval.low if interval else None,
        "to (%)": 100 * interval.high if interval else None,
        f"over {100 * TARGET:.0f} %": won > TARGET if won is not None else None,
    }


def train_and_evaluate(
    settings: AnySettings, n_fights: int, sinks: Sequence[Sink] = ()
) -> tuple[TrainResult, Evaluation]:
    """Train a policy, and evaluate it greedily in its environment; further sinks get the telemetry of the training."""
    sink, env = ConsoleSink(), settings.env
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train_uninterrupted(settings, Path(folder), sinks=[sink, *sinks])
        policy = load_player(result.policy_path)
    fights = EvaluationSettings(env_id=env.id, env_options=env.options, n_fights=n_fights, seed=settings.run.seed)
    return result, evaluate(policy, fights, sinks=[sink])
