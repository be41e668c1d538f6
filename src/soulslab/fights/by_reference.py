"""The arena's reference player, decision by decision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight import load_knight
from soulslab.arena.reference import ReferencePlayer
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.envs.duels import ArenaOptions
from soulslab.fights.recording import FightRecorder
from soulslab.learn.demonstrations.recorded_episode import Episode


def record_fight(recorder: FightRecorder, seed: int) -> Episode:
    """Let the reference player fight once, and record it.

    Args:
        recorder: Of ``soulslab/Arena-v0``.
        seed: Of the fight.

    Raises:
        EnvironmentUsageError: It is another environment.
        DemonstrationError: The fight cannot be written.
    """
    return recorder.fight_again(reference_actions(recorder.arena_options(), seed), seed)


def reference_actions(options: ArenaOptions, seed: int) -> NDArray[np.int64]:
    """Let the reference player fight once.

    It looks at the boss in every decision, also where it can do nothing, so it plays without skipping any.

    Args:
        options: Of ``soulslab/Arena-v0``; boss, phase and start poses count.
        seed: As of the environment's reset.

    Returns:
        What it did in each decision, int64 (decisions,).

    Raises:
        EnvironmentUsageError: An option is wrong.
        BossFileError: A boss file is malformed.
    """
    options.check()
    boss = load_boss(options.boss, list(load_knight().knock_backs))
    rules = FightOptions(
        phase=str(options.phase), random_pose=options.random_pose, features=False, states=True, autoreset="disabled"
    )
    simulator = Simulator(boss, 1, rules)
    everyone = np.ones(1, np.bool_)
    simulator.seed(np.array([seed], np.uint64), everyone)
    simulator.reset(everyone)
    player = ReferencePlayer(boss, 1)
    player.begin(simulator.states, everyone)
    actions: list[int] = []
    while not simulator.duels["over"][0]:
        action = player.act(simulator.states, simulator.masks)
        actions.append(int(action[0]))
        simulator.step(action)
    return np.array(actions, np.int64)
