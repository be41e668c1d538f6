"""``python -m benchmarks arena``: steps per second of the built-in fight, and the shares of its parts.

A step is one decision of one fight: 6 ticks of rules, the 74 features, the mask, the reward, and a new fight after
a finished one. The actions are sampled before the measurement, uniformly from the allowed ones. Equal seeds and actions
give equal fights, so the recorded actions are used in each measurement. Everything runs on one core, and speeds are
those per second of processor time, because other programs on the machine change the wall time.

Bosses drawn from intervals, latency, and late and wrong observations are measured with the same actions; one that such
a fight masks is carried out as nothing.

The first table contains the time of a new process until its first step: with compilation, and with the cached kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.result import Result, Row
from benchmarks.timing import interleaved
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.uncertainty import Uncertainty, numbers_of, uncertainty_path
from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.config import dump_settings
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.rewards import PRESETS
from soulslab.errors import BenchmarkError

BOSS = "judge"
N_ENVS = (1, 64, 1024, 4096)
#: Targets for the steps per second on one core, by N, with the default options.
TARGETS = {1: 150_000, 1024: 1_500_000}
SEED = 0
#: Fights side by side in a training against a fitted boss, and the target for the steps per second on one core.
N_DRAWN_ENVS = 256
DRAWN_TARGET = 1_000_000
#: Half the width of the interval of each number of the boss, as a share of the number.
INTERVAL_SHARE = 0.1
#: The options of a training against a fitted boss, in the order of the table.
DRAWN: dict[str, dict[str, Any]] = {
    "the boss file": {},
    "bosses drawn from intervals": {"boss_intervals": (1.0, 1.0)},
    "drawn bosses, latency, late and wrong observations": {
        "boss_intervals": (1.0, 1.0),
        "latency_ms": (0.0, 120.0),
        "late_share": 0.05,
        "position_noise_m": 0.1,
    },
}
#: Decisions before the recording, after which the fights are not synchronous.
WARM_UP_STEPS = 200
MIN_STEPS_PER_ENV = 40
N_RESETS = 1024
#: Program that prints the processor time until its first step (s).
FIRST_STEP = f"""
import time
import gymnasium, soulslab
env = gymnasium.make("{ARENA_ID}")
env.reset(seed=0)
env.step(0)
print(time.process_time())
"""

#: Measured action and number of fights: a step of the environment with and without copies, a step of the simulator
#: with and without features, a call without fights, a reset, a step with the options of `DRAWN`.
Key = tuple[str, int]


class ArenaBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_steps: Steps per measurement, all fights together; at least 40 per fight.
        n_rounds: Number of measurements; many short ones are robust against other load on the machine.
    """

    n_steps: int = 50_000
    n_rounds: int = 30

    @classmethod
    def quick(cls) -> ArenaBenchSettings:
        """Return settings for a short run."""
        return cls(n_steps=10_000, n_rounds=15)


class Recording(msgspec.Struct, frozen=True):
    """Valid actions of N fights from a seed.

    Attributes:
        warm_up: (W, N) int64, actions before the measured part.
        actions: (T, N) int64, actions of the measured part.
        n_ended: Fights that end in the measured part.
    """

    warm_up: NDArray[np.int64]
    actions: NDArray[np.int64]
    n_ended: int

    @property
    def n_envs(self) -> int:
        """N."""
        return int(self.actions.shape[1])


