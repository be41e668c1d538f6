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


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How a learner gets its steps.

    Attributes:
        name: Name in the table.
        n_envs: Environments, each of which is a game.
        n_processes: Processes of a fleet that share them; 0 trains in one process, without a fleet.
    """

    name: str
    n_envs: int
    n_processes: int


class GamesRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its setup, its evaluations, and the training time (s)."""

    setup: Setup
    run: LearnerRun
    seconds: float


def measure_games(settings: GamesSettings | None = None) -> Iterator[Result]:
    """Train all learners, one after another; the tables of Rainbow and of PPO are yielded when they are complete."""
    settings = settings or GamesSettings()
    few, many = settings.n_games[0], settings.n_games[-1]
    fleets = [Setup(name=_name(n), n_envs=n, n_processes=n) for n in settings.n_games]
    setups = [Setup(name=f"{_name(few)} in one process", n_envs=few, n_processes=0), *fleets]
    runs = _train_all(settings, "rainbow.toml", setups, (settings.rainbow_steps, settings.rainbow_every))
    yield Result(
        title=f"Rainbow (rainbow.toml, first phase), means of {len(settings.seeds)} seeds: decisions and game time "
        f"until 80 % of {settings.n_fights} greedy fights are won; goals: with {many} games at most 1.1 times the "
        f"decisions of {few}, and a sixth of the time",
        rows=[comparison_row(runs, setup) for setup in setups],
    )
    setups = [
        Setup(name="in one process", n_envs=settings.ppo_envs, n_processes=0),
        Setup(name="in a fleet", n_envs=settings.ppo_envs, n_processes=settings.ppo_games),
    ]
    runs = _train_all(settings, "demo.toml", setups, (settings.ppo_steps, settings.ppo_every))
    yield Result(
        title=f"PPO (demo.toml, first phase), {settings.ppo_envs} environments, means of {len(settings.seeds)} seeds: "
        "decisions and training time until 80 % are won",
        rows=[comparison_row(runs, setup) for setup in setups],
    )


def comparison_row(runs: Sequence[GamesRun], setup: Setup) -> Row:
    """Return the row of a setup: means over its runs, or a bound if a run did not reach the level."""
    own = [each for each in runs if each.setup == setup]
    to_half, to_most = (_mean_decisions([each.run for each in own], level) for level in (HALF, MOST))
    n_decisions = to_most.value if isinstance(to_most, MoreThan) else to_most
    minutes = n_decisions / DECISIONS_PER_S / 60.0 / setup.n_envs
    return {
        "games": setup.name,
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


def _train_all(
    settings: GamesSettings, config: str, setups: Sequence[Setup], decisions: tuple[int, int]
) -> list[GamesRun]:
    """Train with each setup and seed; ``decisions`` are the largest number, and those between two evaluations."""
    found = []
    for seed in settings.seeds:
        for setup in setups:
            options = _options(seed, setup.n_envs, *decisions, settings.n_fights)
            with TemporaryDirectory() as folder:
                found.append(_train(Path(folder), ("--config", config, *options), setup))
    return found


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


def _train(folder: Path, options: Sequence[str], setup: Setup) -> GamesRun:
    """Train until a run is complete."""
    fleet = FleetProcesses(folder)
    try:
        if setup.n_processes:
            child = fleet.start_learner(*options, "--run-dir", fleet.run_dir)
            n_each = setup.n_envs // setup.n_processes
            fleet.start("fleet", "play", fleet.join, "--games", setup.n_processes, "--envs", n_each)
        else:
            child = fleet.start("train", *options, "--run-dir", fleet.run_dir)
        fleet.wait_for(lambda: child.poll() is not None, "the end of the training", _RUN_LIMIT_S)
        return _read_run(fleet.run_dir / PROGRESS_NAME, setup)
    finally:
        fleet.close()


def _read_run(log: Path, setup: Setup) -> GamesRun:
    progress = read_points(log, TrainProgress)
    points = tuple(
        Point(decisions=each.env_steps, win_rate=each.win_rate or 0.0, mean_return=each.mean_return, seconds=0.0)
        for each in read_evaluations(log)
    )
    last = progress[-1]
    return GamesRun(setup=setup, run=LearnerRun(n_decisions=last.env_steps, points=points), seconds=last.seconds)
