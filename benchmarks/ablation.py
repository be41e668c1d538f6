"""``python -m benchmarks ablation``: train without one component at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from benchmarks.learner_pool import play_all
from benchmarks.learner_run import LearnerRun, LearnerTask
from benchmarks.learner_tables import Mean, decision_cells, mean_of, run_row
from benchmarks.result import Cell, MoreThan, Result, Row
from soulslab.errors import ConfigError
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings

NOTHING: Final = "(nothing)"


class AblationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        config: The config with all components.
        seeds: Seeds of the runs of each variant.
        limit: Game decisions of each run.
        n_processes: Number of parallel runs.
        folder: Folder of the stored runs.
        components: Components to remove; empty for all.
    """

    config: RainbowSettings
    seeds: tuple[int, ...] = (0, 1, 2)
    limit: int = 80_000
    n_processes: int = 1
    folder: Path = Path("bench-results") / "learner"
    components: tuple[str, ...] = ()

    def quick(self) -> AblationSettings:
        """Return settings for a run of one minute, in which little is learned."""
        config = self.config
        learner = replace(config.learner, learning_starts=50)
        run = replace(config.run, evaluate_every=300, evaluate_fights=4)
        config = replace(config, learner=learner, run=run)
        return replace(self, config=config, seeds=self.seeds[:1], limit=600, n_processes=2)


def measure_ablation(settings: AblationSettings) -> list[Result]:
    """Train the config and each variant with all seeds.

    Raises:
        BenchmarkError: A run failed.
        ConfigError: The config has no such component.
    """
    config = replace(settings.config, run=replace(settings.config.run, total_steps=settings.limit))
    variants = {NOTHING: config} | _chosen(without(config), settings.components)
    tasks = [
        LearnerTask(name=name, kind="rainbow", settings=replace(variant, run=replace(variant.run, seed=seed)))
        for seed in settings.seeds
        for name, variant in variants.items()
    ]
    runs = play_all(tasks, settings.folder, settings.n_processes)
    by_name = {name: [run for task, run in zip(tasks, runs, strict=True) if task.name == name] for name in variants}
    # The full config is first, then the variants in order of the loss.
    by_name = dict(sorted(by_name.items(), key=lambda one: (one[0] != NOTHING, mean(run.area() for run in one[1]))))
    rows = [_row(name, runs, by_name[NOTHING]) for name, runs in by_name.items()]
    return [
        Result(
            title=f"without one component: {settings.limit:,} decisions, {config.run.evaluate_fights} greedy fights "
            f"every {config.run.evaluate_every:,}; mean and 95 % interval of {len(settings.seeds)} seeds",
            rows=rows,
        ),
        Result(
            title="decisions, and minutes of play, until so many fights were won",
            rows=[{"without": name, **decision_cells(runs)} for name, runs in by_name.items()],
        ),
        Result(title="each run", rows=[run_row(task, run) for task, run in zip(tasks, runs, strict=True)]),
    ]


def without(config: RainbowSettings) -> dict[str, RainbowSettings]:
    """Return a variant of the config without each component that it has."""
    learner, network, memory, inputs = config.learner, config.network, config.replay, config.inputs
    # Munchausen's bootstrap does not choose an action, so double learning has no effect.
    is_double = learner.is_double and learner.munchausen == 0.0
    candidates: list[tuple[str, bool, dict[str, Any]]] = [
        ("double", is_double, {"learner": replace(learner, is_double=False)}),
        ("dueling", network.is_dueling, {"network": replace(network, is_dueling=False)}),
        ("several steps", learner.n_steps > 1, {"learner": replace(learner, n_steps=1)}),
        ("priorities", memory.alpha > 0.0, {"replay": replace(memory, alpha=0.0)}),
        ("masks in the target", learner.is_target_masked, {"learner": replace(learner, is_target_masked=False)}),
        ("the averaged policy", learner.average_tau < 1.0, {"learner": replace(learner, average_tau=1.0)}),
        ("quantiles", network.n_quantiles > 1, {"network": replace(network, n_quantiles=1)}),
        ("layer normalisation", network.has_layer_norm, {"network": replace(network, has_layer_norm=False)}),
        ("soft bins", bool(network.bins), {"network": replace(network, bins=())}),
        ("the player's own frame", _is_relative(config), _in_world_coordinates(config)),
        ("Munchausen", learner.munchausen > 0.0, {"learner": replace(learner, munchausen=0.0)}),
        ("weight decay", learner.weight_decay > 0.0, {"learner": replace(learner, weight_decay=0.0)}),
        (
            "more than one update per step",
            learner.updates_per_step > 1.0,
            {"learner": replace(learner, updates_per_step=1.0)},
        ),
        (
            "the soft target network",
            learner.target_tau < 1.0,
            {
                "learner": replace(
                    learner, target_tau=1.0, target_every=round(learner.target_every / learner.target_tau)
                )
            },
        ),
        ("previous actions", inputs.previous_actions > 0, {"inputs": replace(inputs, previous_actions=0)}),
        ("time left", inputs.time_left_decisions > 0, {"inputs": replace(inputs, time_left_decisions=0)}),
    ]
    return {name: replace(config, **changes) for name, has_it, changes in candidates if has_it}


def _chosen(variants: dict[str, RainbowSettings], names: Sequence[str]) -> dict[str, RainbowSettings]:
    """Return the variants without the named components; all variants if no component is named."""
    for name in names:
        if name not in variants:
            raise ConfigError(f"no component {name!r}; the config has {', '.join(map(repr, variants))}")
    return {name: variant for name, variant in variants.items() if not names or name in names}


def _is_relative(config: RainbowSettings) -> bool:
    return bool(config.env.options.get("observation") == "relative")


def _in_world_coordinates(config: RainbowSettings) -> dict[str, Any]:
    """Return the changes of the config for features in world coordinates, whose unit of distance is 50 m, not 10 m."""
    options = {**config.env.options, "observation": "features"}
    bins = tuple(
        replace(each, low=each.low / 5.0, high=each.high / 5.0) if each.feature == "distance" else each
        for each in config.network.bins
    )
    return {"env": replace(config.env, options=options), "network": replace(config.network, bins=bins)}


def _row(name: str, runs: Sequence[LearnerRun], whole: Sequence[LearnerRun]) -> Row:
    areas, whole_areas = ([100 * run.area() for run in each] for each in (runs, whole))
    area = mean_of(areas)
    loss = Mean(0.0, None) if runs is whole else difference(whole_areas, areas)
    return {
        "without": name,
        "won on average (%)": area.mean,
        "± won": area.margin,
        "lost (points)": loss.mean,
        "± lost": loss.margin,
        "seeds that lost": None if runs is whole else f"{_n_lost(whole_areas, areas)} of {len(areas)}",
        "verdict": None if runs is whole else verdict(loss),
    }


def _n_lost(whole: Sequence[float], areas: Sequence[float]) -> int:
    return sum(area < other for area, other in zip(areas, whole, strict=True))


def difference(a: Sequence[float], b: Sequence[float]) -> Mean:
    """Return the mean difference of values of the same seeds, with its 95 % t interval, or no interval for one seed.

    The test is paired, because a seed determines the initial weights and the starts of the fights; the variance between
    seeds is larger than that between components.
    """
    return mean_of([x - y for x, y in zip(a, b, strict=True)])


def verdict(loss: Mean) -> Cell:
    """Return the verdict on a component from the loss without it; None without an interval."""
    if loss.margin is None or isinstance(loss.mean, MoreThan):
        return None
    if loss.mean > loss.margin:
        return "earns its place"
    return "does harm" if loss.mean < -loss.margin else "unclear"
