"""Faults in the entrance and in the fight of a real game: errors, limited retries, and recovery by the next reset."""

import logging
import time
from functools import partial

import pytest

from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.game.session_holder import AttributeGate
from soulslab.envs.tasks.duel.episode import UNLOCKED_READINGS
from soulslab.envs.tasks.souls import souls_entrance as entrance
from soulslab.errors import EntityNotFoundError, EnvironmentUsageError, PointerError, ProfileError, ResetFailedError
from support.long_form import IS_LONG
from support.souls_env import BOSSES

N_TRIES = 4


#: Each boss; in the short form one boss of each game.
each_boss = pytest.mark.parametrize(("game", "boss"), BOSSES if IS_LONG else BOSSES[1:])


def check_failure(souls, caplog, state, saw):
    """Check that a reset fails in a state after all tries, and that the log has the reason of each."""
    with caplog.at_level(logging.WARNING), pytest.raises(ResetFailedError) as caught:
        souls.env.reset()
    error = caught.value
    assert error.state == state
    assert saw in error.saw
    assert len(error.reasons) == souls.log.reasons[state] == N_TRIES
    assert souls.log.n_retries == N_TRIES - 1
    # The third try and the fourth begin with a restart of the game.
    assert souls.log.n_game_restarts == 2
    lines = [record.getMessage() for record in caplog.records if "a reset failed" in record.getMessage()]
    assert len(lines) == N_TRIES
    assert all(f"state {state!r}" in line and saw in line for line in lines)


# --- the entrance -----------------------------------------------------------------------------------------------


@each_boss
def test_a_missing_boss_fails_in_state_boss(make, caplog, game, boss):
    def arrange(world):
        world.has_boss = False

    souls = make(game, boss, arrange)
    saw = "none of" if game == "elden_ring" else "is a null pointer"
    check_failure(souls, caplog, "boss", saw)
    souls.session.arrange = None
    souls.env.reset()
    souls.check_fight()


@each_boss
def test_another_boss_is_not_retried(make, game, boss):
    souls = make(game, boss, expected={"max_hp": 1999})
    with pytest.raises(EnvironmentUsageError, match=r"health of 1037 in the game, and 1999 in its file.*max_hp = 1037"):
        souls.env.reset()
    assert (souls.log.n_retries, souls.log.n_game_restarts) == (0, 0)


@each_boss
def test_another_character_is_refused_before_the_entrance(make, game, boss):
    souls = make(game, boss, expected={"player_max_hp": 600})
    with pytest.raises(EnvironmentUsageError, match=r"full health of 454 in the game, and 600 .*player_max_hp = 454"):
        souls.env.reset()
    assert souls.world.at == "outside"


@each_boss
def test_a_closed_fog_fails_in_state_fog(make, caplog, game, boss):
    def arrange(world):
        world.is_fog_open = False

    souls = make(game, boss, arrange)
    check_failure(souls, caplog, "fog", "(True, (")
    assert {"interact", "forward"} <= set(souls.world.keys)
    souls.session.arrange = None
    souls.env.reset()
    souls.check_fight()


@pytest.mark.parametrize("fault", ["death_s", "load_s"])
@each_boss
def test_a_warp_without_a_load_fails_in_state_warp(make, caplog, game, boss, fault):
    def arrange(world):
        def be_stuck():
            if world.at == "outside":
                setattr(world, fault, 1e9)

        world.rest_elsewhere()
        world.on_advance = be_stuck

    souls = make(game, boss, arrange)
    with pytest.raises(ResetFailedError) as caught, caplog.at_level(logging.WARNING):
        souls.env.reset()
    assert any("state 'warp'" in reason for reason in caught.value.reasons)
    assert ("dead" if fault == "death_s" else "loading") == souls.world.at


def test_a_title_that_ignores_keys_fails_in_state_title(make, caplog):
    def arrange(world):
        world.is_deaf = True

    souls = make("elden_ring", "margit", arrange)
    check_failure(souls, caplog, "title", "'title'")


def test_an_endless_load_fails_in_state_load(make, caplog):
    def arrange(world):
        world.load_s = 1e9

    souls = make("dark_souls_3", "vordt", arrange)
    check_failure(souls, caplog, "load", "PlayerStatus(screen='loading', is_in_control=False, hp=0)")


def test_flags_that_cannot_be_changed_fail_in_state_flags(make, caplog):
    def arrange(world):
        def forget():
            world.flags.set(14000800, True)

        world.on_advance = forget

    souls = make("dark_souls_3", "iudex", arrange)
    check_failure(souls, caplog, "flags", "flag 14000800")


def test_flags_that_cannot_be_read_fail_in_state_flags(make, caplog):
    def arrange(world):
        world.flags.forget_areas()

    souls = make("dark_souls_3", "iudex", arrange)
    check_failure(souls, caplog, "flags", "block 0 of area 40 is not loaded")


