"""``python -m benchmarks soak``: hours of game time in several parallel games with random faults."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec
import numpy as np
import psutil
from gymnasium.vector import AutoresetMode

from benchmarks.fault_injection import FAULTS, inject_fault
from benchmarks.result import Result, Row
from benchmarks.timing import with_progress
from soulslab.arena.records import DECISION_S
from soulslab.envs.tasks.duel.arena_live import ArenaLiveVectorEnv
from soulslab.envs.tasks.duel.duel_env import DuelVectorEnv

S_PER_H = 3600.0
#: Share of the run after which memory is measured first; by then, each part of the process has been used once.
WARM_PART = 0.2
#: A game is frozen if a step of 100 ms takes longer than this (s).
STEP_DEADLINE_S = 3.0
#: Time in which threads and processes have to end after all games were closed.
RELEASE_S = 10.0
#: A small window needs less processor time.
SIZE_PX = (128, 72)


class ProcessResources(msgspec.Struct, frozen=True, kw_only=True):
    """System resources of a process.

    Attributes:
        n_descriptors: Open files, sockets and pipes.
        n_threads: Threads.
        n_children: Child processes, recursively.
        memory_bytes: Memory of the process without its children.
    """

    n_descriptors: int
    n_threads: int
    n_children: int
    memory_bytes: int


def process_resources() -> ProcessResources:
    """Return the system resources of this process."""
    process = psutil.Process()
    return ProcessResources(
        n_descriptors=process.num_fds(),
        n_threads=threading.active_count(),
        n_children=len(process.children(recursive=True)),
        memory_bytes=process.memory_info().rss,
    )


class SoakReport(msgspec.Struct, kw_only=True):
    """Counts of a run of the benchmark.

    Attributes:
        game_s: Game time, all games together.
        wall_s: Wall time.
        n_steps: Steps, all games together.
        n_episodes: Episodes that ended without a failure.
        inflicted: Injected faults, by name.
        failures: Episodes that a failure ended, by error class.
        n_game_restarts: Restarted games.
        reset_retries: Failed attempts of resets, by state or error class.
        longest_step_s: Wall time of the longest step, including restarts of games.
        before: Resources before the first game.
        warm: Resources with all games, after a fifth of the time.
        last: Resources with all games, at the end.
        after: Resources after all games were closed.
    """

    game_s: float = 0.0
    wall_s: float = 0.0
    n_steps: int = 0
    n_episodes: int = 0
    inflicted: Counter[str] = msgspec.field(default_factory=Counter)
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    n_game_restarts: int = 0
    reset_retries: Counter[str] = msgspec.field(default_factory=Counter)
    longest_step_s: float = 0.0
    before: ProcessResources = msgspec.field(default_factory=process_resources)
    warm: ProcessResources | None = None
    last: ProcessResources | None = None
    after: ProcessResources | None = None

    @property
    def leaks(self) -> dict[str, int]:
        """Resources other than memory that were not released after all games were closed."""
        return _grown(self.before, self.after or self.before)


class SoakSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_games: Parallel games.
        game_hours: Game time, all games together.
        fault_rate: Faults per hour of game time of each game.
        seed: Seed of faults and actions.
        faults: Names of faults in `benchmarks.fault_injection.FAULTS`.
    """

    n_games: int = 4
    game_hours: float = 6.0
    fault_rate: float = 12.0
    seed: int = 0
    faults: tuple[str, ...] = tuple(FAULTS)

    @classmethod
    def quick(cls) -> SoakSettings:
        """Return settings for a run of a minute."""
        return cls(n_games=2, game_hours=0.05, fault_rate=240.0)


def measure_soak(settings: SoakSettings) -> list[Result]:
    """Run the built-in game in its window for hours of game time with random faults.

    Raises:
        SiphonError: The environment did not recover from a fault.
    """

    def make(n_games: int) -> DuelVectorEnv:
        return ArenaLiveVectorEnv(
            n_games,
            AutoresetMode.SAME_STEP,
            episodes="in_place",
            random_pose=True,
            size_px=SIZE_PX,
            step_deadline_s=STEP_DEADLINE_S,
        )

    return as_results(soak(make, settings), settings)


