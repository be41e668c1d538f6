"""Peers of soulslab's PPO: stable-baselines3's PPO and sb3-contrib's MaskablePPO.

Each is trained twice: with its defaults on 8 environments in a loop, as most users run it; and on soulslab's vector
environment with soulslab's settings, as far as its interface has them. It has no schedule of the entropy bonus, no
discount per game decision, and no trunk shared by actor and critic.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from benchmarks.training_outcome import HALF, MOST, Outcome, Trial
from soulslab.integrations import sb3
from soulslab.learn.environment import EVALUATION, environment_seed, make_vector
from soulslab.learn.evaluate import quotas
from soulslab.learn.settings import TrainSettings
from soulslab.learn.telemetry import Sink, TrainFinished, TrainProgress, TrainStarted, send_message
from soulslab.learn.torch_device import one_core

N_USUAL_ENVS: Final = 8
#: Fights in the moving win rate. soulslab's uses 1000, which takes longer.
WINDOW: Final = 200
_REPORT_INTERVAL_S: Final = 1.0


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A learner and its settings.

    Attributes:
        name: Name in the table.
        is_masked: MaskablePPO, which uses action masks; otherwise PPO.
        is_tuned: Use soulslab's vector environment and settings; otherwise the defaults and a loop.
    """

    name: str
    is_masked: bool
    is_tuned: bool


PEERS: Final = (
    Peer(name="SB3 PPO, defaults", is_masked=False, is_tuned=False),
    Peer(name="MaskablePPO, defaults", is_masked=True, is_tuned=False),
    Peer(name="SB3 PPO, our settings", is_masked=False, is_tuned=True),
    Peer(name="MaskablePPO, our settings", is_masked=True, is_tuned=True),
)


def train_peer(peer: Peer, trial: Trial, sinks: Sequence[Sink]) -> Outcome:
    """Train a peer until the win rate or the time limit is reached, then evaluate greedy actions."""
    settings = trial.train
    with one_core(), closing(_environment(peer, settings, trial.seed)) as env:
        model = _model(peer, settings, env, trial.seed)
        model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger leaves a temporary folder
        watch = _Stopwatch(trial, sinks)
        model.learn(settings.run.total_steps, callback=watch)
        seconds = watch.seconds()
        send_message(sinks, TrainFinished(env_steps=watch.n_decisions, seconds=seconds, reason="stopped"))
        return Outcome(
            n_envs=env.num_envs,
            seconds=seconds,
            n_decisions=watch.n_decisions,
            n_policy_steps=model.num_timesteps,
            half_s=watch.reached.get(HALF),
            most_s=watch.reached.get(MOST),
            n_fights=trial.n_fights,
            n_wins=_greedy_wins(model, trial),
        )


def _environment(peer: Peer, settings: TrainSettings, seed: int) -> VecEnv:
    options = settings.env.options
    if not peer.is_tuned:
        return make_vec_env(settings.env.id, n_envs=N_USUAL_ENVS, seed=seed, env_kwargs=options)
    env = gymnasium.make_vec(
        settings.env.id,
        num_envs=settings.env.n_envs,
        vectorization_mode="vector_entry_point",
        autoreset_mode="same_step",
        **options,
    )
    return VecNormalize(sb3.VecEnv(env), gamma=settings.learner.gamma)


def _model(peer: Peer, settings: TrainSettings, env: VecEnv, seed: int) -> PPO | MaskablePPO:
    kind = MaskablePPO if peer.is_masked else PPO
    return kind("MlpPolicy", env, seed=seed, device="cpu", **(_our_settings(settings) if peer.is_tuned else {}))


def _our_settings(settings: TrainSettings) -> dict[str, Any]:
    """Return soulslab's settings as keyword arguments of stable-baselines3's PPO."""
    ours, network = settings.learner, settings.network
    activations = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "silu": torch.nn.SiLU}
    return {
        "learning_rate": lambda left: ours.lr_end + left * (ours.lr - ours.lr_end),
        "n_steps": ours.n_steps,
        "batch_size": ours.minibatch_size,
        "n_epochs": ours.n_epochs,
        "gamma": ours.gamma,
        "gae_lambda": ours.gae_lambda,
        "clip_range": ours.clip,
        "ent_coef": ours.entropy,
        "vf_coef": ours.value_coef,
        "max_grad_norm": ours.max_grad_norm,
        "target_kl": ours.target_kl or None,
        "policy_kwargs": {"net_arch": list(network.widths), "activation_fn": activations[network.activation]},
    }


class _Stopwatch(BaseCallback):
    """Counts decisions and wins, records when a win rate is reached, and stops the training at the limit."""

    def __init__(self, trial: Trial, sinks: Sequence[Sink]) -> None:
        super().__init__()
        self.n_decisions = 0
        self.reached: dict[float, float] = {}
        self._trial = trial
        self._sinks = sinks
        self._window: deque[bool] = deque(maxlen=WINDOW)
        self._n_fights = 0
        self._start = self._told_at = time.monotonic()

    def seconds(self) -> float:
        """Return the training time so far (s)."""
        return time.monotonic() - self._start

    def _on_training_start(self) -> None:
        self._start = time.monotonic()
        settings = self._trial.train
        send_message(
            self._sinks,
            TrainStarted(
                env_id=settings.env.id,
                total_steps=settings.run.total_steps,
                env_steps=0,
                seed=self._trial.seed,
                is_resumed=False,
            ),
        )

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            self.n_decisions += info["n_decisions"]
            if "fight" in info:
                self._n_fights += 1
                self._window.append(bool(info["fight"]["won"]))
        won = sum(self._window) / WINDOW
        if len(self._window) == WINDOW:
            for level in (HALF, MOST):
                if won >= level:
                    self.reached.setdefault(level, self.seconds())
        self._report_progress(won)
        return MOST not in self.reached and self.seconds() < self._trial.limit_s

    def _report_progress(self, won: float) -> None:
        if time.monotonic() - self._told_at < _REPORT_INTERVAL_S:
            return
        self._told_at = time.monotonic()
        send_message(
            self._sinks,
            TrainProgress(
                env_steps=self.n_decisions,
                total_steps=self._trial.train.run.total_steps,
                seconds=self.seconds(),
                steps_per_second=self.n_decisions / self.seconds(),
                n_fights=self._n_fights,
                win_rate=won,
                mean_return=None,
                mean_decisions=None,
            ),
        )


def _greedy_wins(model: PPO | MaskablePPO, trial: Trial) -> int:
    """Return how many of the trial's fights the model wins with its most probable actions.

    The fights are those of `soulslab.learn.evaluate`. Each environment has a fixed number of fights, so that short
    fights do not count more.
    """
    env_settings = trial.train.env
    normaliser = model.get_vec_normalize_env()
    left = quotas(trial.n_fights, trial.n_fights)
    n_wins = 0
    with closing(make_vector(env_settings.id, trial.n_fights, env_settings.options)) as env:
        obs, info = env.reset(seed=environment_seed(trial.seed, EVALUATION))
        while left.any():
            known = {"action_masks": info["action_mask"]} if isinstance(model, MaskablePPO) else {}
            seen = normaliser.normalize_obs(obs) if normaliser is not None else obs
            actions, _ = model.predict(seen, deterministic=True, **known)
            obs, _, terminated, truncated, info = env.step(actions)
            finished = np.flatnonzero((terminated | truncated) & (left > 0))
            if len(finished):
                n_wins += int(info["final_info"]["fight"]["won"][finished].sum())
                left[finished] -= 1
    return n_wins
