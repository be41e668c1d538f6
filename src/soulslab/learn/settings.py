"""The settings of a training run, with their defaults.

A run is configured by a TOML file with the tables ``env``, ``learner``, ``network`` and ``run``, one for each struct
below. Unknown keys and values out of range are errors when the file is read. A "decision" is one decision of the game:
an environment that skips locked moments may make several decisions in one step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from soulslab.config.secret import refuse_plain_token
from soulslab.errors import ConfigError, did_you_mean

Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Coefficient = Annotated[float, Meta(ge=0.0)]

REWARD_PATH: Final = "env.options.reward."
"""Start of the path of a weight of the reward."""


class EnvSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The environment.

    Attributes:
        id: Gymnasium id, with its version.
        n_envs: Number of environments that are stepped as one batch (N).
        frame_stack: Number of last observations whose pixels the policy sees; 1 without pixels, or if the environment
            stacks its frames itself.
        options: Keyword arguments of the environment, for example ``boss`` and ``phase``; no token (use
            ``token_file``).
    """

    id: str = "soulslab/Arena-v0"
    n_envs: Annotated[int, Meta(ge=1, le=65536)] = 256
    frame_stack: Annotated[int, Meta(ge=1, le=64)] = 1
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        refuse_plain_token(self.options)


class LearnerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of an algorithm.

    ``adjustable`` names those that may change while a run trains: what was learned before stays valid for any value of
    them.

    Attributes:
        shift_px: Largest random shift of the pixels of a learned transition in each direction, in pixels of the
            observation; 0 shifts none. All frames of a stack have the same shift. Only learning sees shifted pixels.
    """

    adjustable: ClassVar[tuple[str, ...]] = ()

    shift_px: Annotated[int, Meta(ge=0, le=256)] = 0


class PPOSettings(LearnerSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The PPO algorithm; :mod:`soulslab.learn.ppo.ppo_algorithm` explains the parameters.

    Attributes:
        n_steps: Environment steps per rollout (T); one update uses T * N transitions.
        n_epochs: Passes over each rollout.
        minibatch_size: Approximate number of transitions per gradient step (B); a rollout is split into equal parts of
            about this size.
        lr: Learning rate of Adam at the start.
        lr_end: Learning rate at ``run.total_steps``; linear between them.
        gamma: Discount per game decision.
        gae_lambda: Decay of generalised advantage estimation per environment step.
        clip: Change of the probability ratio of an action beyond which the objective is clipped.
        entropy: Weight of the entropy bonus at the start.
        entropy_end: Weight of the entropy bonus at ``run.total_steps``; linear between them.
        value_coef: Weight of the value loss.
        max_grad_norm: Global norm to which the gradient is clipped.
        target_kl: An update stops early when the KL divergence from the old policy exceeds this (nats); 0 disables it.
        teacher: PPO policy that the new policy also imitates: a file, the folder of a run, or the name of a shipped
            policy; "" for none. It may use features that ``network.hidden_features`` hides from the new policy.
        teacher_weight: Weight of the imitation in the loss at the start.
        teacher_weight_end: Weight of the imitation at ``run.total_steps``; linear between them.
    """

    adjustable: ClassVar[tuple[str, ...]] = ("lr", "lr_end", "entropy", "entropy_end", "clip", "target_kl")

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
    teacher: str = ""
    teacher_weight: Coefficient = 1.0
    teacher_weight_end: Coefficient = 0.0


class NetworkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The actor-critic network of PPO.

    Attributes:
        convolutions: Channels, kernel (px) and stride (px) of each convolution over pixels; ignored without pixels.
            Actor and critic always share them. The default is the network of Mnih et al. 2015 with half of its
            channels or fewer, and a stride in the last layer as well.
        channels: Channels of each residual stage over pixels (Espeholt et al. 2018), which replaces ``convolutions``;
            empty for none.
        widths: Number of units of each hidden layer.
        activation: Activation function after each hidden layer.
        shared: Whether actor and critic share the hidden layers (nearly twice as fast) or have separate ones.
        memory: Number of units of a gated recurrent unit before the hidden layers, with which the policy remembers
            earlier observations of the episode; 0 for none.
        hidden_features: Names of features that the policy ignores, such as those that another game does not show; a
            name that ends with ``*`` means all features whose names begin with the part before it.
        critic_sees_hidden: Whether the critic sees the hidden features, and only the actor ignores them (an asymmetric
            critic). It needs ``shared = false``.
    """

    convolutions: Annotated[tuple[tuple[Positive, Positive, Positive], ...], Meta(min_length=1, max_length=8)] = (
        (16, 8, 4),
        (32, 4, 2),
        (32, 3, 2),
    )
    channels: Annotated[tuple[Positive, ...], Meta(max_length=4)] = ()
    widths: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=8)] = (128, 128)
    activation: Literal["tanh", "relu", "silu"] = "relu"
    shared: bool = False
    memory: Annotated[int, Meta(ge=0, le=4096)] = 0
    hidden_features: Annotated[tuple[str, ...], Meta(max_length=1024)] = ()
    critic_sees_hidden: bool = False

    def __post_init__(self) -> None:
        if self.critic_sees_hidden and self.shared:
            raise ConfigError(
                "needs network.shared = false, because hidden layers that the critic shares would show the hidden "
                "features to the actor; set network.shared to false, or this to false",
                path="network.critic_sees_hidden",
            )


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a run, checkpoints and evaluations.

    Attributes:
        seed: Seed of the networks, the actions, the shuffling and the environments.
        device: Device of the network that is trained: ``cpu``; ``cuda``, the GPU; or ``auto``, the GPU if there is one.
        total_steps: Number of game decisions after which the run is complete; the schedules end there.
        max_seconds: Training time after which the run stops, even if the schedules have not ended (s).
        stop_win_rate: The run stops when the evaluated win rate is above this, or the moving average if the run does
            not evaluate; 1 never stops early.
        checkpoint_every_s: Time between checkpoints (s).
        keep_checkpoints: Number of newest checkpoints to keep.
        evaluate_every: Game decisions between two evaluations; 0 never evaluates. The policy with the highest evaluated
            win rate is saved as ``policy_best.safetensors``.
        evaluate_fights: Number of fights of each evaluation, played greedily.
        evaluate_envs: Number of environments for evaluations; each may be a separate game.
        start_from: Policy file, folder of a run, or name of a shipped policy with the initial weights; "" for random
            weights.
        actor_alone_s: Time that a remote actor continues without a learner before it ends (s).
    """

    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    total_steps: Positive = 20_000_000
    max_seconds: Annotated[float, Meta(gt=0.0)] = float("inf")
    stop_win_rate: Share = 1.0
    checkpoint_every_s: Coefficient = 60.0
    keep_checkpoints: Positive = 3
    evaluate_every: Annotated[int, Meta(ge=0)] = 0
    evaluate_fights: Positive = 200
    evaluate_envs: Positive = 200
    start_from: str = ""
    actor_alone_s: Coefficient = 1800.0


class SinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Further receivers of the telemetry of a run.

    Attributes:
        wandb: Project of Weights & Biases; "" for none. With the environment variable ``WANDB_MODE=offline`` the
            numbers stay in the folder of the run.
    """

    wandb: Annotated[str, Meta(max_length=128)] = ""


class AlgorithmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings that all algorithms have.

    Attributes:
        algorithm: Name of the algorithm.
        env: The environment.
        run: Limits of the run, checkpoints and evaluations.
        sinks: Further receivers of the telemetry.
        learner: The algorithm.
    """

    algorithm: str = ""
    env: EnvSettings = EnvSettings()
    run: RunSettings = RunSettings()
    sinks: SinkSettings = SinkSettings()
    learner: LearnerSettings = LearnerSettings()


S = TypeVar("S", bound=AlgorithmSettings)


def adjust_settings(settings: S, changes: Mapping[str, float]) -> S:
    """Return the settings from the start of a run with changes by path, such as ``learner.lr``.

    The weights of the reward can change, too, as ``env.options.reward.win``, if ``env.options.reward`` is a table.
    Raises ConfigError for a setting that is not adjustable, or a wrong value.
    """
    kind = type(settings.learner)
    learner, paths = msgspec.to_builtins(settings.learner), [f"learner.{name}" for name in kind.adjustable]
    for path, value in changes.items():
        if path.startswith(REWARD_PATH):
            _check_weight(settings.env.options.get("reward"), path, value)
            continue
        if path not in paths:
            others = f"{', '.join(paths)} and the weights {REWARD_PATH}TERM"
            raise ConfigError(f"cannot change while a run trains; {others} can", path=path)
        name = path.removeprefix("learner.")
        try:
            msgspec.convert({name: value}, kind)
        except msgspec.ValidationError as error:
            raise ConfigError(str(error), path=path) from error
        learner[name] = value
    env = msgspec.structs.replace(settings.env, options=change_reward(settings.env.options, changes))
    return msgspec.structs.replace(settings, env=env, learner=msgspec.convert(learner, kind))


