"""Updates per second of soulslab's learner, of its bare network, and of stable-baselines3's DQN, interleaved.

Our measurement includes everything: prioritised sampling, n-step returns, masks, and the update of the priorities. The
bare network is the same learner on one constant batch. ``DQN.train`` samples single steps uniformly and has no masks;
updates of its target network are not part of the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger

from benchmarks.learner_tables import at_least
from benchmarks.result import Result, Row
from benchmarks.timing import interleaved
from soulslab.learn.environment import Sizes, feature_names, make_vector, sizes
from soulslab.learn.rainbow.feature_encoding import resolve_bins
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import Outcome, StepShape, row_type
from soulslab.learn.torch_device import one_core
from soulslab.version import VERSION

BATCH_SIZE: Final = 64
THEIR_WIDTHS: Final = (128, 128)
MIN_RATIO_TO_PEER: Final = 1.5
MIN_RATIO_TO_BARE: Final = 0.75
_EPISODE_STEPS: Final = 25
_ACTIVE_SHARE: Final = 0.25
_BLOCKED_SHARE: Final = 0.4

OURS_SAME: Final = "soulslab, same shapes"
BARE_SAME: Final = "its bare network"
PEER: Final = "SB3 DQN.train()"
OURS_CONFIG: Final = "soulslab, its config"
BARE_CONFIG: Final = "the bare network of the config"


class SpeedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_stored: Steps in each replay buffer.
        n_updates: Updates per measurement.
        n_rounds: Number of measurements.
    """

    n_stored: int = 100_000
    n_updates: int = 400
    n_rounds: int = 15

    def quick(self) -> SpeedSettings:
        """Return settings for a short run."""
        return SpeedSettings(n_stored=2_000, n_updates=20, n_rounds=2)


def measure_speed(config: RainbowSettings, settings: SpeedSettings) -> list[Result]:
    """Measure updates per second, and compare them with the targets.

    Args:
        config: Config of our learner; its environment determines the shapes.
        settings: Settings of the benchmark.
    """
    rows, targets = measure_updates(config, settings)
    title = f"updates per second, {settings.n_rounds} interleaved rounds, one core"
    return [Result(title=title, rows=rows), Result(title="to reach", rows=targets)]


def measure_updates(config: RainbowSettings, settings: SpeedSettings) -> tuple[list[Row], list[Row]]:
    """Measure updates per second.

    Args:
        config: Config of our learner; its environment determines the shapes.
        settings: Settings of the benchmark.

    Returns:
        A row for each kind of update; and a row for each target with the measured value.
    """
    with closing(make_vector(config.env.id, 1, config.env.options)) as env:
        shapes = sizes(env)
        bins = resolve_bins(config.network.bins, shapes.n_features, feature_names(env), config.env.id)
    config = replace(config, network=replace(config.network, bins=bins))
    same = same_shapes(config)
    with one_core():
        ours, bare = _our_updates(same, shapes, settings)
        config_ours, config_bare = _our_updates(config, shapes, settings)
        peer = _peer_updates(config, settings)
        actions = {
            OURS_SAME: ours,
            BARE_SAME: bare,
            PEER: peer,
            OURS_CONFIG: config_ours,
            BARE_CONFIG: config_bare,
        }
        for update in actions.values():
            update(3)  # compiles, and allocates memory
        measurements = {name: _rate(update, settings.n_updates) for name, update in actions.items()}
        rates = interleaved(measurements, settings.n_rounds)
    rows = [_row(name, config if "config" in name else same, found) for name, found in rates.items()]
    return rows, compare_speed(rates)


def same_shapes(config: RainbowSettings) -> RainbowSettings:
    """Return the config with a network of stable-baselines3's size, and otherwise the same updates."""
    plain: dict[str, Any] = {"has_layer_norm": False, "bins": ()}
    network = replace(config.network, widths=THEIR_WIDTHS, n_quantiles=1, **plain)
    learner = replace(config.learner, batch_size=BATCH_SIZE, n_steps=4, munchausen=0.0)
    inputs = replace(config.inputs, previous_actions=0, time_left_decisions=0)
    memory = replace(config.replay, alpha=config.replay.alpha or 0.5)
    return replace(config, network=network, learner=learner, inputs=inputs, replay=memory)


def compare_speed(rates: dict[str, list[float]]) -> list[Row]:
    """Return the targets and the measured ratios: medians of the ratios per round."""
    to_peer = median(ours / theirs for ours, theirs in zip(rates[OURS_SAME], rates[PEER], strict=True))
    rows: list[Row] = [
        {
            "what": f"updates per second: soulslab / {PEER}",
            "measured": to_peer,
            "to reach": f"at least {MIN_RATIO_TO_PEER}",
            "reached": at_least(to_peer, MIN_RATIO_TO_PEER),
        }
    ]
    for whole, bare in ((OURS_SAME, BARE_SAME), (OURS_CONFIG, BARE_CONFIG)):
        ratio = median(a / b for a, b in zip(rates[whole], rates[bare], strict=True))
        rows.append(
            {
                "what": f"updates per second: {whole} / bare network",
                "measured": ratio,
                "to reach": f"at least {MIN_RATIO_TO_BARE}",
                "reached": at_least(ratio, MIN_RATIO_TO_BARE),
            }
        )
    return rows


