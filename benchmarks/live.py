"""``python -m benchmarks live``: steps and resets of the live environment, of several games, and of EldenGym."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.live_peer import measure_peer
from benchmarks.result import Result, Row
from benchmarks.timing import with_progress
from soulslab.envs.game.timing import StepTimes
from soulslab.envs.registration import ARENA_LIVE_ID

#: Observations, with their options.
OBSERVATIONS: dict[str, dict[str, Any]] = {
    "74 features": {"observation": "features"},
    "84x84 grey": {"observation": "pixels", "pixels": {"width_px": 84, "height_px": 84, "is_grey": True}},
}
PARTS = {
    "keys": "input_s",
    "the game's own time": "advance_s",
    "reading memory": "snapshot_s",
    "taking the picture": "capture_s",
    "features, masks, rewards": "features_s",
}
GAME = "the game's own time"


class LiveBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_steps: Steps per measurement.
        n_resets: Resets of each kind.
        games: Numbers of parallel games.
        n_peer_steps: Steps of EldenGym and of our environment; 0 omits both.
        n_peer_resets: Resets of EldenGym; each takes more than half a minute.
        seed: Seed of the actions.
    """

    n_steps: int = 1500
    n_resets: int = 30
    games: tuple[int, ...] = (1, 2, 4)
    n_peer_steps: int = 300
    n_peer_resets: int = 2
    seed: int = 0

    @classmethod
    def quick(cls) -> LiveBenchSettings:
        """Return settings for rough numbers; EldenGym is omitted."""
        return cls(n_steps=100, n_resets=3, games=(1, 2), n_peer_steps=0, n_peer_resets=0)


def measure_live(settings: LiveBenchSettings) -> list[Result]:
    """Measure steps, resets, several games, and EldenGym.

    Raises:
        SiphonError: Xvfb is not installed, or the window does not start.
        MissingDependencyError: EldenGym is not installed.
    """
    results = [_measure_steps(kind, options, settings) for kind, options in OBSERVATIONS.items()]
    results += [_measure_games(settings), _measure_resets(settings)]
    if settings.n_peer_steps:
        results.append(measure_peer(settings.n_peer_steps, settings.n_peer_resets, settings.seed))
    return results


@contextmanager
def _open(**options: Any) -> Iterator[gymnasium.Env[Any, Any]]:
    env = gymnasium.make(ARENA_LIVE_ID, disable_env_checker=True, **{"episodes": "demo", **options})
    with closing(env):
        yield env


def _measure_steps(kind: str, options: dict[str, Any], settings: LiveBenchSettings) -> Result:
    """Measure the parts of the steps of one game in lockstep."""
    rng = np.random.default_rng(settings.seed)
    times, whole = StepTimes(), []
    with _open(**options) as env:
        env.unwrapped.step_times = times  # type: ignore[attr-defined]
        _, info = env.reset(seed=settings.seed)
        for _ in with_progress(range(settings.n_steps), f"steps, {kind}"):
            action = _open_action(info["action_mask"], rng)
            start = time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            whole.append(time.perf_counter() - start)
            if terminated or truncated:
                env.unwrapped.step_times = None  # type: ignore[attr-defined]
                _, info = env.reset()
                env.unwrapped.step_times = times  # type: ignore[attr-defined]
    parts = {name: 1e3 * np.array(getattr(times, field)) for name, field in PARTS.items()}
    if "pixels" not in options:
        del parts["taking the picture"]
    all_ms = 1e3 * np.array(whole)
    # The overhead of a step is the sum of its parts without the game.
    ours = [values for name, values in parts.items() if name != GAME and values.size]
    parts["all but the game"] = np.sum(ours, axis=0)
    parts["the whole step"] = all_ms
    rows = [_quantiles(name, values) for name, values in parts.items() if values.size and values.any()]
    title = f"A step of 100 ms in lockstep, {kind}: {1e3 / all_ms.mean():.0f} steps/s, {all_ms.size} steps"
    return Result(title=title, rows=rows)


def _quantiles(name: str, ms: NDArray[np.float64]) -> Row:
    p50, p95, p99 = np.percentile(ms, (50, 95, 99)).tolist()
    return {"part": name, "p50 (ms)": p50, "p95 (ms)": p95, "p99 (ms)": p99}


def _measure_games(settings: LiveBenchSettings) -> Result:
    """Step several games together, in lockstep."""
    rng = np.random.default_rng(settings.seed)
    rows: list[Row] = []
    alone: dict[str, float] = {}
    for n_games in settings.games:
        for kind, options in OBSERVATIONS.items():
            envs = gymnasium.make_vec(
                ARENA_LIVE_ID,
                num_envs=n_games,
                vectorization_mode="vector_entry_point",
                autoreset_mode="same_step",
                episodes="demo",
                **options,
            )
            with closing(envs):
                _, info = envs.reset(seed=settings.seed)
                start = time.perf_counter()
                for _ in range(settings.n_steps // n_games):
                    _, _, _, _, info = envs.step(np.array([_open_action(mask, rng) for mask in info["action_mask"]]))
                rate = n_games * (settings.n_steps // n_games) / (time.perf_counter() - start)
            alone.setdefault(kind, rate)
            row: Row = {"games": n_games, "observation": kind, "steps/s": rate}
            rows.append(row | {"times real time": rate / 10, "beside one": rate / alone[kind]})
    return Result(title="Several games at once in lockstep, steps of 100 ms, resets included", rows=rows)


def _measure_resets(settings: LiveBenchSettings) -> Result:
    """Measure resets after a few steps, in place and with a new fight."""
    rows: list[Row] = []
    rng = np.random.default_rng(settings.seed)
    for kind in ("in_place", "demo"):
        with _open(episodes=kind, phase="1", random_pose=True) as env:
            _, info = env.reset(seed=settings.seed)
            found = []
            for _ in with_progress(range(settings.n_resets), f"resets, {kind}"):
                for _ in range(20):
                    _, _, terminated, truncated, info = env.step(_open_action(info["action_mask"], rng))
                    if terminated or truncated:
                        break
                start = time.perf_counter()
                _, info = env.reset()
                found.append(1e3 * (time.perf_counter() - start))
        name = "in place" if kind == "in_place" else "a fresh fight"
        rows.append(_quantiles(name, np.array(found)) | {"longest (ms)": max(found), "resets": len(found)})
    return Result(title="Resets in lockstep, wall time", rows=rows)


def _open_action(mask: NDArray[np.bool_], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(mask)))
