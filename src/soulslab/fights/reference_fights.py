"""Recording of fights by the reference player of the arena."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.reference_player import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.envs.duels import ArenaOptions
from soulslab.fights.recording import FightRecorder
from soulslab.learn.demonstrations.recorded_episode import Episode


def record_fight(recorder: FightRecorder, seed: int) -> Episode:
    """Play one fight with the reference player, and record it.

    Args:
        recorder: Recorder for ``soulslab/Arena-v0``.
        seed: Seed of the fight.

    Raises:
        EnvironmentUsageError: The recorder is for another environment.
        DemonstrationError: The fight cannot be written.
    """
    return recorder.record_actions(reference_actions(recorder.arena_options(), seed), seed)


def reference_actions(options: ArenaOptions, seed: int) -> NDArray[np.int64]:
    """Play one fight with the reference player, and return its actions.

    The player observes the boss in every decision, also while it cannot act, so no decision is skipped.

    Args:
        options: Options of ``soulslab/Arena-v0``; boss, phase and start poses are used.
        seed: Seed of the reset of the environment.

    Returns:
        Action of each decision, int64 (decisions,).

    Raises:
        EnvironmentUsageError: An option is wrong.
        BossFileError: A boss file is malformed.
    """
    boss = load_boss(options.boss, list(load_knight().knock_backs))
    rules = FightOptions(
        phase=str(options.phase), random_pose=options.random_pose, features=False, states=True, autoreset="disabled"
    )
    simulator = Simulator(boss, 1, rules)
    all_envs = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), all_envs)
    simulator.reset(all_envs)
    player = ReferencePlayer(boss, 1)
    player.begin(simulator.states, all_envs)
    actions: list[int] = []
    while not simulator.duels["over"][0]:
        action = player.act(simulator.states, simulator.masks)
        actions.append(int(action[0]))
        simulator.step(action)
    return np.array(actions, np.int64)
