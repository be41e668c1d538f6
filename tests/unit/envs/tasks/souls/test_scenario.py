"""Scenarios of the facts of a boss."""

import msgspec
import pytest

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.envs.tasks.duel.duel_scenario import DEPTH_M, REACH_M, scenario_of, scenario_of_facts
from soulslab.errors import MissingFactError
from soulslab.games.boss_facts import ArenaFacts, BossFacts, Poses, load_boss_facts
from soulslab.games.boss_facts import Pose as KnownPose


def facts(**fields):
    return BossFacts(source="a test", name="Boss", **fields)


def at(x, y, z, angle=None):
    return KnownPose(position_m=(x, y, z), angle_rad=angle)


def test_iudex_has_the_ground_and_health_of_the_judge():
    iudex = scenario_of_facts(load_boss_facts("dark_souls_3", "iudex"))
    judge = scenario_of(load_boss("judge", list(load_knight().knock_backs)))
    alike = (
        "player_max_hp", "player_max_sp", "boss_max_hp", "phase_two_hp", "phase_two_animation", "limits_m",
        "reward_centre_m", "boss_pose",
    )  # fmt: skip
    assert {name: getattr(iudex, name) for name in alike} == {name: getattr(judge, name) for name in alike}
    assert len(iudex.player_poses_random) == len(judge.player_poses_random) == 11
    assert (iudex.forcing_hp, iudex.fall_m) == (100, -73.0)


def test_unknown_limits_surround_the_known_poses():
    scenario = scenario_of_facts(facts(max_hp=500, poses=Poses(fog_wall=at(10, 20, 5), boss_start=at(-30, 20, 1))))
    assert scenario.limits_m == (
        (-30 - REACH_M, 10 + REACH_M),
        (20 - REACH_M, 20 + REACH_M),
        (1 - DEPTH_M, 5 + DEPTH_M),
    )
    assert scenario.fall_m == 1 - DEPTH_M
    assert (scenario.floor_m, scenario.reward_centre_m) == (1, (-30, 20))  # of the boss, which is in the arena


def test_known_limits_are_used():
    limits = ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0))
    arena = ArenaFacts(limits_m=limits, reward_centre_m=(0.5, 2.5))
    scenario = scenario_of_facts(facts(max_hp=1, arena=arena, poses=Poses(fog_wall=at(0, 2, 4))))
    assert (scenario.limits_m, scenario.fall_m, scenario.reward_centre_m) == (limits, 4.0, (0.5, 2.5))


def test_without_start_poses_the_scenario_has_none():
    scenario = scenario_of_facts(load_boss_facts("elden_ring", "margit"))
    assert (scenario.player_pose, scenario.boss_pose, scenario.player_poses_random) == (None, None, ())
    assert (scenario.frame, scenario.player_max_hp, scenario.boss_max_hp) == ("player.block_position", None, 4174)


def test_a_second_phase_without_an_animation_is_left_out():
    vordt = load_boss_facts("dark_souls_3", "vordt")
    assert vordt.phase_two.begins_at == 0.6
    assert scenario_of_facts(vordt).phase_two_hp == 0
    known = msgspec.structs.replace(vordt, phase_two=msgspec.structs.replace(vordt.phase_two, animation="Attack3017"))
    scenario = scenario_of_facts(known)
    assert (scenario.phase_two_hp, scenario.phase_two_animation) == (int(0.6 * 1328), "Attack3017")


@pytest.mark.parametrize(
    ("fields", "fact"),
    [({"poses": Poses(fog_wall=at(0, 0, 0))}, "max_hp"), ({"max_hp": 5}, "poses.fog_wall")],
)
def test_missing_facts_are_refused(fields, fact):
    with pytest.raises(MissingFactError, match=fact):
        scenario_of_facts(facts(**fields))