def measure_arena(settings: ArenaBenchSettings) -> list[Result]:
    """Measure the compilation, the speed of the vector environment and the shares of its parts."""
    compilation = _compilation_rows()
    recordings = [record(n, max(settings.n_steps // n, MIN_STEPS_PER_ENV)) for n in N_ENVS]
    timers: dict[Key, Callable[[], float]] = {("call", 0): _call_timer(), ("reset", N_RESETS): _reset_timer()}
    for recording in recordings:
        n = recording.n_envs
        timers["copied step", n] = environment_timer(recording, copy=True)
        timers["step", n] = environment_timer(recording, copy=False)
        timers["kernel", n] = kernel_timer(recording, features=True)
        timers["rules", n] = kernel_timer(recording, features=False)
    timers |= drawn_timers(record(N_DRAWN_ENVS, max(settings.n_steps // N_DRAWN_ENVS, MIN_STEPS_PER_ENV)))
    times = interleaved(timers, settings.n_rounds)
    typical = {key: median(values) for key, values in times.items()}
    best = {key: min(values) for key, values in times.items()}
    return [
        Result(title="from the start of Python to the first step", rows=compilation),
        Result(
            title="steps per second of one core through the vector API (median)", rows=_speed_rows(recordings, typical)
        ),
        Result(
            title=f"steps per second of one core against a fitted boss, {N_DRAWN_ENVS} fights side by side (median)",
            rows=_drawn_rows(typical),
        ),
        Result(title="shares of the time of a step (best of all rounds)", rows=_share_rows(recordings, best)),
    ]


def processor_s(action: Callable[[], object]) -> float:
    """Return the processor time of a call (s)."""
    start = time.process_time()
    action()
    return time.process_time() - start


def record(n_envs: int, n_steps: int) -> Recording:
    """Play N fights with actions sampled uniformly from the allowed ones, and record the actions."""
    simulator = _simulator(n_envs, features=False)
    rng = np.random.default_rng(SEED)
    warm_up = np.zeros((WARM_UP_STEPS, n_envs), np.int64)
    actions = np.zeros((n_steps, n_envs), np.int64)
    n_ended = 0
    for part in (warm_up, actions):
        n_ended = 0
        for row in part:
            row[:] = np.argmax(rng.random((n_envs, N_ACTIONS), np.float32) * simulator.masks, axis=1)
            n_ended += simulator.step(row)
    return Recording(warm_up, actions, n_ended)


def environment_timer(
    recording: Recording, *, copy: bool, options: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[], float]:
    """Return a measurement of the recorded steps through the vector API (s per step of one fight)."""
    env = gymnasium.make_vec(
        ARENA_ID,
        num_envs=recording.n_envs,
        vectorization_mode="vector_entry_point",
        **{"boss": BOSS, "random_pose": True, "autoreset_mode": "same_step", "copy": copy, **options},
    )
    arena: Any = env.unwrapped
    env.reset(seed=SEED)
    for actions in recording.warm_up:
        env.step(actions)
    state = arena.get_state()
    steps = list(recording.actions)

    def play() -> None:
        for actions in steps:
            env.step(actions)

    def measure() -> float:
        arena.set_state(state)
        return processor_s(play) / recording.actions.size

    return measure


def drawn_timers(recording: Recording) -> dict[Key, Callable[[], float]]:
    """Return the measurements with the options of `DRAWN`, against the boss with an interval of each of its numbers."""
    boss = load_boss(BOSS, list(load_knight().knock_backs))
    intervals = {
        place: ((1 - INTERVAL_SHARE) * number, (1 + INTERVAL_SHARE) * number)
        for place, number in numbers_of(boss)
        if not place.startswith("ground") and number > 0
    }
    with TemporaryDirectory(prefix="soulslab-bench-") as folder:
        path = Path(folder) / "boss.toml"
        path.write_text(dump_settings(boss), encoding="utf-8")
        uncertainty_path(path).write_text(dump_settings(Uncertainty(intervals=intervals)), encoding="utf-8")
        return {
            (name, recording.n_envs): environment_timer(recording, copy=True, options={"boss": path, **options})
            for name, options in DRAWN.items()
        }


def kernel_timer(recording: Recording, *, features: bool) -> Callable[[], float]:
    """Return a measurement of the recorded steps by the simulator alone (s per step of one fight)."""
    simulator = _simulator(recording.n_envs, features=features)
    for actions in recording.warm_up:
        simulator.step(actions)
    start = simulator.duels.copy()
    steps = list(recording.actions)

    def play() -> None:
        for actions in steps:
            simulator.step(actions)

    def measure() -> float:
        simulator.duels[:] = start
        return processor_s(play) / recording.actions.size

    return measure


def _simulator(n_envs: int, *, features: bool) -> Simulator:
    """Return the simulator of the environment, with or without features."""
    options = FightOptions(random_pose=True, features=features, weights=PRESETS["soulsgym"])
    simulator = Simulator(load_boss(BOSS, list(load_knight().knock_backs)), n_envs, options)
    everyone = np.ones(n_envs, np.bool_)
    simulator.seed(SEED + np.arange(n_envs, dtype=np.uint64), everyone)
    simulator.reset(everyone)
    return simulator


def _call_timer() -> Callable[[], float]:
    """Return a measurement of a call into the kernel without fights (s per call)."""
    simulator, actions, n_calls = _simulator(0, features=True), np.zeros(0, np.int64), 10_000

    def play() -> None:
        for _ in range(n_calls):
            simulator.step(actions)

    return lambda: processor_s(play) / n_calls


def _reset_timer() -> Callable[[], float]:
    """Return a measurement of a reset (s per fight)."""
    simulator, everyone = _simulator(N_RESETS, features=False), np.ones(N_RESETS, np.bool_)
    return lambda: processor_s(lambda: simulator.reset(everyone)) / N_RESETS


def _compilation_rows() -> list[Row]:
    """Measure a new process until its first step, with an empty and with a filled cache of compiled kernels."""
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        for cache in ("empty", "filled"):
            command = [sys.executable, "-c", FIRST_STEP]
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            started = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            wall_s = time.perf_counter() - started
            if done.returncode != 0:
                raise BenchmarkError("the first step", f"ended with exit status {done.returncode}", done.stderr)
            rows.append({"kernel cache": cache, "wall time (s)": wall_s, "processor time (s)": float(done.stdout)})
    return rows


def _speed_rows(recordings: list[Recording], times_s: dict[Key, float]) -> list[Row]:
    rows: list[Row] = []
    for n in (recording.n_envs for recording in recordings):
        target = TARGETS.get(n)
        rate = 1.0 / times_s["copied step", n]
        rows.append(
            {
                "fights side by side": n,
                "steps/s": round(rate),
                "steps/s with copy=False": round(1.0 / times_s["step", n]),
                "target (steps/s)": target,
                "reached": rate >= target if target is not None else None,
            }
        )
    return rows


def _drawn_rows(times_s: dict[Key, float]) -> list[Row]:
    rows: list[Row] = []
    for name, options in DRAWN.items():
        rate = 1.0 / times_s[name, N_DRAWN_ENVS]
        target = DRAWN_TARGET if options else None
        rows.append(
            {
                "fights against": name,
                "steps/s": round(rate),
                "target (steps/s)": target,
                "reached": rate >= target if target is not None else None,
            }
        )
    return rows


def _share_rows(recordings: list[Recording], times_s: dict[Key, float]) -> list[Row]:
    """Return the shares of the parts of a step, from the differences of measurements without them.

    The share of the observation is the difference between the kernel with and without features. Resets are timed
    separately and counted. The call into the kernel without fights counts as Python. The rest of the kernel is the
    rules, including mask and reward.
    """
    rows: list[Row] = []
    for recording in recordings:
        n = recording.n_envs
        step = times_s["copied step", n]
        reset = times_s["reset", N_RESETS] * recording.n_ended / recording.actions.size
        observation = times_s["kernel", n] - times_s["rules", n]
        rules = times_s["rules", n] - times_s["call", 0] / n - reset
        rows.append(
            {
                "fights side by side": n,
                "ns per step": 1e9 * step,
                "rules (%)": 100 * rules / step,
                "observation (%)": 100 * observation / step,
                "reset (%)": 100 * reset / step,
                "Python and copies (%)": 100 * (step - rules - observation - reset) / step,
            }
        )
    return rows