def change_reward(options: Mapping[str, Any], changes: Mapping[str, float]) -> dict[str, Any]:
    """Return options of an environment with those of the changed settings that are weights of the reward."""
    weights = {path.removeprefix(REWARD_PATH): value for path, value in changes.items() if path.startswith(REWARD_PATH)}
    reward = options.get("reward")
    return {**options, "reward": {**reward, **weights}} if weights and isinstance(reward, Mapping) else dict(options)


def reward_factors(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, float]:
    """Return the factors by which the weights of the reward differ in two options of an environment, by name.

    A weight that was 0 has no factor, because its term is not reported.
    """
    weights, changed = before.get("reward"), now.get("reward")
    if not isinstance(weights, Mapping) or not isinstance(changed, Mapping):
        return {}
    return {name: changed[name] / weight for name, weight in weights.items() if weight and changed[name] != weight}


def scale_reward(options: Mapping[str, Any], factors: Mapping[str, float]) -> dict[str, Any]:
    """Return options of an environment whose weights of the reward are multiplied by factors, by name."""
    reward = options.get("reward")
    if not factors or not isinstance(reward, Mapping):
        return dict(options)
    return {**options, "reward": {name: weight * factors.get(name, 1.0) for name, weight in reward.items()}}


def _check_weight(reward: Any, path: str, value: Any) -> None:
    """Raise ConfigError unless a weight of the reward with which a run has started can change to a value."""
    name = path.removeprefix(REWARD_PATH)
    if not isinstance(reward, Mapping):
        shown = repr(reward) if reward is not None else "the default of the environment"
        problem = f"cannot change: the reward of this run is {shown}; only a table env.options.reward has weights"
    elif name not in reward:
        problem = f"cannot change: the reward of this run has only {', '.join(reward)}{did_you_mean(name, reward)}"
    elif not reward[name]:
        problem = "cannot change: it was 0 at the start of the run, so the games do not report it; start a new run"
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        problem = f"must be a finite number, not {value!r}"
    else:
        return
    raise ConfigError(problem, path=path)


class TrainSettings(AlgorithmSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a PPO run.

    Attributes:
        algorithm: Always ``ppo``.
        learner: The PPO algorithm.
        network: The actor-critic network.
    """

    algorithm: Literal["ppo"] = "ppo"
    learner: PPOSettings = PPOSettings()
    network: NetworkSettings = NetworkSettings()


class ReplaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Size of the replay buffer, and how transitions, or with ``network.memory`` sequences, are drawn from it.

    Attributes:
        capacity: Number of environment steps to keep; the oldest are overwritten first.
        alpha: Exponent of prioritised sampling: a transition is drawn with a probability proportional to
            ``priority ** alpha``; 0 draws uniformly.
        beta: Share of the bias of prioritised sampling that is corrected at the start.
        beta_end: Share of the bias that is corrected at ``run.total_steps``; linear between them.
        is_mapped: Whether to keep the steps in a memory-mapped file in the folder of the run instead of in memory.
        sequence_steps: Learned steps of a sequence (T). A sequence starts at every T/2-th step, so two of them overlap
            by half.
        burn_in_steps: Steps before the learned ones from which only the state of the recurrent layer is computed.
        eta: Weight of the largest error of a sequence in its priority; the rest is the weight of the mean error.
    """

    capacity: Annotated[int, Meta(ge=1, le=2**31)] = 1_000_000
    alpha: Share = 0.5
    beta: Share = 0.4
    beta_end: Share = 1.0
    is_mapped: bool = False
    sequence_steps: Annotated[int, Meta(ge=1, le=4096)] = 32
    burn_in_steps: Annotated[int, Meta(ge=0, le=4096)] = 16
    eta: Share = 0.9
