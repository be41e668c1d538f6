"""``python -m benchmarks fleet-games``: learning from one game and from eight, and PPO in a fleet and in one process.

The games are the first phase of the built-in fight. A game plays ten decisions in a second of game time, as a real game
does, but the clock is accelerated: the simulators run as fast as the learner makes its updates. The times in the tables
are game time, so that eight games play 80 decisions in a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import numpy as np

from benchmarks.fleet_processes import FleetProcesses
from benchmarks.learner_run import HALF, MOST, LearnerRun, Point
from benchmarks.result import MoreThan, Result, Row
from soulslab.learn.curve import read_evaluations, read_points
from soulslab.learn.sinks import PROGRESS_NAME
from soulslab.learn.telemetry import TrainProgress

DECISIONS_PER_S: Final = 10.0
"""Decisions of a game in a second of game time."""

_RUN_LIMIT_S: Final = 4 * 3600.0


class GamesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_games: Numbers of games from which Rainbow learns.
        seeds: Seeds of the runs.
        rainbow_steps: Largest number of decisions of a run of Rainbow.
        rainbow_every: Decisions between two of its evaluations.
        ppo_steps: Largest number of decisions of a run of PPO.
        ppo_every: Decisions between two of its evaluations.
        ppo_games: Processes of games from which PPO learns.
        ppo_envs: Environments of PPO, in the fleet those of all processes.
        n_fights: Greedy fights of each evaluation.
    """

    n_games: tuple[int, ...] = (1, 8)
    seeds: tuple[int, ...] = (0, 1)
    rainbow_steps: int = 100_000
    rainbow_every: int = 2_000
    ppo_steps: int = 10_000_000
    ppo_every: int = 250_000
    ppo_games: int = 2
    ppo_envs: int = 256
    n_fights: int = 200

    def quick(self) -> GamesSettings:
        """Return settings for a short run, in which nothing is learned."""
        return GamesSettings(
            n_games=(1, 2),
            seeds=(0,),
            rainbow_steps=1_500,
            rainbow_every=500,
            ppo_steps=100_000,
            ppo_every=50_000,
            ppo_envs=32,
            n_fights=20,
        )


class GamesRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its name in the table, the number of games, its evaluations, and the training time (s)."""

    name: str
    n_games: int
    run: LearnerRun
    seconds: float


def measure_games(settings: GamesSettings | None = None) -> Iterator[Result]:
    """Train all learners, one after another; the tables of Rainbow and of PPO are yielded when they are complete."""
    settings = settings or GamesSettings()
    few, many = settings.n_games[0], settings.n_games[-1]
    rainbow = [_train_rainbow(settings, n_games, seed) for seed in settings.seeds for n_games in settings.n_games]
    yield Result(
        title=f"Rainbow (rainbow.toml, first phase), means of {len(settings.seeds)} seeds: decisions and game time "
        f"until 80 % of {settings.n_fights} greedy fights are won; goals: with {many} games at most 1.1 times the "
        f"decisions of {few}, and a sixth of the time",
        rows=[comparison_row(rainbow, _name(n_games), n_games) for n_games in settings.n_games],
    )
    ppo = [_train_ppo(settings, seed, is_fleet=is_fleet) for seed in settings.seeds for is_fleet in (False, True)]
    yield Result(
        title=f"PPO (demo.toml, first phase), {settings.ppo_envs} environments, means of {len(settings.seeds)} seeds: "
        "decisions and training time until 80 % are won",
        rows=[comparison_row(ppo, name, settings.ppo_envs) for name in ("in one process", "in a fleet")],
    )


def comparison_row(runs: Sequence[GamesRun], name: str, n_games: int) -> Row:
    """Return the row of a learner: means over its runs, or a bound if a run did not reach the level."""
    own = [each for each in runs if each.name == name]
    to_half, to_most = (_mean_decisions([each.run for each in own], level) for level in (HALF, MOST))
    n_decisions = to_most.value if isinstance(to_most, MoreThan) else to_most
    minutes = n_decisions / DECISIONS_PER_S / 60.0 / n_games
    return {
        "games": name,
        "decisions to 50 %": to_half,
        "decisions to 80 %": to_most,
        "game time to 80 %, min": MoreThan(minutes) if isinstance(to_most, MoreThan) else round(minutes, 1),
        "won at the end, %": round(100 * float(np.mean([each.run.final_win_rate() for each in own])), 1),
        "training, s": round(float(np.mean([each.seconds for each in own]))),
    }


def _mean_decisions(runs: Sequence[LearnerRun], level: float) -> int | MoreThan:
    """Return the mean decisions to a win rate; a run that did not reach it counts with all of its decisions."""
    found = [run.decisions_to(level) for run in runs]
    mean = float(np.mean([n if n is not None else run.n_decisions for n, run in zip(found, runs, strict=True)]))
    return MoreThan(mean) if None in found else round(mean)


def _name(n_games: int) -> str:
    return f"{n_games} game{'s' if n_games > 1 else ''}"


def _train_rainbow(settings: GamesSettings, n_games: int, seed: int) -> GamesRun:
    options = _options(seed, n_games, settings.rainbow_steps, settings.rainbow_every, settings.n_fights)
    with TemporaryDirectory() as folder:
        return _learn_in_fleet(Path(folder), ("rainbow.toml", options), _name(n_games), (n_games, 1))


def _train_ppo(settings: GamesSettings, seed: int, *, is_fleet: bool) -> GamesRun:
    n_envs = settings.ppo_envs
    options = _options(seed, n_envs, settings.ppo_steps, settings.ppo_every, settings.n_fights)
    with TemporaryDirectory() as folder:
        if is_fleet:
            games = settings.ppo_games, n_envs // settings.ppo_games
            return _learn_in_fleet(Path(folder), ("demo.toml", options), "in a fleet", games)
        fleet = FleetProcesses(Path(folder))
        try:
            child = fleet.start("train", "--config", "demo.toml", "--run-dir", fleet.run_dir, *options)
            fleet.wait_for(lambda: child.poll() is not None, "the end of the training", _RUN_LIMIT_S)
            return _read_run(fleet, "in one process", n_envs)
        finally:
            fleet.close()


def _options(seed: int, n_envs: int, total_steps: int, every: int, n_fights: int) -> list[str]:
    """Return the settings of a run as options of the command line; it ends at 80 %."""
    settings = {
        "env.n_envs": n_envs,
        "env.options.phase": '"1"',
        "run.seed": seed,
        "run.total_steps": total_steps,
        "run.evaluate_every": every,
        "run.evaluate_fights": n_fights,
        "run.stop_win_rate": MOST - 1e-6,
        "run.max_seconds": _RUN_LIMIT_S,
    }
    return [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]


def _learn_in_fleet(folder: Path, learning: tuple[str, list[str]], name: str, games: tuple[int, int]) -> GamesRun:
    """Train with a fleet until a run is complete; ``games`` are processes, and environments of each."""
    config, options = learning
    n_games, n_envs = games
    fleet = FleetProcesses(folder)
    try:
        child = fleet.start_learner("--config", config, "--run-dir", fleet.run_dir, *options)
        fleet.start("fleet", "play", fleet.join, "--games", n_games, "--envs", n_envs)
        fleet.wait_for(lambda: child.poll() is not None, "the end of the training", _RUN_LIMIT_S)
        return _read_run(fleet, name, n_games * n_envs)
    finally:
        fleet.close()


def _read_run(fleet: FleetProcesses, name: str, n_games: int) -> GamesRun:
    log = fleet.run_dir / PROGRESS_NAME
    progress = read_points(log, TrainProgress)
    points = tuple(
        Point(decisions=each.env_steps, win_rate=each.win_rate or 0.0, mean_return=each.mean_return, seconds=0.0)
        for each in read_evaluations(log)
    )
    last = progress[-1]
    run = LearnerRun(n_decisions=last.env_steps, points=points)
    return GamesRun(name=name, n_games=n_games, run=run, seconds=last.seconds)
