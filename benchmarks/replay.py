"""``python -m benchmarks replay``: memory, sampling and saving of the replay buffer.

The shapes are those of the built-in fight: 74 features and 20 actions, one environment. Measurements of sampling are
interleaved with ``numpy.take`` of as many random rows, the cost of fetching the rows alone, so that a busy machine
affects both. Sampling is measured in processor time, as it never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.result import Result, Row
from benchmarks.timing import interleaved, seconds
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.replay_store import ReplayStore
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.settings import ReplaySettings
from soulslab.learn.torch_device import one_core

SHAPE: Final = StepShape(n_features=74, n_actions=20)
N_BYTES_TARGET: Final = 2**30
DRAW_TARGET_US: Final = 40.0
"""Time to sample a batch by priority and to set its priorities."""

_EPISODE_STEPS: Final = 200
_BLOCK: Final = 50_000
_TAKE: Final = "numpy.take of 128 random rows"


class ReplayBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_stored: Steps in the buffer.
        n_new: Steps between two saves, five minutes at 15 a second.
        batch_size: Transitions per batch.
        n_draws: Batches per measurement.
        n_rounds: Number of measurements.
    """

    n_stored: int = 1_000_000
    n_new: int = 4_500
    batch_size: int = 64
    n_draws: int = 2_000
    n_rounds: int = 15

    def quick(self) -> ReplayBenchSettings:
        """Return settings for a short run."""
        return ReplayBenchSettings(n_stored=20_000, n_new=500, n_draws=50, n_rounds=2)


def measure_replay(settings: ReplayBenchSettings | None = None) -> list[Result]:
    """Measure the replay.

    Args:
        settings: Settings of the benchmark; the defaults if None.

    Returns:
        A table of draws, and one of memory and saves.
    """
    settings = settings or ReplayBenchSettings()
    with one_core():
        uniform, prioritised = (_filled(settings.n_stored, alpha) for alpha in (0.0, 0.5))
        draws = _draws(settings, uniform, prioritised)
        stored = f"{settings.n_stored:,} transitions of {SHAPE.n_features} features and {SHAPE.n_actions} actions"
        return [
            Result(title=f"draws of {settings.batch_size} of {stored} (medians of {settings.n_rounds})", rows=draws),
            Result(title=f"{stored}: memory, and saves", rows=[_saves(settings, prioritised)]),
        ]


def _draws(settings: ReplayBenchSettings, uniform: ReplayBuffer, prioritised: ReplayBuffer) -> list[Row]:
    """Measure sampling, with interleaved measurements."""
    rng = np.random.default_rng(1)
    n = settings.batch_size
    batch = uniform.make_batch(n)
    errors = torch.rand(64, n, generator=torch.Generator().manual_seed(1))
    rows = np.empty((2 * n, uniform.ring.bytes.shape[1]), np.uint8)

    def draw(buffer: ReplayBuffer, n_steps: int) -> None:
        buffer.sample(batch, n_steps=n_steps, gamma=0.99, beta=0.5, rng=rng)

    def learn(n_steps: int, i: int) -> None:
        draw(prioritised, n_steps)
        prioritised.set_priorities(batch.places, errors[i % len(errors)])

    def take() -> None:
        where = rng.integers(settings.n_stored, size=2 * n)
        np.take(uniform.ring.bytes, where, axis=0, out=rows, mode="clip")

    actions: dict[str, Callable[[int], None]] = {
        _TAKE: lambda _: take(),
        "uniform, n = 3": lambda _: draw(uniform, 3),
        "uniform, n = 10": lambda _: draw(uniform, 10),
        "by priority, n = 3": lambda _: draw(prioritised, 3),
        "by priority, n = 3, priorities set": lambda i: learn(3, i),
        "by priority, n = 10, priorities set": lambda i: learn(10, i),
    }

    def timed(action: Callable[[int], None]) -> Callable[[], float]:
        def measure() -> float:
            start = time.thread_time()
            for i in range(settings.n_draws):
                action(i)
            return (time.thread_time() - start) / settings.n_draws * 1e6

        measure()  # the first call compiles
        return measure

    found = interleaved({name: timed(action) for name, action in actions.items()}, settings.n_rounds)
    return [
        {
            "draw": name,
            "us": median(times),
            "least us": min(times),
            "draws/s": 1e6 / median(times),
            "times numpy.take": median(ours / theirs for ours, theirs in zip(times, found[_TAKE], strict=True)),
            "goal us": DRAW_TARGET_US if name == "by priority, n = 3, priorities set" else None,
        }
        for name, times in found.items()
    ]


def _saves(settings: ReplayBenchSettings, buffer: ReplayBuffer) -> Row:
    """Measure a full save, a save of new steps, and a load."""
    with TemporaryDirectory(prefix="soulslab-bench-") as name:
        folder = Path(name)
        store = ReplayStore(folder)
        full_s = seconds(lambda: store.save(buffer))
        buffer.append(_steps(settings.n_new, np.random.default_rng(2)))
        before = _n_bytes(folder)
        new_s = seconds(lambda: store.save(buffer))
        written = _n_bytes(folder) - before
        manifest, state = store.save(buffer), buffer.state()
        again = ReplayBuffer(SHAPE, ReplaySettings(capacity=settings.n_stored), 1)

        def load() -> None:
            ReplayStore(folder).load(again, manifest)
            again.load(state)

        load_s = seconds(load)
    return {
        "GiB in memory": buffer.n_bytes / 2**30,
        "goal GiB": N_BYTES_TARGET / 2**30,
        "full save s": full_s,
        "next save s": new_s,
        "MiB written by it": written / 2**20,
        "MiB of priorities": sum(array.nbytes for array in state.values()) / 2**20,
        "load s": load_s,
    }


def _filled(n: int, alpha: float) -> ReplayBuffer:
    """Return a full buffer with different priorities."""
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(SHAPE, ReplaySettings(capacity=n, alpha=alpha), 1)
    for start in range(0, n, _BLOCK):
        buffer.append(_steps(min(_BLOCK, n - start), rng))
    for places in np.array_split(buffer.ring.beginnings(), max(1, n // _BLOCK)):
        errors = rng.exponential(size=len(places)).astype(np.float32)
        buffer.set_priorities(torch.from_numpy(places), torch.from_numpy(errors))
    return buffer


def _steps(n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return n steps in episodes of 200 steps; some steps take several decisions."""
    rows = np.zeros(n, row_type(SHAPE))
    rows["features"] = rng.random((n, SHAPE.n_features), np.float32)
    rows["reward"] = rng.random(n)
    rows["action"] = rng.integers(SHAPE.n_actions, size=n)
    rows["n_decisions"] = rng.integers(1, 6, size=n)
    rows["blocked"] = rng.integers(256, size=rows["blocked"].shape)
    rows["is_first"][::_EPISODE_STEPS] = 1
    rows["outcome"][_EPISODE_STEPS - 1 :: _EPISODE_STEPS] = Outcome.TERMINATED
    return rows


def _n_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
