"""``python -m benchmarks fleet-priorities``: first priorities of steps from the values of the games, and without them.

They matter to a learner that makes few updates for many steps, as with many games: most steps are then drawn at most
once. The games are simulators in one process, with the actor of a fleet; each draw is recorded by the replay buffer.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.result import Result, Row
from soulslab.config import load_settings
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.actors.transport import InProcessTransport, Weights
from soulslab.learn.configs import config_path
from soulslab.learn.environment import TRAINING, environment_seed, feature_names, make_vector, sizes
from soulslab.learn.network_policy import header_fields
from soulslab.learn.rainbow.feature_encoding import resolve_bins
from soulslab.learn.rainbow.q_learner import Learner
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.replay.replay_buffer import ReplayBuffer
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.torch_device import one_core

EPSILON: Final = 0.02
"""Share of random actions, that of rainbow.toml after its decrease."""


class PrioritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_games: Number of games (N).
        n_steps: Steps of each run, all games together.
        steps_per_update: Steps for each update.
        alpha: Exponent of prioritised sampling.
        seeds: Seeds of the runs.
    """

    n_games: int = 64
    n_steps: int = 200_000
    steps_per_update: int = 64
    alpha: float = 0.6
    seeds: tuple[int, ...] = (0, 1, 2)

    def quick(self) -> PrioritySettings:
        """Return settings for a short run."""
        return PrioritySettings(n_games=16, n_steps=8_000, seeds=(0,))


class _RecordingBuffer(ReplayBuffer):
    """A replay buffer that records the first draw of each transition: its priority before it, and its error.

    Attributes:
        n_draws: Number of draws.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.n_draws = 0
        self._is_drawn = np.zeros(len(self.ring.rows), np.bool_)
        self._found: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    def set_priorities(self, places: Tensor, errors: Tensor) -> None:
        """Record the first draws of a batch, and set its priorities."""
        where, index = np.unique(places.numpy(), return_index=True)
        is_first = ~self._is_drawn[where]
        self._found.append((self.sampler.priorities(where[is_first]), errors.numpy()[index[is_first]].astype(float)))
        self._is_drawn[where] = True
        self.n_draws += len(places)
        super().set_priorities(places, errors)

    def first_draws(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return priorities and errors of the first draws in the second half of the updates, float64 (n,)."""
        later = self._found[len(self._found) // 2 :]
        return np.concatenate([each[0] for each in later]), np.concatenate([each[1] for each in later])


def measure_priorities(settings: PrioritySettings | None = None) -> Result:
    """Train with uniform draws, and by priority without and with the values of the games."""
    settings = settings or PrioritySettings()
    config = load_settings(
        RainbowSettings,
        config_path(Path("rainbow.toml")),
        [f"replay.capacity={settings.n_steps}", f"env.n_envs={settings.n_games}"],
    )
    with one_core():
        rows = [
            _row("none, uniform draws", _with_alpha(config, 0.0), settings),
            _row("the largest so far", _with_alpha(config, settings.alpha), settings),
            _row("from the values of the games", _with_alpha(config, settings.alpha), settings, has_values=True),
        ]
    return Result(
        title=f"first draws of steps from {settings.n_games} games, an update of {config.learner.batch_size} draws for "
        f"{settings.steps_per_update} steps, alpha {settings.alpha}, means of {len(settings.seeds)} seeds",
        rows=rows,
    )


def _with_alpha(config: RainbowSettings, alpha: float) -> RainbowSettings:
    return replace(config, replay=replace(config.replay, alpha=alpha))


def _row(name: str, config: RainbowSettings, settings: PrioritySettings, *, has_values: bool = False) -> Row:
    """Return the means over the seeds."""
    found = [
        _train(replace(config, run=replace(config.run, seed=seed)), settings, has_values) for seed in settings.seeds
    ]
    *columns, returns = zip(*found, strict=True)
    means = [float(np.mean(column)) for column in columns]
    return {
        "first priority": name,
        "error of first draws": round(means[0], 3),
        "correlation with first priority": round(means[1], 2) if has_values else None,
        "first draws, % of draws": round(100 * means[2]),
        "return of the last fights, least": round(min(returns), 1),
        "return of the last fights, greatest": round(max(returns), 1),
    }


def _train(config: RainbowSettings, settings: PrioritySettings, has_values: bool) -> tuple[float, float, float, float]:
    """Train; return numbers of the first draws, and the mean return of the last quarter of the fights.

    The former are the mean absolute error, its rank correlation with the priority, and the share of the draws.
    """
    with closing(make_vector(config.env.id, config.env.n_envs, config.env.options)) as env:
        shapes = sizes(env)
        bins = resolve_bins(config.network.bins, shapes.n_features, feature_names(env), config.env.id)
        network = replace(config.network, bins=bins)
        header = QHeader(**header_fields(config, shapes), extras=config.inputs, network=network)
        policy, acting = QPolicy(header), QPolicy(header)
        shape = step_shape(header, has_values=has_values)
        replay = _RecordingBuffer(shape, config.replay, config.env.n_envs)
        learner = Learner(config.learner, config.replay, policy, replay, np.random.default_rng(config.run.seed))
        channel = InProcessTransport(row_type(shape), config.env.n_envs)
        actor = Actor(env, acting, channel, np.random.default_rng(config.run.seed), has_values=has_values)
        actor.reset(environment_seed(config.run.seed, TRAINING))
        channel.publish(Weights(version=0, epsilon=1.0, tensors=policy.weights()))
        returns: list[float] = []
        for n_steps in range(config.env.n_envs, settings.n_steps, config.env.n_envs):
            actor.step()
            rows = channel.take()
            progress = n_steps / settings.n_steps
            replay.append(rows, n_steps=config.learner.n_steps, gamma=config.learner.gamma)
            policy.observe(rows["features"])
            returns += [result.total_reward for result in channel.take_episodes()]
            while n_steps > config.learner.learning_starts + learner.n_updates * settings.steps_per_update:
                learner.update(progress)
            epsilon = max(EPSILON, 1.0 - n_steps / (0.1 * settings.n_steps))
            channel.publish(Weights(version=1 + learner.n_updates, epsilon=epsilon, tensors=policy.weights()))
    priorities, errors = replay.first_draws()
    n_last = max(1, len(returns) // 4)
    correlation = _rank_correlation(priorities, errors) if has_values else 0.0
    n_first = 2 * len(errors) / replay.n_draws
    return float(errors.mean()), correlation, n_first, float(np.mean(returns[-n_last:]))


def _rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation; equal values, which are few, are ranked in their order."""
    ranks = [np.argsort(np.argsort(each)) for each in (first, second)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