def _row(name: str, config: RainbowSettings, rates: list[float]) -> Row:
    network, learner = config.network, config.learner
    is_peer = name == PEER
    return {
        "update": name,
        "widths": "x".join(map(str, THEIR_WIDTHS if is_peer else network.widths)),
        "quantiles": 1 if is_peer else network.n_quantiles,
        "batch": BATCH_SIZE if is_peer else learner.batch_size,
        "updates/s (median)": median(rates),
        "best round": max(rates),
        "worst round": min(rates),
    }


def _rate(update: Callable[[int], object], n_updates: int) -> Callable[[], float]:
    """Return a measurement of updates per second."""

    def measure() -> float:
        start = time.perf_counter()
        update(n_updates)
        return n_updates / (time.perf_counter() - start)

    return measure


def _our_updates(
    config: RainbowSettings, shapes: Sizes, settings: SpeedSettings
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return actions with a number of whole updates, and of updates with one batch."""
    n_features = shapes.n_features + config.inputs.n_features(shapes.n_actions)
    shape = StepShape(n_features=n_features, n_actions=shapes.n_actions)
    rng = np.random.default_rng(config.run.seed)
    memory = replace(config.replay, capacity=settings.n_stored, is_mapped=False)
    replay = ReplayBuffer(shape, memory, 1)
    replay.append(made_up_rows(shape, settings.n_stored, rng))
    learners = [
        Learner(config.learner, memory, _policy(config, shapes), replay, np.random.default_rng(seed)) for seed in (0, 1)
    ]
    batch = replay.make_batch(config.learner.batch_size)
    replay.sample(batch, n_steps=config.learner.n_steps, gamma=config.learner.gamma, beta=1.0, rng=rng)

    def whole(n: int) -> None:
        for _ in range(n):
            learners[0].update(1.0)

    def bare(n: int) -> None:
        for _ in range(n):
            learners[1].learn(batch)

    return whole, bare


def _policy(config: RainbowSettings, shapes: Sizes) -> QPolicy:
    header = QHeader(
        env_id=config.env.id,
        env_options={},
        n_features=shapes.n_features,
        n_actions=shapes.n_actions,
        network=config.network,
        extras=config.inputs,
        soulslab=VERSION,
        commit="",
    )
    return QPolicy(header)


def made_up_rows(shape: StepShape, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return random steps as from an environment with features, a record array (n,).

    Episodes have equal length, features and rewards are normally distributed, and a share of the actions is forbidden.
    Most features are 0, as most features of a duel are parts of one-hot vectors.
    """
    rows = np.zeros(n, row_type(shape))
    rows["features"] = rng.standard_normal(rows["features"].shape, np.float32)
    rows["features"] *= rng.random(rows["features"].shape) < _ACTIVE_SHARE
    rows["reward"] = rng.standard_normal(n, np.float32)
    rows["action"] = rng.integers(shape.n_actions, size=n)
    rows["n_decisions"] = rng.integers(1, 7, size=n)
    numbers = np.arange(n) % _EPISODE_STEPS
    rows["is_first"] = numbers == 0
    rows["outcome"] = np.where(numbers == _EPISODE_STEPS - 1, Outcome.TERMINATED, Outcome.GOES_ON)
    blocked = rng.random((n, shape.n_actions)) < _BLOCKED_SHARE
    blocked[np.arange(n), rows["action"]] = False
    rows["blocked"] = np.packbits(blocked, axis=1)
    return rows


def _peer_updates(config: RainbowSettings, settings: SpeedSettings) -> Callable[[int], None]:
    """Return an action with a number of updates of stable-baselines3's DQN with the same shapes."""
    env = gymnasium.make(config.env.id, **config.env.options)
    model = DQN(
        "MlpPolicy",
        env,
        seed=config.run.seed,
        device="cpu",
        buffer_size=settings.n_stored,
        policy_kwargs={"net_arch": list(THEIR_WIDTHS)},
    )
    model.set_logger(Logger(folder=None, output_formats=[]))
    rng = np.random.default_rng(config.run.seed)
    memory = model.replay_buffer
    if memory is None:  # DQN creates one itself
        raise AssertionError
    memory.observations[:] = rng.standard_normal(memory.observations.shape, np.float32)
    memory.next_observations[:] = rng.standard_normal(memory.observations.shape, np.float32)
    memory.actions[:] = rng.integers(int(env.action_space.n), size=memory.actions.shape)  # type: ignore[attr-defined]
    memory.rewards[:] = rng.standard_normal(memory.rewards.shape, np.float32)
    memory.dones[:] = rng.random(memory.dones.shape) < 1 / _EPISODE_STEPS
    memory.full = True

    def update(n: int) -> None:
        model.train(gradient_steps=n, batch_size=BATCH_SIZE)

    return update
