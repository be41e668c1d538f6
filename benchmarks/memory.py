"""``python -m benchmarks memory``, ``critic``: learning whose actor does not see the times of animations.

``memory`` compares policies with and without memory, ``critic`` critics that see the times and critics that do not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final, Self

import msgspec

from benchmarks.bosses import train_and_evaluate
from benchmarks.learner_tables import mean_of
from benchmarks.result import Result, Row
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import Message, UpdateStats
from soulslab.learn.training import AnySettings

GOAL: Final = 0.9
"""Wins of the policy with memory, as a share of those of the policy that sees everything."""

_HIDDEN: Final = ("player_animation_duration", "boss_animation_duration")

_log = logging.getLogger(__name__)


class MemoryBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of both benchmarks; the defaults are those of ``memory``.

    Attributes:
        train: The config; only its network, its seed and its length change, and with memory the batches of Rainbow.
        seeds: Seeds; each is used with every policy.
        n_steps: Game decisions of each run.
        memory: Size of the gated recurrent unit; 0 for none.
        batch_factor: Factor of the batch size of Rainbow with memory, and divisor of its number of updates: an update
            from few sequences takes nearly as long as one from many.
        n_fights: Greedy fights of each evaluation.
    """

    train: AnySettings
    seeds: tuple[int, ...] = (20, 21, 22, 23, 24, 25)
    n_steps: int = 16_000_000
    memory: int = 128
    batch_factor: int = 8
    n_fights: int = 1000

    @classmethod
    def for_critic(cls, train: TrainSettings) -> Self:
        """Return the settings of ``critic``: short runs in the first phase of the boss, without memory."""
        env = msgspec.structs.replace(train.env, options={**train.env.options, "phase": "1"})
        train = msgspec.structs.replace(train, env=env)
        return cls(train=train, seeds=(30, 31, 32, 33, 34, 35), n_steps=2_000_000, memory=0)

    def quick(self) -> MemoryBenchSettings:
        """Return settings for a run of half a minute, in which little is learned."""
        n_steps = 2_000 if isinstance(self.train, RainbowSettings) else 200_000
        return msgspec.structs.replace(self, seeds=self.seeds[:1], n_steps=n_steps, n_fights=50)


def measure_memory(settings: MemoryBenchSettings) -> list[Result]:
    """Train each policy with every seed, and evaluate."""
    policies: dict[str, dict[str, Any]] = {
        "sees the times of animations": {},
        "does not see them": {"hidden_features": _HIDDEN},
        "does not see them, with memory": {"hidden_features": _HIDDEN, "memory": settings.memory},
    }
    return _compare(
        settings, policies, f"goal: with memory at least {100 * GOAL:.0f} % of the wins of the first policy"
    )


def measure_critic(settings: MemoryBenchSettings) -> list[Result]:
    """Train policies that do not see the times, each with both critics and with every seed, and evaluate."""
    network = {"hidden_features": _HIDDEN, "memory": settings.memory, "shared": False}
    policies = {
        "the critic does not see the times": network,
        "the critic sees them": {**network, "critic_sees_hidden": True},
    }
    return _compare(settings, policies, "first phase of the boss; the actor does not see the times of animations")


def _compare(settings: MemoryBenchSettings, policies: Mapping[str, Mapping[str, Any]], note: str) -> list[Result]:
    """Train each policy, given by the changes of its network, with every seed, and evaluate."""
    runs: list[Row] = []
    for seed in settings.seeds:
        for name, network in policies.items():
            runs.append(_run(settings, name, network, seed))
            _log.info("%s, seed %d: %.1f %% won", name, seed, runs[-1]["won (%)"])
    by_name = {name: [run for run in runs if run["policy"] == name] for name in policies}
    full = mean(_numbers(next(iter(by_name.values())), "won (%)"))
    name = "Rainbow" if isinstance(settings.train, RainbowSettings) else "PPO"
    title = (
        f"{name}, {settings.n_steps:,} decisions, {settings.n_fights} greedy fights; means of "
        f"{len(settings.seeds)} seeds with 95 % interval; {note}"
    )
    return [
        Result(title=title, rows=[_summary(name, found, full) for name, found in by_name.items()]),
        Result(title="each run", rows=runs),
    ]


class _ExplainedVariance:
    """A sink that keeps the explained variance of the critic in each update."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def write(self, message: Message) -> None:
        if isinstance(message, UpdateStats):
            self.found.append(message.explained_variance)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _run(settings: MemoryBenchSettings, name: str, network: Mapping[str, Any], seed: int) -> Row:
    base = settings.train
    run = {"seed": seed, "total_steps": settings.n_steps, "max_seconds": float("inf"), "evaluate_every": 0}
    config: AnySettings = msgspec.structs.replace(
        base,
        network=msgspec.structs.replace(base.network, **network),
        run=msgspec.structs.replace(base.run, **run),
    )
    if isinstance(config, RainbowSettings) and config.network.memory:
        learner, factor = config.learner, settings.batch_factor
        batches = {"batch_size": factor * learner.batch_size, "updates_per_step": learner.updates_per_step / factor}
        config = msgspec.structs.replace(config, learner=msgspec.structs.replace(learner, **batches))
    critic = _ExplainedVariance()
    result, evaluation = train_and_evaluate(config, settings.n_fights, [critic])
    won = evaluation.win_rate
    return {
        "policy": name,
        "seed": seed,
        "won (%)": 100 * won if won is not None else None,
        "explained variance (%)": 100 * mean(critic.found[len(critic.found) // 2 :]) if critic.found else None,
        "training (s)": result.train_seconds,
    }


def _summary(name: str, runs: Sequence[Row], full: float) -> Row:
    won = mean_of(_numbers(runs, "won (%)"))
    return {
        "policy": name,
        "won (%)": won.mean,
        "±": won.margin,
        "least (%)": min(_numbers(runs, "won (%)")),
        "of the wins of the first (%)": 100 * mean(_numbers(runs, "won (%)")) / full if full else None,
        "explained variance (%)": mean(explained) if (explained := _numbers(runs, "explained variance (%)")) else None,
        "training (s)": mean(_numbers(runs, "training (s)")),
    }


def _numbers(runs: Sequence[Row], column: str) -> list[float]:
    return [float(cell) for run in runs if isinstance(cell := run[column], int | float)]
