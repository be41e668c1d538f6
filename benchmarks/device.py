"""Updates per second of PPO and Rainbow on each device of this machine, for features and for pixels.

An update of PPO covers a whole rollout, an update of Rainbow one batch. Acting and drawing from the replay buffer use
the CPU in every case and are not measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final, TypeAlias

import msgspec
import numpy as np
import torch

from benchmarks.result import Result, Row
from benchmarks.timing import interleaved
from benchmarks.updates import made_up_rows
from soulslab.learn.inputs import PixelShape
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.ppo_algorithm import PPO
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import StepShape
from soulslab.learn.settings import NetworkSettings, PPOSettings, ReplaySettings
from soulslab.learn.torch_device import CPU, one_core
from soulslab.version import VERSION

Case: TypeAlias = tuple[str, str, str]
"""Algorithm, inputs and device."""

N_FEATURES: Final = 74
N_ACTIONS: Final = 20
PIXELS: Final = PixelShape(84, 84, 1)
FRAME_STACK: Final = 4
_PPO: Final = {"features": PPOSettings(n_steps=64), "pixels": PPOSettings(n_steps=128, minibatch_size=128)}
_N_ENVS: Final = {"features": 256, "pixels": 4}


class DeviceBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_updates: Updates of Rainbow per measurement; of PPO there is one.
        n_rounds: Number of measurements.
    """

    n_updates: int = 100
    n_rounds: int = 5

    def quick(self) -> DeviceBenchSettings:
        """Return settings for a short run."""
        return DeviceBenchSettings(n_updates=5, n_rounds=1)


def measure_devices(settings: DeviceBenchSettings) -> list[Result]:
    """Measure updates per second on the CPU and, if torch can use one, on the GPU."""
    with one_core():
        cases = {case: update for device in find_devices() for case, update in _updates(device)}
        for update in cases.values():
            update()  # compiles kernels and allocates memory
        rates = interleaved(
            {case: _rate(update, 1 if case[0] == "PPO" else settings.n_updates) for case, update in cases.items()},
            settings.n_rounds,
        )
    rows = [_row(case, found, rates[case[0], case[1], CPU.type]) for case, found in rates.items()]
    return [Result(title=f"updates per second by device, {settings.n_rounds} rounds in turns", rows=rows)]


def find_devices() -> list[torch.device]:
    """Return the CPU and, if torch can use one, the GPU."""
    return [CPU, *([torch.device("cuda")] if torch.cuda.is_available() else [])]


def _row(case: Case, rates: list[float], cpu_rates: list[float]) -> Row:
    algorithm, inputs, device = case
    return {
        "algorithm": algorithm,
        "inputs": inputs,
        "device": device,
        "updates/s (median)": median(rates),
        "ratio to cpu": median(rate / cpu for rate, cpu in zip(rates, cpu_rates, strict=True)),
    }


def _rate(update: Callable[[], object], n_updates: int) -> Callable[[], float]:
    """Return a measurement of updates per second."""

    def measure() -> float:
        _wait_for_gpu()
        start = time.perf_counter()
        for _ in range(n_updates):
            update()
        _wait_for_gpu()
        return n_updates / (time.perf_counter() - start)

    return measure


def _wait_for_gpu() -> None:
    """Wait until the GPU has executed all operations, which it does in the background."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _updates(device: torch.device) -> Iterator[tuple[Case, Callable[[], object]]]:
    """Yield the updates of each algorithm and kind of inputs on a device."""
    for inputs in ("features", "pixels"):
        pixels, n_features = (PIXELS, 0) if inputs == "pixels" else (None, N_FEATURES)
        yield ("PPO", inputs, device.type), _ppo_update(inputs, n_features, pixels, device)
        yield ("Rainbow", inputs, device.type), _rainbow_update(n_features, pixels, device)


def _ppo_update(inputs: str, n_features: int, pixels: PixelShape | None, device: torch.device) -> Callable[[], object]:
    header = PolicyHeader(
        env_id="benchmark",
        env_options={},
        n_features=n_features,
        n_actions=N_ACTIONS,
        pixels=pixels,
        frame_stack=FRAME_STACK if pixels else 1,
        network=NetworkSettings(),
        soulslab=VERSION,
        commit="",
    )
    policy = Policy(header, torch.Generator().manual_seed(0), device)
    learner = PPO(_PPO[inputs], policy, _N_ENVS[inputs], torch.Generator().manual_seed(0))
    return lambda: learner.update(0.0, 0)


def _rainbow_update(n_features: int, pixels: PixelShape | None, device: torch.device) -> Callable[[], object]:
    frame_stack = FRAME_STACK if pixels else 1
    header = QHeader(
        env_id="benchmark",
        env_options={},
        n_features=n_features,
        n_actions=N_ACTIONS,
        pixels=pixels,
        frame_stack=frame_stack,
        network=QNetworkSettings(),
        soulslab=VERSION,
        commit="",
    )
    shape = StepShape(n_features=n_features, n_actions=N_ACTIONS, pixels=pixels, frame_stack=frame_stack)
    settings, rng = QLearningSettings(), np.random.default_rng(0)
    memory = ReplaySettings(capacity=2_000)
    replay = ReplayBuffer(shape, memory, 1)
    replay.append(made_up_rows(shape, memory.capacity, rng))
    batch = replay.make_batch(settings.batch_size)
    replay.sample(batch, n_steps=3, gamma=0.99, beta=0.4, rng=rng)
    learner = Learner(settings, memory, QPolicy(header, torch.Generator().manual_seed(0), device), replay, rng)
    return lambda: learner.learn(batch)
