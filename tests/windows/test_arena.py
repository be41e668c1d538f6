"""The simulated fight on Windows."""

import numpy as np

from soulslab.arena.simulator import find_impossible_field
from soulslab.envs.arena import ArenaVectorEnv

N_FIGHTS = 8


def test_states_of_fights_are_checked():
    """A run is resumed with the states of its fights."""
    simulator = ArenaVectorEnv(N_FIGHTS)._duels.simulator
    states = np.zeros_like(simulator.duels)
    assert find_impossible_field(states, simulator.fight[0]) is None
    states["phase"][3] = 7
    assert find_impossible_field(states, simulator.fight[0]) == "phase is 7, not in [0, 2]"
