"""Interleaved measurements, so that a busy machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from rich.console import Console
from rich.progress import track

K = TypeVar("K")
T = TypeVar("T")


def interleaved(measurements: Mapping[K, Callable[[], float]], n_rounds: int) -> dict[K, list[float]]:
    """Take each measurement once per round, the rounds one after another.

    Args:
        measurements: Functions that return a measured value.
        n_rounds: Number of rounds.

    Returns:
        The values of each measurement, one per round.
    """
    found: dict[K, list[float]] = {name: [] for name in measurements}
    for _ in with_progress(range(n_rounds), "measuring"):
        for name, measure in measurements.items():
            found[name].append(measure())
    return found


def seconds(action: Callable[[], object]) -> float:
    """Return the time of a call (s)."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ms_per_call(action: Callable[[], object], n_calls: int) -> float:
    """Return the mean time of a call (ms) over a number of calls."""

    def repeat() -> None:
        for _ in range(n_calls):
            action()

    return seconds(repeat) / n_calls * 1000


def with_progress(items: Iterable[T], what: str) -> Iterable[T]:
    """Iterate with a progress bar on standard error."""
    return track(items, description=what, console=Console(stderr=True), transient=True)
