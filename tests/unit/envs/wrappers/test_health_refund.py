"""Health refunds: in the game, after the hit, without an effect on the reward."""

import gymnasium
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.tasks.duel.arena_live import ArenaLiveEnv
from soulslab.envs.wrappers import HealthRefund
from soulslab.errors import EnvironmentUsageError, NotResetError, ProcessExitedError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import load_profile
from soulslab.testing.fake_arena import FakeArenaSession


def steps(env, n, action=NOTHING, seed=0):
    """Yield the result of each step, up to the end."""
    env.reset(seed=seed)
    for _ in range(n):
        step = env.step(action)
        yield step
        if step[2] or step[3]:
            return


def test_a_hit_is_observed_and_refunded(make_live):
    inner = make_live(observation="dict")
    env = HealthRefund(inner)
    full, n_hits = 454.0, 0
    for seen, _, terminated, _, info in steps(env, 150):
        refund = info["refund"]
        assert set(refund) == {"player_lost", "player_given", "boss_lost", "boss_given"}
        assert refund["player_lost"] == full - seen["player_hp"][0]
        assert info["reward_terms"]["player_damage"] == pytest.approx(-refund["player_lost"] / full)
        if not terminated:
            assert refund["player_given"] == refund["player_lost"]
            assert inner.arena().fight.duel.p_hp == full
        n_hits += refund["player_lost"] > 0
    assert n_hits >= 3  # without the refund the third blow kills


def test_without_refunds_the_same_fight_is_lost_sooner(make_live):
    alone, refunded = (sum(1 for _ in steps(env, 150)) for env in (make_live(), HealthRefund(make_live())))
    assert alone < refunded


def test_a_share_of_each_hit(make_live):
    env = HealthRefund(make_live(), share=0.5)
    given = [(info["refund"], terminated) for _, _, terminated, _, info in steps(env, 150)]
    hits = [refund for refund, is_over in given if refund["player_lost"] and not is_over]
    assert hits
    assert all(refund["player_given"] == refund["player_lost"] / 2 for refund in hits)


def test_refunds_over_time(make_live):
    inner = make_live(observation="dict")
    env = HealthRefund(inner, when="time", share=0.1)
    hp = [454.0]
    for seen, _, terminated, _, info in steps(env, 100):
        lost, given = info["refund"]["player_lost"], info["refund"]["player_given"]
        assert seen["player_hp"][0] == pytest.approx(max(hp[-1] - lost, 0.0), abs=1e-3)
        hp.append(seen["player_hp"][0] + given)
        if not terminated:
            assert given == pytest.approx(min(4.54, 454.0 - seen["player_hp"][0]), abs=1e-3)
    assert min(hp) < 400.0


def test_a_refund_with_the_second_phase(make_live):
    inner = make_live(observation="dict", reward={"player_damage": -1.0})
    env = HealthRefund(inner, of=["player", "boss"], when="phase")
    env.reset(seed=0)
    fight = inner.arena().fight
    fight.duel.p_hp, fight.duel.b_hp = 100.0, 520.0
    given = []
    for _ in range(100):
        fight.duel.p_invulnerable = 10
        if fight.duel.phase == 1:
            fight.duel.b_hp = min(fight.duel.b_hp, float(fight.fight.phase_two_hp))
        *_, info = env.step(NOTHING)
        given.append(info["refund"])
        if info["refund"]["player_given"]:
            break
    assert given[-1]["player_given"] == 354.0
    assert given[-1]["boss_given"] == 1037.0 - 518.0
    assert (fight.duel.p_hp, fight.duel.b_hp) == (454.0, 1037.0)
    assert sum(refund["player_given"] for refund in given[:-1]) == 0.0


def test_refunds_do_not_change_the_reward(make_live):
    env = HealthRefund(make_live(reward={"player_damage": -1.0, "boss_damage": 1.0}), of=["player", "boss"])
    for _, reward, _, _, info in steps(env, 100):
        assert reward <= 0.0 or info["refund"]["boss_lost"] > 0.0
        lost = info["refund"]["boss_lost"] / 1037.0 - info["refund"]["player_lost"] / 454.0
        assert reward == pytest.approx(lost)


