"""Sums over the training fights of PPO."""

import numpy as np
import pytest

from soulslab.learn.ppo.fight_sums import MIN_REPORTED, FightSums


def reports(killed_by, won, pose):
    damage = np.array([[10.0, 0.0], [2.0, 4.0], [99.0, 99.0]])
    return {
        "damage_by_attack": damage,
        "killed_by": np.array([killed_by, -1, 1]),
        "won": np.array([won, True, False]),
        "start_pose": np.array([pose, 1, 0]),
    }


def test_means_are_over_the_finished_fights():
    sums = FightSums(("sweep", "grab"))
    for _ in range(MIN_REPORTED // 2 - 1):
        sums.add(reports(0, False, 0), np.array([0, 1]))
    assert sums.take(7) is None
    sums.add(reports(0, False, 0), np.array([0, 1]))
    stats = sums.take(7)
    assert (stats.env_steps, stats.n_fights) == (7, MIN_REPORTED)
    assert stats.damage_by_attack == pytest.approx({"sweep": 6.0, "grab": 2.0})
    assert stats.kills_by_attack == {"sweep": 0.5, "grab": 0.0}
    assert stats.wins_by_pose == {"0": 0.0, "1": 1.0}
    assert sums.take(8) is None


def test_fixed_poses_and_unnamed_attacks_are_left_out():
    sums = FightSums(())
    for _ in range(MIN_REPORTED):
        sums.add(reports(-1, True, -1), np.array([0]))
    stats = sums.take(1)
    assert (stats.damage_by_attack, stats.kills_by_attack, stats.wins_by_pose) == ({}, {}, {})
