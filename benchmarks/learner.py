"""``python -m benchmarks learner``: compare the decisions and the updates per second of several learners."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

import msgspec
from msgspec.structs import replace

from benchmarks.learner_curves import draw_curves
from benchmarks.learner_pool import play_all
from benchmarks.learner_recipes import OURS, SHOWN, contestants
from benchmarks.learner_run import HALF, MOST, LearnerRun, LearnerTask
from benchmarks.learner_tables import at_least, at_most, decision_cells, mean_decisions, mean_of, run_row
from benchmarks.result import Cell, MoreThan, Result, Row
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.fights.recording import FightRecorder, record_fight
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.settings import EnvSettings

CURVES_NAME: Final = "curves.png"

N_SHOWN: Final = 20
"""Number of demonstrations: fights of the reference player."""

MIN_RATIO: Final = 4
"""Target for the decisions to 50 % of the best other learner, as a multiple of ours; each other learner has as many
times the decisions of ours."""

HALF_MEAN: Final = 30_000
HALF_SLOWEST: Final = 45_000
"""Targets for the decisions to 50 %: mean and slowest of the seeds."""

SHOWN_HALF: Final = 10_000
SHOWN_MOST: Final = 30_000
"""Targets for the decisions to 50 % and to 80 % with demonstrations, mean of the seeds."""


class LearnerBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        config: Config of our learner; its environment and evaluations are used for all learners.
        seeds: Seeds that were not used to choose the config; all learners run with one seed before the next one.
        n_decisions: Game decisions of our learner; the others have ``MIN_RATIO`` times as many.
        n_processes: Number of parallel runs.
        folder: Folder of the stored runs and the demonstrations.
        has_tuned_peers: Also train the peers with our settings, which takes twice as long.
        only: Only the learner of this name, or those whose names contain this text, and no updates per second.
        is_quick: Measure rough speeds.
    """

    config: RainbowSettings
    seeds: tuple[int, ...] = (20, 21, 22, 23, 24, 25)
    n_decisions: int = 60_000
    n_processes: int = 1
    folder: Path = Path("bench-results") / "learner"
    has_tuned_peers: bool = False
    only: str = ""
    is_quick: bool = False

    def quick(self) -> LearnerBenchSettings:
        """Return settings for a run of a minute, in which little is learned."""
        learner = replace(self.config.learner, learning_starts=50)
        run = replace(self.config.run, evaluate_every=300, evaluate_fights=4)
        config = replace(self.config, learner=learner, run=run)
        return replace(self, config=config, seeds=self.seeds[:1], n_decisions=600, n_processes=2, is_quick=True)


def measure_learner(settings: LearnerBenchSettings) -> list[Result]:
    """Train all learners with all seeds, draw their curves, and measure their updates.

    Raises:
        BenchmarkError: A run failed.
        ConfigError: No learner has the name ``only``.
        MissingDependencyError: The peers are not installed.
    """
    try:
        # Optional and slow to import; report a missing package before hours of runs.
        from benchmarks.updates import SpeedSettings, measure_speed  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("sb3-contrib", "peers") from error

    def tasks_of(shown: Path | None) -> list[LearnerTask]:
        found = contestants(
            settings.config,
            settings.seeds,
            settings.n_decisions,
            MIN_RATIO * settings.n_decisions,
            shown,
            has_tuned_peers=settings.has_tuned_peers,
        )
        exact = [task for task in found if task.name == settings.only]
        chosen = exact or [task for task in found if settings.only in task.name]
        if not chosen:
            names = ", ".join(dict.fromkeys(task.name for task in found))
            raise ConfigError(f"no learner is called {settings.only!r}; there are {names}")
        return chosen

    needs_fights = any(task.name == SHOWN for task in tasks_of(Path()))
    tasks = tasks_of(record_fights(settings.config.env, settings.folder) if needs_fights else None)
    runs = play_all(tasks, settings.folder, settings.n_processes)
    speeds: list[Result] = []
    speed_targets: list[Row] = []
    if not settings.only:
        speed = SpeedSettings().quick() if settings.is_quick else SpeedSettings()
        measured, reached = measure_speed(settings.config, speed)
        speeds, speed_targets = [measured], reached.rows
    by_name: dict[str, list[LearnerRun]] = {}
    for task, run in zip(tasks, runs, strict=True):
        by_name.setdefault(task.name, []).append(run)
    if not settings.only:
        env = settings.config.env
        draw_curves(by_name, settings.folder / CURVES_NAME, f"{env.id}, {env.options.get('boss', '')}".rstrip(", "))
    return [
        Result(title=_title(settings, by_name), rows=[_row(name, runs) for name, runs in by_name.items()]),
        Result(
            title="greedy fights won at the end of the runs (mean and 95 % interval)",
            rows=[_last_row(name, runs) for name, runs in by_name.items()],
        ),
        *speeds,
        Result(title="to reach", rows=compare_decisions(by_name) + speed_targets),
        Result(title="each run", rows=[run_row(task, run) for task, run in zip(tasks, runs, strict=True)]),
    ]