def test_a_world_that_unloads_in_a_self_check_is_retried(make, monkeypatch):
    monkeypatch.setattr(entrance, "AttributeGate", partial(AttributeGate, loading_s=0.0))
    souls = make("dark_souls_3", "vordt")
    examine, at = souls.session.examine, []

    def leave_at_first(names=None):
        if souls.world.at == "outside" and not at:
            at.append(souls.world.at)
            souls.world.leave()
        return examine(names)

    souls.session.examine = leave_at_first
    souls.env.reset()
    assert at
    assert souls.log.reasons == {"check": 1}
    assert "failed the self-check" in souls.log.latest[0]
    souls.check_fight()


def test_states_end_at_the_wall_time_deadline_of_the_reset(make):
    def arrange(world):
        world.load_s = 1e9

    souls = make("dark_souls_3", "iudex", arrange, reset_deadline_s=0.01)
    with pytest.raises(ResetFailedError, match=r"state '(title|load)' of the reset") as caught:
        souls.env.reset()
    assert len(caught.value.reasons) == 1


def test_the_last_value_is_reported_at_the_wall_time_deadline(make):
    def arrange(world):
        world.on_advance = lambda: time.sleep(3.2) if world.at == "loading" else None

    souls = make("dark_souls_3", "iudex", arrange, reset_deadline_s=3.0)
    with pytest.raises(ResetFailedError, match=r"last values: .*(title|loading).*, when all 3 s were over"):
        souls.env.reset()


def test_the_reason_of_a_warp_is_logged(make, caplog):
    souls = make("dark_souls_3", "iudex", lambda world: world.rest_elsewhere())
    with caplog.at_level(logging.INFO):
        souls.env.reset()
    assert "warp to 'Iudex Gundyr' for Iudex Gundyr, because the fog is far away" in caplog.text


def test_a_second_try_at_the_fog_is_logged(make, caplog):
    def arrange(world):
        world.needs_forward = True

    souls = make("dark_souls_3", "iudex", arrange)
    with caplog.at_level(logging.INFO):
        souls.env.reset()
    assert "waited 1.0 s for the fog to be passed, with E pressed before it; last value: (True, (" in caplog.text
    assert "a step forward, with W pressed too" in caplog.text


def test_a_profile_without_the_key_is_not_retried(monkeypatch, make):
    souls = make("dark_souls_3", "iudex")
    monkeypatch.delitem(souls.session.profile.keys, "interact")
    with pytest.raises(ProfileError, match=r"keys\.interact"):
        souls.env.reset()
    assert souls.log.n_retries == 0


# --- the fight --------------------------------------------------------------------------------------------------


@each_boss
def test_a_null_pointer_during_a_step_is_an_error(make, game, boss):
    souls = make(game, boss)
    souls.env.reset()
    souls.world.has_boss = False
    with pytest.raises((PointerError, EntityNotFoundError), match=r"null pointer|none of"):
        souls.env.step(NOTHING)
    assert souls.env.needs_reset
    souls.world.has_boss = True
    souls.env.reset()
    assert souls.log.n_game_restarts == 0
    souls.check_fight()


@pytest.mark.parametrize("episodes", ["in_place", "demo"])
@each_boss
def test_a_load_during_a_step_is_an_error(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    souls.env.reset()
    souls.world.load()
    with pytest.raises(PointerError, match="the game may be loading"):
        souls.env.step(NOTHING)
    souls.env.reset()
    assert souls.log.n_game_restarts == 0
    souls.check_fight()


@each_boss
def test_a_lost_lock_on_is_restored(make, game, boss):
    souls = make(game, boss)
    souls.env.reset()
    souls.world.fight.no_attack = True
    souls.world.is_lock_lost = True
    locks = []
    for _ in range(3 * UNLOCKED_READINGS):
        observation, *_ = souls.env.step(NOTHING)
        locks.append(int(observation["lock_on"]))
    assert locks[0] == 0
    assert locks[-1] == 1
    assert "lock_on" in souls.keys_down()


@each_boss
def test_an_unknown_animation_is_minus_one(make, game, boss):
    souls = make(game, boss)
    souls.env.reset()
    unknown = 987_654 if game == "elden_ring" else "Pirouette"
    souls.world.shown = {"boss.animation": unknown, "player.animation": 987_653 if game == "elden_ring" else "Juggle"}
    for _ in range(5):
        observation, *_, info = souls.env.step(NOTHING)
        assert observation["boss_animation"] == observation["player_animation"] == -1
        assert info["action_mask"][NOTHING]
        assert info["action_mask"].dtype == bool
    souls.world.shown = {}
    observation, *_ = souls.env.step(NOTHING)
    assert observation["player_animation"] >= 0
