"""Peers of soulslab's Rainbow: stable-baselines3's DQN and sb3-contrib's QR-DQN.

Each is trained with its defaults and optionally with soulslab's settings, as far as its interface has them. They
have no masks (a forbidden action does nothing), double and dueling networks, priorities, resets, layer normalisation,
or discount per game decision. All learners use the same single environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import gymnasium
import numpy as np
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from benchmarks.learner_run import LearnerTask, Point
from soulslab.integrations import sb3
from soulslab.learn.environment import EVALUATION, environment_seed, make_vector
from soulslab.learn.evaluate import quotas
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.torch_device import one_core

DECISIONS_PER_STEP: Final = 3
"""Approximate game decisions per step of a peer if locked decisions are skipped: measured 2.3 during exploration, 2.8
later, and 6 for a learner with masks. Schedules of peers count steps; the comparison counts decisions."""


def play_peer(task: LearnerTask, report: Callable[[Point], None]) -> int:
    """Train a peer until its decisions are used up, or until an evaluation exceeds ``run.stop_win_rate``.

    Args:
        task: Task of the run.
        report: Called with each evaluation.

    Returns:
        The game decisions of the training.
    """
    settings = task.settings
    with one_core(), closing(_environment(task)) as env:
        model = _model(task, env)
        model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger leaves a temporary folder
        watch = _Evaluator(task, report)
        # A step takes several decisions, so the schedules end before the decisions do. Training then continues with
        # their last values.
        n_steps = max(1, settings.run.total_steps // DECISIONS_PER_STEP)
        while not watch.is_over:
            model.learn(n_steps, callback=watch, reset_num_timesteps=watch.n_steps == 0)
        return watch.n_decisions


def our_settings(settings: RainbowSettings) -> dict[str, Any]:
    """Return soulslab's settings as keyword arguments of stable-baselines3's DQN."""
    ours, network = settings.learner, settings.network
    ratio = ours.updates_per_step
    n_updates = max(1, round(ratio))
    n_steps = settings.run.total_steps / DECISIONS_PER_STEP
    # The target network of a peer is updated after a number of steps, ours after a number of updates.
    return {
        "learning_rate": ours.lr,
        "buffer_size": min(settings.replay.capacity, settings.run.total_steps),
        "learning_starts": ours.learning_starts,
        "batch_size": ours.batch_size,
        "tau": 1.0 - (1.0 - ours.target_tau) ** n_updates if ours.target_every == 1 else ours.target_tau,
        "target_update_interval": max(1, round(ours.target_every / ratio)),
        "gamma": ours.gamma,
        "n_steps": ours.n_steps,
        "train_freq": max(1, round(1.0 / ratio)),
        "gradient_steps": n_updates,
        "exploration_initial_eps": ours.epsilon,
        "exploration_final_eps": ours.epsilon_end,
        "exploration_fraction": min(1.0, ours.epsilon_decisions / DECISIONS_PER_STEP / n_steps),
        "max_grad_norm": ours.max_grad_norm,
        "policy_kwargs": {
            "net_arch": list(network.widths),
            "optimizer_class": torch.optim.AdamW,
            "optimizer_kwargs": {"eps": ours.adam_epsilon, "weight_decay": ours.weight_decay},
        },
    }


def _environment(task: LearnerTask) -> VecEnv:
    where = task.settings.env
    env = gymnasium.make_vec(
        where.id, num_envs=1, vectorization_mode="vector_entry_point", autoreset_mode="same_step", **where.options
    )
    adapter = sb3.VecEnv(env)
    return VecNormalize(adapter, norm_reward=False) if task.is_tuned else adapter


def _model(task: LearnerTask, env: VecEnv) -> DQN | QRDQN:
    seed = task.settings.run.seed
    arguments: dict[str, Any] = our_settings(task.settings) if task.is_tuned else {}
    if task.kind == "dqn":
        return DQN("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    if task.is_tuned:
        arguments["policy_kwargs"]["n_quantiles"] = task.settings.network.n_quantiles
    return QRDQN("MlpPolicy", env, seed=seed, device="cpu", **arguments)


class _Evaluator(BaseCallback):
    """Counts decisions, evaluates at regular intervals, and stops the training."""

    def __init__(self, task: LearnerTask, report: Callable[[Point], None]) -> None:
        super().__init__()
        self.n_decisions = self.n_steps = 0
        self.is_over = False
        self._settings = task.settings
        self._report = report
        self._next = task.settings.run.evaluate_every
        self._start = time.monotonic()

    def _on_step(self) -> bool:
        run = self._settings.run
        self.n_steps += 1
        self.n_decisions += int(self.locals["infos"][0]["n_decisions"])
        if self.n_decisions >= self._next:
            n_wins, mean_return = fight_greedily(self.model, self._settings)
            win_rate = n_wins / run.evaluate_fights
            seconds = time.monotonic() - self._start
            self._report(Point(decisions=self._next, win_rate=win_rate, mean_return=mean_return, seconds=seconds))
            self._next += run.evaluate_every
            self.is_over = win_rate > run.stop_win_rate
        self.is_over |= self.n_decisions >= run.total_steps
        return not self.is_over


def fight_greedily(model: BaseAlgorithm, settings: RainbowSettings) -> tuple[int, float]:
    """Evaluate greedy actions of a model of stable-baselines3.

    The fights are equal to those of `soulslab.learn.evaluate`. Each environment has a fixed
    number of fights, so that short fights do not count more.

    Args:
        model: The model.
        settings: Environment, number of fights, and their seed.

    Returns:
        The number of won fights, and the mean return.
    """
    n_fights = settings.run.evaluate_fights
    n_envs = min(settings.run.evaluate_envs, n_fights)
    normaliser = model.get_vec_normalize_env()
    left = quotas(n_fights, n_envs)
    n_wins, total_reward = 0, 0.0
    with closing(make_vector(settings.env.id, n_envs, settings.env.options)) as env:
        obs, _ = env.reset(seed=environment_seed(settings.run.seed, EVALUATION))
        while left.any():
            actions, _ = model.predict(
                normaliser.normalize_obs(obs) if normaliser is not None else obs, deterministic=True
            )
            obs, rewards, terminated, truncated, info = env.step(actions)
            total_reward += float(rewards[left > 0].sum())
            finished = np.flatnonzero((terminated | truncated) & (left > 0))
            if len(finished):
                n_wins += int(info["final_info"]["fight"]["won"][finished].sum())
                left[finished] -= 1
    return n_wins, total_reward / n_fights
