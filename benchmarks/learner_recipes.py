"""Learners of ``python -m benchmarks learner`` and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from benchmarks.learner_run import MOST, LearnerTask
from soulslab.learn.rainbow.rainbow_settings import QLearningSettings, QNetworkSettings, RainbowSettings
from soulslab.learn.settings import ReplaySettings

OURS: Final = "soulslab"
SHOWN: Final = "soulslab, 20 recorded fights"
PUBLISHED: Final = "published recipe"


def contestants(
    config: RainbowSettings,
    seeds: Sequence[int],
    n_decisions: int,
    limit: int,
    shown: Path | None,
    *,
    has_tuned_peers: bool = False,
) -> list[LearnerTask]:
    """Return the tasks of all runs: all learners with one seed, then with the next one.

    Args:
        config: Config of our learner; its environment and evaluations are used for all learners.
        seeds: Seeds of the runs.
        n_decisions: Game decisions of our learner.
        limit: Maximum game decisions of the other learners, which also stop at the win rate ``run.stop_win_rate``.
        shown: Data set of recorded fights; None omits the learner with demonstrations.
        has_tuned_peers: Also train the peers with our settings, as far as they have them.
    """
    tasks: list[LearnerTask] = []
    for seed in seeds:
        ours = replace(config, run=replace(config.run, seed=seed, total_steps=n_decisions))
        others = replace(config, run=replace(config.run, seed=seed, total_steps=limit, stop_win_rate=MOST))
        # These learners use only the environment of our config, so their runs stay valid if the rest of it changes.
        unlike = RainbowSettings(env=others.env, run=others.run)
        tasks.append(LearnerTask(name=OURS, kind="rainbow", settings=ours))
        if shown is not None:
            demonstrations = replace(ours.demonstrations, path=str(shown))
            tasks.append(LearnerTask(name=SHOWN, kind="rainbow", settings=replace(ours, demonstrations=demonstrations)))
        tasks += [
            LearnerTask(name=PUBLISHED, kind="rainbow", settings=published(unlike)),
            LearnerTask(name="SB3 DQN, defaults", kind="dqn", is_tuned=False, settings=unlike),
            LearnerTask(name="QR-DQN, defaults", kind="qr_dqn", is_tuned=False, settings=unlike),
        ]
        if has_tuned_peers:
            tasks += [
                LearnerTask(name="SB3 DQN, our settings", kind="dqn", settings=others),
                LearnerTask(name="QR-DQN, our settings", kind="qr_dqn", settings=others),
            ]
    return tasks


def published(settings: RainbowSettings) -> RainbowSettings:
    """Return the published recipe for Souls bosses, built from our components.

    Dueling double DQN, two layers of 128, n-step 4, uniform buffer of 100 000, batch 64, one update per step, epsilon
    0.1, no masks in the target. The other values (learning rate, discount, gradient limit) are the defaults of
    amacati/SoulsAI (``config/config_d.yaml``, 2023). Two things differ from its ``core/agent.py``: it trains two
    networks in turns, each with the estimates of the other, whereas ours has a softly updated target network; and its
    discount is per step, ours per decision.

    Args:
        settings: Settings whose environment, length, seed and evaluations are used.
    """
    learner = QLearningSettings(
        batch_size=64,
        updates_per_step=1.0,
        learning_starts=1_000,
        lr=1e-3,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        max_grad_norm=5.0,
        is_target_masked=False,
        is_double=True,
        n_steps=4,
        gamma=0.99,
        target_tau=0.005,
        target_every=1,
        average_tau=1.0,
        munchausen=0.0,
        epsilon=0.1,
        epsilon_end=0.1,
    )
    network = QNetworkSettings(widths=(128, 128), has_layer_norm=False, is_dueling=True, n_quantiles=1)
    memory = ReplaySettings(capacity=100_000, alpha=0.0)
    return RainbowSettings(env=settings.env, run=settings.run, learner=learner, network=network, replay=memory)
