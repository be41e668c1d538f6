"""``python -m benchmarks soak``: hours of game time in several games at once, with faults at random."""

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

from benchmarks.fault_injection import FAULTS, inflict
from benchmarks.result import Result, Row
from benchmarks.timing import with_progress
from soulslab.arena.state import DECISION_S
from soulslab.envs.live.vector import ArenaLiveVectorEnv, DuelVectorEnv

S_PER_H = 3600.0
#: What the processor's memory is counted from: by then each part of the process has been used once.
WARM_PART = 0.2
#: A game that takes longer for a tenth of a second counts as frozen.
STEP_DEADLINE_S = 3.0
#: Nobody looks, and a small window leaves more time to the rest.
SIZE_PX = (128, 72)


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What a process holds of the system.

    Attributes:
        n_descriptors: Open files, sockets and pipes.
        n_threads: Its threads.
        n_children: Processes that it started, and those that these did.
        memory_bytes: Its memory, without that of its children.
    """

    n_descriptors: int
    n_threads: int
    n_children: int
    memory_bytes: int


def held() -> Held:
    """Return what this process holds now."""
    process = psutil.Process()
    return Held(
        n_descriptors=process.num_fds(),
        n_threads=threading.active_count(),
        n_children=len(process.children(recursive=True)),
        memory_bytes=process.memory_info().rss,
    )


class SoakReport(msgspec.Struct, kw_only=True):
    """What a soak came to.

    Attributes:
        game_s: Game time that was played, all games together.
        wall_s: Wall time.
        n_steps: Steps, all games together.
        n_episodes: Episodes that came to an end of their own.
        inflicted: Faults, by name.
        failures: Episodes that a failure ended, by the class of the error.
        n_game_restarts: Games that were started anew.
        reset_retries: Tries of resets that failed, by state or class of the error.
        longest_step_s: Wall time of the longest step, the start of a new game included.
        before: What this process held before the first game.
        warm: The same with all games, after a fifth of the time.
        last: The same with all games, at the end.
        after: The same once all were closed.
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
    before: Held = msgspec.field(default_factory=held)
    warm: Held | None = None
    last: Held | None = None
    after: Held | None = None

    @property
    def leaks(self) -> dict[str, int]:
        """What is held after all games were closed and was not before them; without memory."""
        after = self.after or self.before
        names = ("n_descriptors", "n_threads", "n_children")
        grown = {name: getattr(after, name) - getattr(self.before, name) for name in names}
        return {name: number for name, number in grown.items() if number > 0}


class SoakSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is played.

    Attributes:
        n_games: Games at once.
        game_hours: Game time, all games together.
        fault_rate: Faults per hour of game time of each game.
        seed: Of faults and actions.
        faults: Their names (`benchmarks.fault_injection.FAULTS`).
    """

    n_games: int = 4
    game_hours: float = 6.0
    fault_rate: float = 12.0
    seed: int = 0
    faults: tuple[str, ...] = tuple(FAULTS)

    @classmethod
    def quick(cls) -> SoakSettings:
        """Return settings for a minute."""
        return cls(n_games=2, game_hours=0.05, fault_rate=240.0)


def measure_soak(settings: SoakSettings) -> list[Result]:
    """Play the built-in game in its window for hours of game time, and let faults happen.

    Raises:
        SiphonError: A fault was not recovered from.
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
    """Play random open actions in several games, and let faults happen at random moments.

    Args:
        make: Makes an environment of so many games, with ``"SameStep"`` autoreset and ``on_failure="truncate"``.
        settings: How much.

    Returns:
        Counts of all that happened.

    Raises:
        SiphonError: A fault was not recovered from.
    """
    report = SoakReport()
    rng = np.random.default_rng(settings.seed)
    n_rounds = max(round(settings.game_hours * S_PER_H / DECISION_S / settings.n_games), 1)
    warm_round = int(n_rounds * WARM_PART)
    started = time.monotonic()
    with closing(make(settings.n_games)) as env:
        _, info = env.reset(seed=settings.seed)
        for i in with_progress(range(n_rounds), "soaking"):
            _inflict(env, settings, rng, report)
            info = _play(env, info["action_mask"], rng, report)
            if i == warm_round:
                report.warm = held()
        report.last = held()
        for one in env.envs:
            report.n_game_restarts += one.episode.log.n_game_restarts
            report.reset_retries += one.episode.log.reasons
    report.after = held()
    report.wall_s = time.monotonic() - started
    report.game_s = report.n_steps * DECISION_S
    return report


def _inflict(env: DuelVectorEnv, settings: SoakSettings, rng: np.random.Generator, report: SoakReport) -> None:
    share = settings.fault_rate * DECISION_S / S_PER_H
    for i in np.flatnonzero(rng.random(settings.n_games) < share).tolist():
        name = settings.faults[rng.integers(len(settings.faults))]
        if inflict(env.envs[i], name):
            report.inflicted[name] += 1


def _play(env: DuelVectorEnv, masks: Any, rng: np.random.Generator, report: SoakReport) -> dict[str, Any]:
    """Play a step of all games; return its info."""
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
    """Return a report as tables."""
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
