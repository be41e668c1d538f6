"""Sums over the training fights of PPO."""

import numpy as np
import pytest

from soulslab.learn.environment import FightNames
from soulslab.learn.ppo.episode_tracker import MIN_REPORTED, REPORT_EVERY_S, FightSums


def reports(killed_by, won, pose):
    damage = np.array([[10.0, 0.0], [2.0, 4.0], [99.0, 99.0]])
    return {
        "damage_by_attack": damage,
        "killed_by": np.array([killed_by, -1, 1]),
        "won": np.array([won, True, False]),
        "start_pose": np.array([pose, 1, 0]),
        "uses_by_attack": np.array([[4, 1], [2, 1], [9, 9]], np.uint16),
        "hits_by_attack": np.array([[1, 0], [0, 1], [9, 9]], np.uint16),
        "decisions_by_phase": np.array([[30, 0], [50, 20], [9, 9]]),
        "damage_taken_by_phase": np.array([[10.0, 0.0], [2.0, 4.0], [99.0, 99.0]]),
        "damage_dealt_by_phase": np.array([[100.0, 0.0], [200.0, 300.0], [9.0, 9.0]]),
        "actions_by_situation": np.array([[[3, 1], [0, 0]], [[1, 3], [0, 0]], [[9, 9], [9, 9]]], np.uint16),
    }


def test_means_are_over_the_finished_fights():
    sums = FightSums(FightNames(("sweep", "grab"), ("far", "near")), 2)
    for _ in range(MIN_REPORTED // 2 - 1):
        sums.add(reports(0, False, 0), np.array([0, 1]))
    assert sums.take(7, REPORT_EVERY_S) is None
    sums.add(reports(0, False, 0), np.array([0, 1]))
    sums.add_actions(np.array([[[0]], [[1]], [[0]], [[0]]]))
    stats = sums.take(7, REPORT_EVERY_S)
    assert (stats.env_steps, stats.n_fights) == (7, MIN_REPORTED)
    assert stats.damage_by_attack == pytest.approx({"sweep": 6.0, "grab": 2.0})
    assert stats.kills_by_attack == {"sweep": 0.5, "grab": 0.0}
    assert stats.wins_by_pose == {"0": 0.0, "1": 1.0}
    assert stats.uses_by_attack == {"sweep": 3.0, "grab": 1.0}
    assert stats.hits_by_attack == {"sweep": 0.5, "grab": 0.5}
    assert stats.decisions_by_phase == {"1": 40.0, "2": 10.0}
    assert (stats.damage_dealt, stats.damage_taken) == (300.0, 8.0)
    assert stats.damage_dealt_by_phase == {"1": 150.0, "2": 150.0}
    assert stats.damage_taken_by_phase == {"1": 6.0, "2": 2.0}
    assert stats.actions_by_situation == {"far": (0.5, 0.5), "near": ()}
    assert stats.action_shares == (0.75, 0.25)
    sums.add(reports(0, False, 0), np.arange(2).repeat(MIN_REPORTED))
    assert sums.take(8, 0.5 * REPORT_EVERY_S) is None
    assert sums.take(8, 0.5 * REPORT_EVERY_S) is not None


def test_an_episode_without_a_report_does_not_change_the_means():
    sums = FightSums(FightNames(("sweep", "grab"), ("far", "near")), 2)
    for _ in range(MIN_REPORTED // 2):
        sums.add(reports(0, False, 0), np.array([0, 1]))
        sums.add({}, np.array([2]))  # its game failed
    stats = sums.take(7, REPORT_EVERY_S)
    assert stats.damage_by_attack == pytest.approx({"sweep": 6.0, "grab": 2.0})
    assert stats.kills_by_attack == {"sweep": 0.5, "grab": 0.0}
    assert stats.damage_dealt == 300.0


def test_fixed_poses_and_unnamed_attacks_are_left_out():
    sums = FightSums(FightNames(), 2)
    for _ in range(MIN_REPORTED):
        sums.add(reports(-1, True, -1), np.array([0]))
    stats = sums.take(1, REPORT_EVERY_S)
    assert (stats.damage_by_attack, stats.kills_by_attack, stats.wins_by_pose) == ({}, {}, {})
    assert (stats.uses_by_attack, stats.actions_by_situation, stats.action_shares) == ({}, {}, ())


def test_episodes_without_reports_still_count_actions():
    sums = FightSums(FightNames(), 2)
    sums.add_actions(np.array([1, 1]))
    sums.add({}, np.arange(MIN_REPORTED))
    stats = sums.take(1, REPORT_EVERY_S)
    assert (stats.n_fights, stats.action_shares, stats.damage_dealt) == (MIN_REPORTED, (0.0, 1.0), None)
