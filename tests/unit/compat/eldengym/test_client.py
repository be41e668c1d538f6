"""Tests of ``env.client``, and of EldenGym's wrappers around soulslab's environment."""

import eldengym as public
import numpy as np
import pytest
from shapely.geometry import Polygon

from soulslab.compat.eldengym.eldengym_observation import PUBLIC_ATTRIBUTES
from soulslab.errors import EnvironmentUsageError, ReadOnlyError, UnknownAttributeError


@pytest.fixture
def env(make):
    one = make()
    one.reset(seed=0)
    return one


def wait(env):
    return env.step(np.zeros(len(env.unwrapped.action_keys), np.int8))


def test_the_client_reads_the_observed_values(env):
    seen, client = wait(env)[0], env.client
    assert (client.player_hp, client.player_max_hp) == (seen["HeroHp"], seen["HeroMaxHp"])
    assert (client.target_hp, client.target_max_hp) == (seen["NpcHp"], seen["NpcMaxHp"])
    assert (client.player_animation_id, client.target_animation_id) == (seen["HeroAnimId"], seen["NpcAnimId"])
    assert client.global_player_coords == pytest.approx([float(seen[f"player_{axis}"]) for axis in "xyz"])
    assert client.global_target_coords == pytest.approx([float(seen[f"boss_{axis}"]) for axis in "xyz"])
    assert client.target_player_distance == pytest.approx(float(seen["dist_to_boss"]), abs=1e-3)
    for name in PUBLIC_ATTRIBUTES:
        assert client.get_attribute(name)["success"]
    assert [client.get_attribute(f"NpcLocalPos{axis}")["value"] for axis in "XYZ"] == list(client.local_target_coords)
    assert client.get_attribute("HeroLocalPosZ")["value"] == client.local_player_coords[2]
    assert client.get_attribute("boss.poise")["value"] == env.session.read("boss.poise")


def test_written_values_are_observed_in_the_next_step(env):
    env.client.set_player_hp(77)
    env.client.set_target_hp(88)
    env.client.set_attribute("HeroSp", 11, "int")
    seen = wait(env)[0]
    assert (seen["HeroHp"], seen["NpcHp"]) == (77, 88)
    assert 10 <= env.session.read("player.sp") <= 15
    x = env.client.local_player_coords[0]
    env.client.set_attribute("HeroLocalPosX", x + 1.0, "float")
    wait(env)
    assert env.client.local_player_coords[0] == pytest.approx(x + 1.0, abs=0.05)


def test_teleport_uses_the_coordinates_of_observations(env):
    before = wait(env)[4]["player_xyz"]
    env.client.teleport_to(before[0] - 2.0, before[1] + 1.0, before[2])
    assert wait(env)[4]["player_xyz"] == pytest.approx((before[0] - 2.0, before[1] + 1.0, before[2]), abs=0.1)


def test_unknown_and_read_only_attributes_are_errors(env):
    with pytest.raises(UnknownAttributeError, match="HeroHp"):
        env.client.get_attribute("HeroHP")
    with pytest.raises(ReadOnlyError):
        env.client.set_attribute("NpcMaxHp", 5)


def test_the_speed_does_not_change_the_game_time_of_a_step(env):
    env.client.set_game_speed(3.0)
    before = wait(env)[4]["game_time_s"]
    assert wait(env)[4]["game_time_s"] - before == pytest.approx(1 / 60, abs=1e-5)
    with pytest.raises(EnvironmentUsageError, match=r"game_speed: expected a number >= 0\.01"):
        env.client.set_game_speed(0)


def test_start_scenario_starts_a_fight_as_reset_does(env, session):
    session.write({"player.hp": 0})
    assert wait(env)[2]
    env.client.start_scenario()
    assert not wait(env)[2]
    with pytest.raises(EnvironmentUsageError, match="make one for Godrick"):
        env.client.start_scenario("Godrick-v0")


def test_load_config_from_file_returns_eldengym_s_format(env, session):
    parts = env.client.load_config_from_file("ER_1_16_1.toml", wait_time=2)
    assert set(parts) == {"config", "memory", "input", "capture"}
    assert all(part["success"] for part in parts.values())
    assert parts["memory"]["process_id"] == session.info.pid
    assert (parts["capture"]["window_width"], parts["capture"]["window_height"]) == session.info.window_px


def test_missing_members_of_eldengym_s_client_name_a_replacement(env):
    for name in dir(public.EldenClient):
        # FrameStreamHandle is a type of pysiphon.
        if not name.startswith("_") and name != "FrameStreamHandle" and not hasattr(type(env.client), name):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'; "):
                getattr(env.client, name)
    with pytest.raises(AttributeError, match=r"'nothing'$"):
        env.client.nothing  # noqa: B018


def test_eldengym_s_wrappers_work(make):
    env = public.DictFrameStack(public.DictGrayscaleFrame(public.DictResizeFrame(make(), width=64, height=36)))
    env = public.NormalizeMemoryAttributes(public.AnimFrameWrapper(public.HPRefundWrapper(env)), {"NpcHp": (0, 1037)})
    env.reset(seed=0)
    env.unwrapped.client.set_player_hp(100)
    seen, _, _, _, info = wait(env)
    assert info["player_damage_taken"] == 354
    assert seen["frame"].shape[:2] == (36, 64)
    assert seen["NpcHp"] == 1.0
    assert "elapsed_frames" in seen
    assert wait(env)[4]["player_hp_normalized"] == 1.0


def test_the_wrappers_of_eldengym_s_dodge_example_work(make):
    env = make(actions=["move_left", "dodge_roll/dash"], frame_px=None)
    corners = [(-40, -40), (40, -40), (40, 40), (-40, 40)]
    x, y, _ = env.reset(seed=0)[1]["player_xyz"]
    boundary = public.ArenaBoundary(Polygon([(y + a, -x + b) for a, b in corners]), resolution=4.0)
    env = public.SDFObsWrapper(public.AnimFrameWrapper(public.HPRefundWrapper(env)), boundary)
    env = public.DodgePolicyRewardWrapper(public.OOBSafetyWrapper(env, boundary), dodge_action_idx=1)
    env.reset(seed=0)
    env.unwrapped.client.set_player_hp(100)
    seen, reward, _, _, info = env.step(np.array([0, 1], np.int8))
    assert -44 < seen["sdf_value"] < -35
    assert (info["oob_detected"], info["reward_hit_penalty"]) == (False, -1.0)
    assert reward == pytest.approx(-354 / 454 - 1.0 - 0.01, abs=1e-4)


def test_eldengym_s_boundary_wrapper_teleports_the_player_back(make):
    corners = [(-40.0, -40.0), (40.0, -40.0), (40.0, 40.0), (-40.0, 40.0)]
    env = make()
    x, y, height = env.reset(seed=0)[1]["player_xyz"]
    # OOBSafetyWrapper swaps the axes of its boundary: (y, -x).
    ring = np.array([(y + a, -x + b) for a, b in corners])
    env = public.OOBSafetyWrapper(env, Ring(ring), soft_margin=3.0)
    env.reset(seed=0)
    wait(env)
    env.unwrapped.client.teleport(x, y + 45.0, height)
    assert wait(env)[4]["teleported"]
    assert wait(env)[4]["player_xyz"][1] == pytest.approx(y, abs=1.0)


class Ring:
    """A square boundary for EldenGym's wrapper: the distance to the edge is negative inside."""

    def __init__(self, corners):
        self._low, self._high = corners.min(axis=0), corners.max(axis=0)

    def nearest_distance(self, x, y):
        point = np.array([x, y])
        return float(max(np.max(self._low - point), np.max(point - self._high)))
