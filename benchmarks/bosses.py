"""``python -m benchmarks bosses``: the same config trained on every boss, and how often each is then beaten."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.result import Result, Row
from soulslab.arena.boss_file import boss_names
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.policy import Policy
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks import ConsoleSink
from soulslab.learn.train import train

#: Share of greedy fights to win against each boss.
TARGET = 0.8


class BossesBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained, and how it is measured.

    Attributes:
        train: The config; only its boss and its seed change.
        bosses: Names, or paths of boss files; by default those that come with soulslab.
        seeds: Seeds of the runs, each with every boss.
        n_fights: Greedy fights of each evaluation.
        limit_s: Training time per run (s), if shorter than the config's own.
    """

    train: TrainSettings
    bosses: tuple[str, ...] = msgspec.field(default_factory=boss_names)
    seeds: tuple[int, ...] = (0,)
    n_fights: int = 1000
    limit_s: float = float("inf")

    def quick(self) -> BossesBenchSettings:
        """Return settings that show that it works, within half a minute; nothing is learned in that time."""
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
    sink = ConsoleSink()
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        result = train(train_settings, Path(folder), sinks=[sink])
        policy = Policy.load(result.policy_path)
    fights = EvaluationSettings(env_id=base.env.id, env_options=options, n_fights=settings.n_fights, seed=seed)
    evaluation = evaluate(policy, fights, sinks=[sink])
    won, interval = evaluation.win_rate, evaluation.interval
    return {
        "boss": boss,
        "seed": seed,
        "decisions": result.env_steps,
        "training (s)": result.train_seconds,
        "fights": evaluation.n_fights,
        "won (%)": None if won is None else 100 * won,
        "from (%)": None if interval is None else 100 * interval.low,
        "to (%)": None if interval is None else 100 * interval.high,
        f"over {100 * TARGET:.0f} %": None if won is None else won > TARGET,
    }
