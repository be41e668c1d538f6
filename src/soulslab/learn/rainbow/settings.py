"""The settings of a Rainbow run; every default stands here and nowhere else.

A run is configured by a TOML file that begins with ``algorithm = "rainbow"`` and has the tables below. "Decisions" are
the game's own steps, "steps" those of the environment, which may take several decisions where moments are locked.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from soulslab.learn.inputs import ExtraInputs
from soulslab.learn.replay.settings import ReplaySettings
from soulslab.learn.settings import AlgorithmSettings, Coefficient, EnvSettings, Positive, RunSettings, Share

Rate = Annotated[float, Meta(gt=0.0, le=1.0)]
Count = Annotated[int, Meta(ge=0)]


class RainbowEnvSettings(EnvSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is trained on; a slow game is mostly one.

    Attributes:
        id: Gymnasium id, with its version.
        n_envs: Environments stepped as one batch (N).
        frame_stack: Observations whose pixels the policy sees at once; 1 where there are no pixels, or where the
            environment stacks its frames itself.
        options: Keyword arguments of the environment, for example ``boss`` and ``phase``.
    """

    n_envs: Annotated[int, Meta(ge=1, le=65536)] = 1


class QLearningSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the learner learns. What each number does is told in :mod:`soulslab.learn.rainbow.learner`.

    Attributes:
        batch_size: Transitions per update (B).
        updates_per_step: Updates for each environment step, the update-to-data ratio; below 1 one update follows
            several steps.
        learning_starts: Environment steps before the first update, with random actions; where the run begins with
            what it knows already, with that.
        lr: AdamW's learning rate.
        adam_epsilon: AdamW's epsilon.
        weight_decay: AdamW's weight decay.
        max_grad_norm: The gradient's global norm is clipped to this.
        is_target_masked: What is forbidden in the next observation is no choice there; else the bootstrap may take it.
        is_double: The online network chooses the action that the target network judges.
        n_steps: Rewards summed up before the bootstrap, at the start and after each reset.
        n_steps_end: The same once annealed; falls exponentially in between.
        gamma: Discount per game decision, at the start and after each reset.
        gamma_end: The same once annealed; 1 - gamma falls exponentially in between.
        anneal_updates: Updates that both take to anneal; 0 has the ends at once.
        target_tau: Share of the online weights that the target network takes over at each update; 1 with
            ``target_every`` copies them whole.
        target_every: Updates between two moves of the target network.
        average_tau: Share of the online weights that the policy which is evaluated and kept takes over at each update;
            1 keeps the last ones.
        munchausen: Weight of the log-policy that is added to the reward (alpha); 0 leaves it out.
        munchausen_temperature: Temperature of that policy (tau), in units of the return.
        reset_every: Updates between two shrink-and-perturb resets; 0 never resets.
        reset_until: Updates after which no reset comes any more.
        reset_share: How far a reset moves the weights of the trunk towards fresh ones, 0..1; heads become fresh.
        epsilon: Share of random open actions at the start; a run that begins with another policy's weights
            (``start_from``) has ``epsilon_end`` throughout, one that begins with cloning ``demonstrations.epsilon``.
        epsilon_end: The same once annealed; linear in between.
        epsilon_decisions: Decisions that epsilon takes to anneal.
    """

    batch_size: Positive = 64
    updates_per_step: Annotated[float, Meta(gt=0.0, le=64.0)] = 2.0
    learning_starts: Positive = 1_000
    lr: Rate = 3e-4
    adam_epsilon: Rate = 1.5e-4
    weight_decay: Coefficient = 0.0
    max_grad_norm: Annotated[float, Meta(gt=0.0)] = 10.0
    is_target_masked: bool = True
    is_double: bool = True
    n_steps: Annotated[int, Meta(ge=1, le=64)] = 10
    n_steps_end: Annotated[int, Meta(ge=1, le=64)] = 3
    gamma: Rate = 0.97
    gamma_end: Rate = 0.99
    anneal_updates: Count = 10_000
    target_tau: Rate = 0.005
    target_every: Positive = 1
    average_tau: Rate = 0.0005
    munchausen: Share = 0.0
    munchausen_temperature: Rate = 0.03
    reset_every: Count = 0
    reset_until: Count = 2**53
    reset_share: Share = 0.5
    epsilon: Share = 1.0
    epsilon_end: Share = 0.01
    epsilon_decisions: Positive = 10_000


class BinsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Soft bins of a feature, for the network to see beside it; see :mod:`soulslab.learn.rainbow.encoding`.

    Attributes:
        feature: Name of the feature, where the environment tells names (``feature_names``), or its number.
        low: Centre of the first bin, in the feature's own units.
        high: Centre of the last one.
        n: Bins.
        times: Each bin is multiplied with each of these features: those whose names begin so, or the numbers of the
            first and the last; "" gives the bins alone.
    """

    feature: str | Count
    low: float
    high: float
    n: Annotated[int, Meta(ge=2, le=64)]
    times: str | tuple[Count, Count] = ""


class QNetworkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The network of action values.

    Attributes:
        widths: Units of each hidden layer.
        has_layer_norm: Normalise each hidden layer (Ba, Kiros & Hinton 2016).
        is_dueling: A value and an advantage per action, instead of one value per action.
        n_quantiles: Quantiles of the return that are learned for each action; 1 learns the mean.
        is_noisy: Learned noise on the head's weights explores (Fortunato et al. 2018) beside epsilon.
        channels: Channels of each residual stage that looks at pixels (Espeholt et al. 2018); passed over where there
            are none.
        bins: Features that the network sees in soft bins too.
    """

    widths: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=8)] = (256, 256)
    has_layer_norm: bool = True
    is_dueling: bool = True
    n_quantiles: Annotated[int, Meta(ge=1, le=512)] = 16
    is_noisy: bool = False
    channels: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=4)] = (16, 32, 32)
    bins: Annotated[tuple[BinsSettings, ...], Meta(max_length=1024)] = ()


class DemonstrationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Recorded fights to learn from.

    Attributes:
        path: Minari data set: its folder, or its id among those of this machine; "" for none.
        share: Share of each batch that is drawn from them.
        epsilon: Share of random open actions at the start, where the run begins with cloning; the rest of what cloning
            does not show has to be seen too. It falls to `learner.epsilon_end`.
        epsilon_decisions: Decisions that it takes for that.
        cloning_updates: Updates of behaviour cloning before the first environment step; 0 begins without.
        cloning_every: The learner's updates for one of cloning beside it; 0 clones before alone.
        cloning_decisions: Decisions over which cloning beside learning fades.
        cloning_lr: Adam's learning rate of cloning.
        cloning_temperature: Of the softmax over the values that cloning looks at, in units of the return; a
            twentieth of what a won fight returns, or so.
    """

    path: str = ""
    share: Share = 0.5
    epsilon: Share = 0.1
    epsilon_decisions: Positive = 60_000
    cloning_updates: Count = 3_000
    cloning_every: Count = 1
    cloning_decisions: Positive = 60_000
    cloning_lr: Rate = 5e-4
    cloning_temperature: Annotated[float, Meta(gt=0.0)] = 1.0


class RainbowRunSettings(RunSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long a run lasts, how it is watched, and what it leaves behind.

    Attributes:
        seed: Seed of the networks, the actions, the sampling and the environments.
        total_steps: Game decisions after which the run is complete; the schedules end there.
        max_seconds: Training time after which the run stops, schedules finished or not (s).
        stop_win_rate: The run is complete once an evaluation, or the moving win rate where there are none, lies above
            this; 1 never stops early.
        checkpoint_every_s: Time between checkpoints (s).
        keep_checkpoints: The newest checkpoints that are kept.
        evaluate_every: Game decisions between two evaluations; 0 never evaluates, as a real game requires. The policy
            with the highest evaluated win rate is kept in ``policy_best.safetensors``.
        evaluate_fights: Greedy fights of each evaluation.
        evaluate_envs: Environments that play them side by side, each a game of its own if it is one.
        start_from: Policy file, or folder of a run, whose weights the run begins with; "" begins with random ones.
        actor: Where the environments are played: ``here`` alternates with learning, ``apart`` is a process of its own
            that never waits.
        actor_alone_s: Time that an actor apart plays on without a learner, before it ends (s).
    """

    total_steps: Positive = 200_000
    evaluate_every: Count = 10_000
    actor: Literal["here", "apart"] = "here"
    actor_alone_s: Coefficient = 1800.0


class RainbowSettings(AlgorithmSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a Rainbow run.

    Attributes:
        algorithm: Always ``rainbow``.
        env: The environment.
        learner: The Rainbow algorithm.
        replay: The replay buffer.
        network: The network of action values.
        inputs: Inputs of the network beside the observation.
        demonstrations: Recorded fights to learn from.
        run: Limits of the run, checkpoints and evaluations.
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
        """Whether the run begins with cloning recorded fights."""
        return bool(self.demonstrations.path and self.demonstrations.cloning_updates)
