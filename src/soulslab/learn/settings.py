"""The settings of a training run; every default stands here and nowhere else.

A run is configured by a TOML file with the tables ``env``, ``learner``, ``network`` and ``run``, one per struct below.
Unknown keys and values out of range are errors when the file is read. "Decisions" are the game's own steps: an
environment that skips locked moments may take several in one step.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from soulslab.config.secret import refuse_plain_token

Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Coefficient = Annotated[float, Meta(ge=0.0)]


class EnvSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is trained on.

    Attributes:
        id: Gymnasium id, with its version.
        n_envs: Environments stepped as one batch (N).
        frame_stack: Observations whose pixels the policy sees at once; 1 where there are no pixels, or where the
            environment stacks its frames itself.
        options: Keyword arguments of the environment, for example ``boss`` and ``phase``; no token (``token_file``).
    """

    id: str = "soulslab/Arena-v0"
    n_envs: Annotated[int, Meta(ge=1, le=65536)] = 256
    frame_stack: Annotated[int, Meta(ge=1, le=64)] = 1
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        refuse_plain_token(self.options)


class PPOSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How PPO learns. What each number does is told in :mod:`soulslab.learn.ppo`.

    Attributes:
        n_steps: Environment steps per rollout (T); one update sees T * N transitions.
        n_epochs: Passes over each rollout.
        minibatch_size: Transitions per gradient step (B), about: a rollout is cut into equal parts near this
            size.
        lr: Adam's learning rate at the start.
        lr_end: Learning rate at ``run.total_steps``; linear in between.
        gamma: Discount per game decision.
        gae_lambda: Decay of generalised advantage estimation per environment step.
        clip: Largest change of an action's probability ratio that is still rewarded.
        entropy: Weight of the entropy bonus at the start.
        entropy_end: Weight of the entropy bonus at ``run.total_steps``; linear in between.
        value_coef: Weight of the value loss.
        max_grad_norm: The gradient's global norm is clipped to this.
        target_kl: An update stops early when the policy moved further than this (nats); 0 never stops.
    """

    n_steps: Positive = 64
    n_epochs: Positive = 3
    minibatch_size: Positive = 2048
    lr: Annotated[float, Meta(gt=0.0, le=1.0)] = 1e-3
    lr_end: Share = 1e-4
    gamma: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.99
    gae_lambda: Share = 0.95
    clip: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.2
    entropy: Coefficient = 0.01
    entropy_end: Coefficient = 0.001
    value_coef: Coefficient = 0.5
    max_grad_norm: Annotated[float, Meta(gt=0.0)] = 0.5
    target_kl: Coefficient = 0.0


class NetworkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The actor-critic network.

    Attributes:
        convolutions: Channels, kernel (px) and stride (px) of each layer that looks at pixels; passed over where
            there are none. Actor and critic always share them.
        widths: Units of each hidden layer.
        activation: Non-linearity after each hidden layer.
        shared: One trunk of hidden layers for actor and critic (nearly twice as fast) instead of one each.
    """

    convolutions: Annotated[tuple[tuple[Positive, Positive, Positive], ...], Meta(min_length=1, max_length=8)] = (
        (16, 8, 4),
        (32, 4, 2),
        (32, 3, 2),
    )
    widths: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=8)] = (128, 128)
    activation: Literal["tanh", "relu", "silu"] = "relu"
    shared: bool = False


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long a run lasts, and what it leaves behind.

    Attributes:
        seed: Seed of the networks, the actions, the shuffling and the environments.
        total_steps: Game decisions after which the run is complete; the schedules end there.
        max_seconds: Training time after which the run stops, schedules finished or not (s).
        stop_win_rate: The run is complete once the evaluated win rate, or the moving one without evaluations, is above
            this; 1 never stops early.
        checkpoint_every_s: Time between checkpoints (s).
        keep_checkpoints: The newest checkpoints that are kept.
        evaluate_every: Game decisions between two evaluations; 0 never evaluates. The policy with the highest evaluated
            win rate is kept in ``policy_best.safetensors``.
        evaluate_fights: Greedy fights of each evaluation.
        evaluate_envs: Environments in which they are played side by side, each a game of its own if it is one.
        start_from: Policy file, or folder of a run, whose weights the run begins with; "" begins with random ones.
    """

    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    total_steps: Positive = 20_000_000
    max_seconds: Annotated[float, Meta(gt=0.0)] = float("inf")
    stop_win_rate: Share = 1.0
    checkpoint_every_s: Coefficient = 60.0
    keep_checkpoints: Positive = 3
    evaluate_every: Annotated[int, Meta(ge=0)] = 0
    evaluate_fights: Positive = 200
    evaluate_envs: Positive = 200
    start_from: str = ""


class AlgorithmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings that every algorithm has; each algorithm adds its own.

    Attributes:
        algorithm: Name of the algorithm.
        env: The environment.
        run: Limits of the run, checkpoints and evaluations.
    """

    algorithm: str = ""
    env: EnvSettings = EnvSettings()
    run: RunSettings = RunSettings()


class TrainSettings(AlgorithmSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a PPO run.

    Attributes:
        algorithm: Always ``ppo``.
        env: The environment.
        learner: The PPO algorithm.
        network: The actor-critic network.
        run: Limits of the run, checkpoints and evaluations.
    """

    algorithm: Literal["ppo"] = "ppo"
    env: EnvSettings = EnvSettings()
    learner: PPOSettings = PPOSettings()
    network: NetworkSettings = NetworkSettings()
    run: RunSettings = RunSettings()
