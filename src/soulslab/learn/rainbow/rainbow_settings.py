"""The settings of a Rainbow run, with their defaults.

A run is configured by a TOML file that starts with ``algorithm = "rainbow"`` and has the tables below. A "decision" is
one decision of the game, a "step" is one step of the environment, which may take several decisions.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.settings import (
    AlgorithmSettings,
    Coefficient,
    EnvSettings,
    LearnerSettings,
    Positive,
    ReplaySettings,
    RunSettings,
    Share,
)

Rate = Annotated[float, Meta(gt=0.0, le=1.0)]
Count = Annotated[int, Meta(ge=0)]


class RainbowEnvSettings(EnvSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The environment, by default a single one; see :class:`soulslab.learn.settings.EnvSettings`."""

    n_envs: Annotated[int, Meta(ge=1, le=65536)] = 1


class QLearningSettings(LearnerSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Updates of Rainbow; :mod:`soulslab.learn.rainbow.q_learner` explains the parameters.

    Attributes:
        batch_size: Transitions per update (B); with ``network.memory`` the learned steps of
            ``batch_size / replay.sequence_steps`` sequences, rounded to a whole number of at least one.
        updates_per_step: Updates for each environment step, the update-to-data ratio; below 1 one update follows
            several steps.
        learning_starts: Number of environment steps before the first update. Until then actions are random, or those of
            the initial policy if there is one. With ``network.memory`` the first update also waits for a sequence.
        lr: Learning rate of AdamW.
        adam_epsilon: Epsilon of AdamW.
        weight_decay: Weight decay of AdamW.
        max_grad_norm: Global norm to which the gradient is clipped.
        is_target_masked: Whether the targets ignore actions that are forbidden in the next observation.
        is_double: Whether the online network chooses the action whose value the target network gives.
        n_steps: Number of rewards in the n-step return.
        gamma: Discount per game decision.
        target_tau: Share of the online weights by which the target network moves; 1 with ``target_every`` copies them.
        target_every: Updates between two moves of the target network.
        average_tau: Share of the online weights by which the policy that is evaluated and saved moves at each update; 1
            saves the newest weights.
        munchausen: Weight of the log-policy that is added to the reward (alpha); 0 disables it.
        munchausen_temperature: Temperature of that policy (tau), in units of the return.
        epsilon: Share of random actions at the start; always ``epsilon_end`` in a run with ``start_from``, and
            ``demonstrations.epsilon`` in a run that starts with cloning.
        epsilon_end: Share of random actions after annealing; linear until then.
        epsilon_decisions: Number of decisions of the annealing of epsilon.
    """

    adjustable: ClassVar[tuple[str, ...]] = ("lr", "epsilon", "epsilon_end")
    removed: ClassVar[tuple[str, ...]] = (
        "n_steps_end", "gamma_end", "anneal_updates", "reset_every", "reset_until", "reset_share",
    )  # fmt: skip

    batch_size: Positive = 64
    updates_per_step: Annotated[float, Meta(gt=0.0, le=64.0)] = 2.0
    learning_starts: Positive = 1_000
    lr: Rate = 3e-4
    adam_epsilon: Rate = 1.5e-4
    weight_decay: Coefficient = 0.0
    max_grad_norm: Annotated[float, Meta(gt=0.0)] = 10.0
    is_target_masked: bool = True
    is_double: bool = True
    n_steps: Annotated[int, Meta(ge=1, le=64)] = 3
    gamma: Rate = 0.99
    target_tau: Rate = 0.005
    target_every: Positive = 1
    average_tau: Rate = 0.0005
    munchausen: Share = 0.0
    munchausen_temperature: Rate = 0.03
    epsilon: Share = 1.0
    epsilon_end: Share = 0.01
    epsilon_decisions: Positive = 10_000


class BinsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Soft bins of a feature as additional inputs of the network; see :mod:`soulslab.learn.rainbow.feature_encoding`.

    Attributes:
        feature: Name of the feature, if the environment defines names (``feature_names``), or its index.
        low: Centre of the first bin, in the unit of the feature.
        high: Centre of the last bin.
        n: Number of bins.
        times: Factors with which each bin is multiplied: the features whose names start with this, or the indices of
            the first and the last; "" gives the bins without factors.
    """

    feature: str | Count
    low: float
    high: float
    n: Annotated[int, Meta(ge=2, le=64)]
    times: str | tuple[Count, Count] = ""


class QNetworkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The network of action values.

    Attributes:
        widths: Number of units of each hidden layer.
        has_layer_norm: Whether to normalise each hidden layer (Ba, Kiros & Hinton 2016).
        is_dueling: Whether to estimate a value and an advantage per action, instead of one value per action.
        n_quantiles: Number of quantiles of the return for each action; 1 learns the mean.
        channels: Channels of each residual stage over pixels (Espeholt et al. 2018); ignored without pixels.
        bins: Soft bins of features.
        memory: Number of units of a gated recurrent unit before the hidden layers, with which the policy remembers
            earlier observations of the episode; 0 for none.
        hidden_features: Names of features that the policy ignores, with their bins; a name that ends with ``*`` means
            all features whose names begin with the part before it.
    """

    removed: ClassVar[tuple[str, ...]] = ("is_noisy",)

    widths: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=8)] = (256, 256)
    has_layer_norm: bool = True
    is_dueling: bool = True
    n_quantiles: Annotated[int, Meta(ge=1, le=512)] = 16
    channels: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=4)] = (16, 32, 32)
    bins: Annotated[tuple[BinsSettings, ...], Meta(max_length=1024)] = ()
    memory: Annotated[int, Meta(ge=0, le=4096)] = 0
    hidden_features: Annotated[tuple[str, ...], Meta(max_length=1024)] = ()


class DemonstrationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Learning from recorded episodes.

    Attributes:
        path: Minari data set: its folder, or its id among those of this machine; "" for none.
        is_simulated: Whether the episodes were recorded in a simulator, against another boss than here. Then only the
            options that define a step must agree, such as ``observation``, ``reward`` and ``skip_locked``.
        share: Share of each batch that is drawn from the recorded episodes.
        epsilon: Share of random actions at the start of a run that starts with cloning, to explore actions that were
            not recorded. It decreases to `learner.epsilon_end`.
        epsilon_decisions: Number of decisions of that decrease.
        cloning_updates: Updates of behaviour cloning before the first environment step; 0 skips them.
        cloning_every: Updates of the learner for each update of cloning during learning; 0 clones only at the start.
        cloning_decisions: Number of decisions after which the weight of cloning during learning is 0.
        cloning_lr: Learning rate of Adam for cloning.
        cloning_temperature: Temperature of the softmax over the values in the cloning loss, in units of the return;
            about a twentieth of the return of a won fight.
    """

    path: str = ""
    is_simulated: bool = False
    share: Share = 0.5
    epsilon: Share = 0.1
    epsilon_decisions: Positive = 60_000
    cloning_updates: Count = 3_000
    cloning_every: Count = 1
    cloning_decisions: Positive = 60_000
    cloning_lr: Rate = 5e-4
    cloning_temperature: Annotated[float, Meta(gt=0.0)] = 1.0


class RainbowRunSettings(RunSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a run, checkpoints, evaluations and the actor; see also :class:`soulslab.learn.settings.RunSettings`.

    Attributes:
        evaluate_every: Game decisions between two evaluations; 0 never evaluates, which a real game needs. The policy
            with the highest evaluated win rate is saved as ``policy_best.safetensors``.
        actor: Where the environments run: ``here`` alternates with learning, ``apart`` uses a separate process that
            never waits for the learner.
    """

    total_steps: Positive = 200_000
    evaluate_every: Count = 10_000
    actor: Literal["here", "apart"] = "here"


class RainbowSettings(AlgorithmSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a Rainbow run.

    Attributes:
        algorithm: Always ``rainbow``.
        learner: The Rainbow algorithm.
        replay: The replay buffer.
        network: The network of action values.
        inputs: Inputs of the network in addition to the observation.
        demonstrations: Learning from recorded episodes.
    """

    algorithm: Literal["rainbow"] = "rainbow"
    env: RainbowEnvSettings = RainbowEnvSettings()
    learner: QLearningSettings = QLearningSettings()
    replay: ReplaySettings = ReplaySettings()
    network: QNetworkSettings = QNetworkSettings()
    inputs: ExtraInputs = ExtraInputs()
    demonstrations: DemonstrationSettings = DemonstrationSettings()
    run: RainbowRunSettings = RainbowRunSettings()

    @property
    def is_cloned(self) -> bool:
        """Whether the run starts with cloning recorded episodes."""
        return bool(self.demonstrations.path and self.demonstrations.cloning_updates)