def test_keeps_alive_survives_every_blow(make_live):
    inner = make_live(observation="dict")
    env = HealthRefund(inner, keeps_alive=True)
    env.reset(seed=0)
    fight = inner.arena().fight
    for _ in range(60):
        fight.duel.p_hp = min(fight.duel.p_hp, 20.0)  # any blow would kill
        _, _, terminated, _, _ = env.step(NOTHING)
        assert not terminated
    assert fight.no_death
    env.close()
    env.close()
    assert not fight.no_death


@settings(max_examples=5)
@example(when="time", share=1.0, seed=0)  # due in each step: a tenth of the full health
@given(when=st.sampled_from(["hit", "time", "phase"]), share=st.floats(0, 1), seed=st.integers(0, 1000))
def test_refunds_are_at_most_the_missing_health(make_live_once, when, share, seed):
    env = HealthRefund(make_live_once, of=["player", "boss"], when=when, share=share)
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    for _ in range(30):
        seen, _, terminated, _, info = env.step(int(rng.integers(20)))
        for who in ("player", "boss"):
            assert 0.0 <= info["refund"][f"{who}_given"] <= seen[f"{who}_max_hp"] - seen[f"{who}_hp"][0] + 1e-3
        if terminated:
            break


@pytest.fixture(scope="module")
def make_live_once():
    env = ArenaLiveEnv(session=FakeArenaSession(), observation="dict")
    yield env
    env.close()


@pytest.mark.parametrize(
    "wrong", [{"of": []}, {"of": "player"}, {"of": ["boos"]}, {"when": "hits"}, {"share": -1.0}, {"share": 1.1}]
)
def test_wrong_options(make_live, wrong):
    with pytest.raises(EnvironmentUsageError, match="HealthRefund"):
        HealthRefund(make_live(), **wrong)


def test_a_simulator_cannot_be_written():
    with pytest.raises(EnvironmentUsageError, match=r"HealthRefund needs a running game .*ArenaEnv has none"):
        HealthRefund(gymnasium.make("soulslab/Arena-v0"))


def test_episodes_in_place_are_refused(make_live):
    with pytest.raises(EnvironmentUsageError, match=r"HealthRefund: .*use episodes='demo'"):
        HealthRefund(make_live(episodes="in_place"))


def test_keeps_alive_needs_the_quantity():
    profile = load_profile(PROFILE_PATH)
    bound = {name: place for name, place in profile.duel["attributes"].items() if name != "player.no_death"}
    profile = msgspec.structs.replace(profile, duel={**profile.duel, "attributes": bound})
    env = HealthRefund(ArenaLiveEnv(session=FakeArenaSession(profile=profile)), keeps_alive=True)
    with pytest.raises(EnvironmentUsageError, match=r"needs player.no_death, which the game's profile does not have"):
        env.reset(seed=0)
    env.close()


def test_a_failed_refund_is_an_error_and_the_next_reset_recovers(make_live):
    inner = make_live()
    env = HealthRefund(inner, when="time")
    env.reset(seed=0)
    arena = inner.arena()
    arena.is_alive = False
    with pytest.raises(ProcessExitedError):
        inner.write_quantities({"player.hp": 1.0})
    with pytest.raises(NotResetError):
        env.step(NOTHING)
    env.reset(seed=0)
    assert inner.arena() is not arena
    env.step(NOTHING)


def test_the_environment_of_a_game_that_has_ended_is_closed(make_live):
    inner = make_live()
    env = HealthRefund(inner, keeps_alive=True)
    env.reset(seed=0)
    arena = inner.arena()
    arena.is_alive = False
    with pytest.raises(ProcessExitedError):
        env.step(NOTHING)
    env.close()
    with pytest.raises(NotResetError):
        inner.step(NOTHING)
