"""Players that leave the ground: teleports, and ends of episodes."""

import gymnasium
import numpy as np
import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.wrappers import Boundary, SafeGround
from soulslab.errors import EnvironmentUsageError, NotResetError
from support.players import script

SMALL = Boundary.circle((142.0, 594.0), 18.0)


def test_a_player_outside_is_teleported_back(make_live):
    inner = make_live(observation="dict")
    env = SafeGround(inner, SMALL, safe_m=1.0)
    env.reset(seed=0)  # it starts 21.3 m from the centre
    fight = inner.arena().fight
    *_, info = env.step(NOTHING)
    assert info["ground"]["is_outside"]
    assert info["ground"]["is_teleported"]
    assert info["ground"]["distance_m"] < -1.0
    assert SMALL.distance((fight.duel.p_x, fight.duel.p_y)) == pytest.approx(1.0, abs=1e-3)
    seen, *_, info = env.step(NOTHING)
    assert SMALL.distance(seen["player_pose"][:2]) == pytest.approx(1.0, abs=0.1)
    assert info["ground"] == {
        "is_outside": False,
        "distance_m": pytest.approx(1.0, abs=0.1),
        "is_teleported": False,
        "n_teleports": 1,
    }


def test_the_player_can_neither_die_nor_fall_during_a_teleport(make_live, monkeypatch):
    inner = make_live()
    env, written, write = SafeGround(inner, SMALL), [], inner.write_quantities

    def record(values):
        fight = inner.arena().fight
        written.append((tuple(values), bool(fight.no_death), bool(fight.no_gravity)))
        write(values)

    env.reset(seed=0)
    monkeypatch.setattr(inner, "write_quantities", record)
    assert env.step(NOTHING)[4]["ground"]["is_teleported"]
    flags = ("player.no_death", "player.no_gravity")
    assert written == [(flags, False, False), (("player.position",), True, True), (flags, True, True)]


def test_a_player_who_dies_outside_is_not_teleported(make_live):
    inner = make_live()
    env = SafeGround(inner, SMALL, beyond_m=1.0)
    env.reset(seed=0)
    fight = inner.arena().fight
    position = float(fight.duel.p_x), float(fight.duel.p_y)
    fight.duel.p_hp = 0.0
    *_, terminated, _, info = env.step(NOTHING)
    assert terminated
    assert (info["ground"]["is_outside"], info["ground"]["is_teleported"]) == (True, False)
    assert (fight.duel.p_x, fight.duel.p_y) == pytest.approx(position, abs=0.5)


def test_a_teleport_does_not_change_the_reward(make_live):
    env = SafeGround(make_live(reward={"centre": 1.0}), SMALL)
    env.reset(seed=0)
    assert env.step(NOTHING)[4]["ground"]["is_teleported"]
    _, reward, *_ = env.step(NOTHING)
    assert abs(reward) < 0.1  # 4 m nearer, but not walked


def test_a_fall_is_ended(make_live):
    inner = make_live(observation="dict")
    ground = Boundary.circle((142.0, 594.0), 24.0)
    env = SafeGround(inner, ground, beyond_m=5.0)
    env.reset(seed=0)
    fight = inner.arena().fight
    floor = float(fight.fight.floor)
    angle = 0.35  # the cliff
    fight.duel.p_x, fight.duel.p_y = 142.0 + 24.2 * np.cos(angle), 594.0 + 24.2 * np.sin(angle)
    *_, info = env.step(NOTHING)
    assert info["ground"]["is_teleported"]
    for _ in range(30):
        _, _, terminated, _, info = env.step(NOTHING)
        assert not info["ground"]["is_outside"]
    assert not fight.duel.p_falling
    assert fight.duel.p_z == floor
    assert not (fight.no_death or fight.no_gravity)
    assert info["ground"]["n_teleports"] == 1
    assert not terminated


@pytest.mark.parametrize("on_exit", ["terminate", "truncate"])
def test_leaving_the_ground_can_end_the_episode(make_duel, on_exit):
    env = SafeGround(make_duel(), SMALL, on_exit)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(NOTHING)
    assert (terminated, truncated) == (on_exit == "terminate", on_exit == "truncate")
    assert info["ground"]["is_outside"]
    with pytest.raises(NotResetError, match="left the ground"):
        env.step(NOTHING)
    env.reset(seed=0)
    env.step(NOTHING)


def test_no_teleport_within_the_tolerance(make_duel):
    env = SafeGround(make_duel(), SMALL, "terminate", beyond_m=30.0)
    env.reset(seed=0)
    for action in script(0, 30):
        *_, info = env.step(int(action))
        assert not info["ground"]["is_outside"]


def test_a_player_below_the_lowest_height_is_outside(make_duel):
    env = SafeGround(make_duel(), SMALL, "truncate", beyond_m=30.0, lowest_m=-60.0)  # the floor is at -68.8
    env.reset(seed=0)
    assert env.step(NOTHING)[3]


@pytest.mark.parametrize("wrong", [{"on_exit": "teleprot"}, {"safe_m": 0.0}, {"safe_m": 19.0}, {"beyond_m": -2.0}])
def test_wrong_options(make_live, wrong):
    with pytest.raises(EnvironmentUsageError, match=r"SafeGround|largest distance"):
        SafeGround(make_live(), SMALL, **wrong)


def test_teleports_in_a_simulator_are_refused():
    with pytest.raises(EnvironmentUsageError, match=r"SafeGround\(on_exit='teleport'\) needs a running game"):
        SafeGround(gymnasium.make("soulslab/Arena-v0"), SMALL)