def soak(make: Callable[[int], DuelVectorEnv], settings: SoakSettings) -> SoakReport:
    """Play random allowed actions in several games, and inject faults at random times.

    Args:
        make: Creates an environment with a number of games, ``"SameStep"`` autoreset and ``on_failure="truncate"``.
        settings: Settings of the benchmark.

    Returns:
        The counts of the run.

    Raises:
        SiphonError: The environment did not recover from a fault.
    """
    report = SoakReport()
    rng = np.random.default_rng(settings.seed)
    n_rounds = max(round(settings.game_hours * S_PER_H / DECISION_S / settings.n_games), 1)
    warm_round = int(n_rounds * WARM_PART)
    started = time.monotonic()
    with closing(make(settings.n_games)) as env:
        _, info = env.reset(seed=settings.seed)
        for i in with_progress(range(n_rounds), "soaking"):
            _inject_faults(env, settings, rng, report)
            info = _play(env, info["action_mask"], rng, report)
            if i == warm_round:
                report.warm = process_resources()
        report.last = process_resources()
        for one in env.envs:
            report.n_game_restarts += one.episode.log.n_game_restarts
            report.reset_retries += one.episode.log.reasons
    report.wall_s = time.monotonic() - started
    report.after = _released(report.before)
    report.game_s = report.n_steps * DECISION_S
    return report


def _grown(before: ProcessResources, after: ProcessResources) -> dict[str, int]:
    """Return by how much resources other than memory have grown."""
    names = ("n_descriptors", "n_threads", "n_children")
    grown = {name: getattr(after, name) - getattr(before, name) for name in names}
    return {name: number for name, number in grown.items() if number > 0}


def _released(before: ProcessResources) -> ProcessResources:
    """Return the resources when they are those of before, or after a time: a thread that ends may still be counted."""
    deadline = time.monotonic() + RELEASE_S
    while _grown(before, now := process_resources()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


def _inject_faults(env: DuelVectorEnv, settings: SoakSettings, rng: np.random.Generator, report: SoakReport) -> None:
    share = settings.fault_rate * DECISION_S / S_PER_H
    for i in np.flatnonzero(rng.random(settings.n_games) < share).tolist():
        name = settings.faults[rng.integers(len(settings.faults))]
        if inject_fault(env.envs[i], name):
            report.inflicted[name] += 1


def _play(env: DuelVectorEnv, masks: Any, rng: np.random.Generator, report: SoakReport) -> dict[str, Any]:
    """Step all games and return the info."""
    actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
    started = time.monotonic()
    _, _, terminated, truncated, info = env.step(actions)
    report.longest_step_s = max(report.longest_step_s, time.monotonic() - started)
    report.n_steps += env.num_envs
    failures = info.get("final_info", {}).get("failure", {}).get("error", ())
    n_failures = 0
    for failure in failures:
        if failure:
            report.failures[failure] += 1
            n_failures += 1
    report.n_episodes += int((terminated | truncated).sum()) - n_failures
    return info


def as_results(report: SoakReport, settings: SoakSettings) -> list[Result]:
    """Return the report as tables."""
    last, warm, after = report.last or report.before, report.warm or report.before, report.after or report.before
    counts: list[Row] = [
        {"what": "game time, all games (h)", "number": report.game_s / S_PER_H},
        {"what": "wall time (h)", "number": report.wall_s / S_PER_H},
        {"what": "steps", "number": report.n_steps},
        {"what": "episodes that ended by themselves", "number": report.n_episodes},
        {"what": "faults", "number": sum(report.inflicted.values())},
        {"what": "episodes that a failure ended", "number": sum(report.failures.values())},
        {"what": "games started anew", "number": report.n_game_restarts},
        {"what": "tries of resets that failed", "number": sum(report.reset_retries.values())},
        {"what": "longest step, a new game included (s)", "number": report.longest_step_s},
    ]
    faults: list[Row] = [{"kind": "fault", "what": name, "number": report.inflicted[name]} for name in settings.faults]
    faults += [{"kind": "episode ended by", "what": name, "number": n} for name, n in sorted(report.failures.items())]
    faults += [{"kind": "reset retried for", "what": n, "number": k} for n, k in sorted(report.reset_retries.items())]
    moments = {"before": report.before, "all games, warm": warm, "all games, at the end": last, "all closed": after}
    leaks: list[Row] = [
        {
            "moment": name,
            "descriptors": one.n_descriptors,
            "threads": one.n_threads,
            "children": one.n_children,
            "memory (MiB)": one.memory_bytes / 2**20,
        }
        for name, one in moments.items()
    ]
    title = f"{settings.n_games} games at once in lockstep, {settings.fault_rate:g} faults an hour of each game"
    return [
        Result(title=title, rows=counts),
        Result(title="What happened", rows=faults),
        Result(title="What this process held", rows=leaks),
    ]
