"""Comparison of fights in the live environment with the same fights in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.relative_features import RELATIVE_NAMES
from support.players import script

Choice: TypeAlias = Callable[[Any, Any], int]
#: Weights of all reward terms, so that each term is compared.
ALL_TERMS = {
    "boss_damage": 1.0,
    "player_damage": -1.0,
    "win": 3.0,
    "death": -2.0,
    "time": 0.01,
    "centre": 0.1,
    "roll": 0.05,
    "attack": 0.07,
    "hit_streak": 0.2,
}
#: The duration of consecutive walks and turns cannot be read exactly (see test_reader.py).
WALK_DURATION = "boss_animation_duration"
#: A window stores positions in float32: the error is 3e-5 m at 600 m from the origin, and the distance of the fighters
#: is at least 1.3 m.
RELATIVE_TOLERANCE = 1e-4


def check_observation(live: Any, sim: Any) -> None:
    if isinstance(sim, dict):
        assert live.keys() == sim.keys()
        for name, value in sim.items():
            assert (type(live[name]), getattr(live[name], "dtype", None)) == (
                type(value),
                getattr(value, "dtype", None),
            )
            np.testing.assert_allclose(live[name], value, atol=1e-5, rtol=1e-6, err_msg=name)
        return
    assert live.shape == sim.shape
    names, tolerance = FEATURE_NAMES, 1e-5
    if len(sim) == len(RELATIVE_NAMES):
        names, tolerance = RELATIVE_NAMES, RELATIVE_TOLERANCE
    difference = np.abs(live - sim)
    difference[names.index(WALK_DURATION)] = 0.0
    worst = int(difference.argmax())
    assert difference[worst] <= tolerance, names[worst]


def check_report(live: Any, sim: Any) -> None:
    assert live.keys() == sim.keys()
    for name, value in sim.items():
        assert type(live[name]) is type(value), name
        np.testing.assert_allclose(live[name], value, atol=1e-4, err_msg=name)


def check_step(live: Any, sim: Any) -> None:
    check_observation(live[0], sim[0])
    assert live[1] == pytest.approx(sim[1], abs=1e-5)
    assert live[2:4] == sim[2:4]
    theirs, ours = sim[4], live[4]
    np.testing.assert_array_equal(ours["action_mask"], theirs["action_mask"])
    assert (ours["n_decisions"], ours["n_masked"]) == (theirs["n_decisions"], theirs["n_masked"])
    assert ours["reward_terms"] == pytest.approx(theirs["reward_terms"], abs=1e-5)
    if live[2] or live[3]:
        check_report(ours["fight"], theirs["fight"])


def check_fight(live: Any, sim: Any, seed: int, choose: Choice | None = None) -> None:
    """Play a fight in both environments to its end, and compare all results.

    `choose` returns the action for an observation and a mask of the simulator; by default, a script plays.
    """
    (observation, info), (wanted, wanted_info) = live.reset(seed=seed), sim.reset(seed=seed)
    check_observation(observation, wanted)
    np.testing.assert_array_equal(info["action_mask"], wanted_info["action_mask"])
    for n, scripted in enumerate(script(seed, 3000), start=1):
        action = int(scripted) if choose is None else choose(wanted, wanted_info["action_mask"])
        steps = live.step(action), sim.step(action)
        info, (wanted, *_, wanted_info) = steps[0][4], steps[1]
        assert (info["ticks_lost"], info["ticks_doubled"]) == (0, 0), f"step {n} of seed {seed}: {info['ticks']} ticks"
        check_step(*steps)
        if steps[1][2] or steps[1][3]:
            return
    pytest.fail("the fight has no end")