def record_fights(env: EnvSettings, folder: Path) -> Path:
    """Record fights of the reference player in an environment, if there is no such data set.

    Args:
        env: Environment of the training.
        folder: Folder for the data set.

    Returns:
        The folder of the data set.

    Raises:
        DemonstrationError: The data set cannot be written.
        EnvironmentUsageError: The environment is not the arena's.
    """
    mark = hashlib.sha256(msgspec.json.encode(env, order="deterministic")).hexdigest()[:16]
    path = folder.resolve() / f"reference-{mark}"
    if path.is_dir():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # It gets its name when it is complete; an interrupted recording is repeated.
    begun = path.with_suffix(".part")
    shutil.rmtree(begun, ignore_errors=True)
    with FightRecorder(begun, env.id, env.options, "reference") as recorder:
        for seed in range(N_SHOWN):
            record_fight(recorder, seed)
    return begun.rename(path)


def compare_decisions(runs: dict[str, list[LearnerRun]]) -> list[Row]:
    """Return the targets in decisions, and the measured values.

    Args:
        runs: Runs of each learner, one per seed; targets of missing learners are left out.
    """
    rows = []
    others = {name: mean_decisions(theirs, HALF).mean for name, theirs in runs.items() if name not in (OURS, SHOWN)}
    if OURS in runs:
        ours = mean_decisions(runs[OURS], HALF).mean
        if others:
            best = min(others, key=lambda name: _at_least_so_many(others[name]))
            ratio = ratio_of(others[best], ours)
            what = f"decisions to 50 %: the best of the others ({best}) / soulslab"
            rows.append(_target(what, ratio, f"at least {MIN_RATIO}", at_least(ratio, MIN_RATIO)))
        rows.append(_at_most("decisions to 50 %: soulslab, mean", ours, HALF_MEAN))
        rows.append(_at_most("decisions to 50 %: soulslab, the slowest seed", slowest(runs[OURS], HALF), HALF_SLOWEST))
    if SHOWN in runs:
        for level, bound in ((HALF, SHOWN_HALF), (MOST, SHOWN_MOST)):
            what = f"decisions to {100 * level:.0f} %: with {N_SHOWN} recorded fights, mean"
            rows.append(_at_most(what, mean_decisions(runs[SHOWN], level).mean, bound))
    return rows


def slowest(runs: Sequence[LearnerRun], win_rate: float) -> int | MoreThan:
    """Return the decisions to a win rate of the slowest seed; a lower bound if a seed did not reach it."""
    late = [run.n_decisions for run in runs if run.decisions_to(win_rate) is None]
    if late:
        return MoreThan(max(late))
    return max(run.decisions_to(win_rate) or 0 for run in runs)


def ratio_of(above: float | MoreThan, below: float | MoreThan) -> float | MoreThan | None:
    """Return a ratio of decisions; a lower bound if the dividend is one, None if the divisor is one."""
    if isinstance(below, MoreThan):
        return None
    return MoreThan(above.value / below) if isinstance(above, MoreThan) else above / below


def _at_least_so_many(decisions: float | MoreThan) -> float:
    return decisions.value if isinstance(decisions, MoreThan) else decisions


def _at_most(what: str, measured: float | MoreThan, bound: int) -> Row:
    return _target(what, measured, f"at most {bound:,}", at_most(measured, bound))


def _target(what: str, measured: Cell, target: str, is_reached: bool | None) -> Row:
    return {"what": what, "measured": measured, "to reach": target, "reached": is_reached}


def _row(name: str, runs: Sequence[LearnerRun]) -> Row:
    return {"learner": name, **decision_cells(runs)}


def _last_row(name: str, runs: Sequence[LearnerRun]) -> Row:
    won = mean_of([100 * run.final_win_rate() for run in runs])
    return {
        "learner": name,
        "decisions": round(mean(run.n_decisions for run in runs)),
        "won (%)": won.mean,
        "± won": won.margin,
    }


def _title(settings: LearnerBenchSettings, names: Collection[str]) -> str:
    env, run = settings.config.env, settings.config.run
    title = (
        f"{env.id}, one environment: decisions, and minutes of play, until {run.evaluate_fights} greedy fights, fought "
        f"every {run.evaluate_every:,} decisions, are won to 50 % and to 80 % (mean and 95 % interval of "
        f"{len(settings.seeds)} seeds); soulslab has {settings.n_decisions:,} decisions"
    )
    if set(names) <= {OURS, SHOWN}:
        return title
    return (
        f"{title}, the others {MIN_RATIO * settings.n_decisions:,}. The others but the published recipe have no masks: "
        "a forbidden action does nothing"
    )
