"""The entrance into the fight of a real game from any state, with memory in the layout of its profile."""

from pathlib import Path

import numpy as np
import pytest

from soulslab.arena.live_fight import BUTTONS
from soulslab.arena.vocabulary import NOTHING
from soulslab.envs.tasks.souls.souls_entrance import GAMES, SoulsEntrance
from soulslab.errors import EnvironmentUsageError, MissingFactError, PointerError, ResetFailedError
from soulslab.games import profile_path
from soulslab.games.boss_facts import boss_names, load_boss_facts
from soulslab.siphon.profile import load_profile
from support.long_form import IS_LONG
from support.souls_env import BOSSES

every_boss = pytest.mark.parametrize(("game", "boss"), BOSSES)
of_kind = pytest.mark.parametrize("episodes", ["in_place", "demo"])


# --- to the first fight -----------------------------------------------------------------------------------------


@of_kind
@every_boss
def test_the_first_reset_leads_from_the_title_into_the_fight(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    assert souls.world.at == "title"
    souls.env.reset(seed=1)
    # In a new save of Dark Souls III the flags of the encounter are not set; they take effect at the next load.
    assert souls.world.n_loads == (1 if boss == "margit" else 2)
    assert (souls.log.n_retries, souls.log.n_game_restarts) == (0, 0)
    souls.check_fight()


@pytest.mark.parametrize("version", load_profile(profile_path(Path("elden_ring"))).process.versions)
def test_each_version_of_elden_ring_has_its_boss(make, version):
    souls = make("elden_ring", "margit", of_session={"version": version})
    souls.env.reset(seed=1)
    assert souls.session.info.version == version
    souls.check_fight()


@every_boss
def test_the_entrance_from_the_bonfire_needs_no_load(make, game, boss):
    souls = make(game, boss)
    souls.env.reset()
    souls.world.load()
    souls.session.clock.advance(2.0)
    assert souls.world.at == "outside"
    n_loads = souls.world.n_loads
    souls.env.reset()
    assert souls.world.n_loads == n_loads
    souls.check_fight()


@of_kind
@every_boss
def test_a_game_in_the_fight_needs_no_entrance(make, game, boss, episodes):
    souls = make(game, boss, lambda world: world.be_in_fight(), episodes=episodes)
    flags = dict(souls.session.snapshot([name for name in souls.session.profile.attributes if "iudex_" in name]))
    souls.env.reset()
    assert {"interact", "forward"}.isdisjoint(souls.keys_down())
    assert souls.world.n_loads == souls.log.n_respawns == 0
    assert {name: souls.session.read(name) for name in flags} == flags
    souls.check_fight()


def test_a_fight_that_has_begun_is_not_used_for_a_demo_episode(make):
    souls = make("dark_souls_3", "iudex", lambda world: world.be_in_fight(), episodes="demo")
    souls.duel.b_hp -= 100
    souls.session.clock.advance(1 / 60)
    souls.env.reset()
    assert souls.log.n_respawns == 1
    souls.check_fight()


@every_boss
def test_a_player_who_rested_elsewhere_is_warped(make, game, boss):
    souls = make(game, boss, lambda world: world.rest_elsewhere())
    souls.env.reset()
    assert souls.log.n_respawns == 1
    assert souls.game.last_rest_point == souls.session.facts.warp_points[0]
    souls.check_fight()


@every_boss
def test_a_boss_that_was_beaten_in_the_save_is_restored(make, game, boss):
    flag = load_boss_facts(game, boss).defeat_flag
    souls = make(game, boss, lambda world: world.flags.set(flag, True))
    assert souls.game.event_flags[flag]
    souls.env.reset()
    assert not souls.game.event_flags[flag]
    assert souls.log.n_respawns == 1
    souls.check_fight()


def test_the_dark_version_of_the_place_is_left(make):
    def be_dark(world):
        world.graves = 0x0A

    souls = make("dark_souls_3", "iudex", be_dark)
    souls.env.reset()
    assert souls.session.read("world.untended_graves") == 0
    souls.check_fight()


@pytest.mark.parametrize(("game", "boss"), BOSSES[:2])
def test_the_camera_faces_the_fog(make, game, boss):
    souls, looks = make(game, boss), []

    def look():
        if "interact" in souls.world.keys[-1:] and souls.world.at == "fog":
            looks.append(souls.game.camera.pose.direction)

    souls.world.on_advance = look
    souls.env.reset()
    poses = souls.session.facts.poses
    way = np.subtract(poses.behind_fog_wall.position_m, poses.fog_wall.position_m)[:2]
    assert looks[0] == pytest.approx((*way / np.linalg.norm(way), 0.0), abs=1e-5)


def test_a_fog_that_needs_walking_is_passed(make):
    def arrange(world):
        world.needs_forward = True

    souls = make("elden_ring", "margit", arrange)
    souls.env.reset()
    assert "forward" in souls.world.keys
    souls.check_fight()


@of_kind
@every_boss
def test_the_boss_is_locked_on(make, game, boss, episodes):
    def be_unlocked(world):
        world.is_lock_lost = True

    souls = make(game, boss, be_unlocked, episodes=episodes)
    souls.env.reset()
    # A demo episode starts without a lock; the first decision requests it.
    souls.env.step(NOTHING)
    assert "lock_on" in souls.keys_down()
    # The built-in fight does not lock on a boss behind the camera; it turns the camera first.
    locks = [souls.env.step(NOTHING)[0]["lock_on"] for _ in range(20)]
    assert locks[-1] == 1


@of_kind
def test_the_lock_reaches_across_the_arena_until_the_end(make, episodes):
    souls = make("dark_souls_3", "iudex", episodes=episodes)
    poses = souls.session.facts.poses
    distance_m = np.linalg.norm(np.subtract(poses.player_start.position_m, poses.boss_start.position_m))
    before = souls.game.camera.lock_range_m, souls.game.camera.lock_sight_time_s
    for _ in range(2):
        souls.env.reset()
        # The lock-on reaches 15 m by itself (SoulsGym).
        assert 15.0 < distance_m < 15.0 + souls.game.camera.lock_range_m
        assert souls.game.camera.lock_sight_time_s > before[1]
    souls.env.episode.release(souls.env.game)
    assert (souls.game.camera.lock_range_m, souls.game.camera.lock_sight_time_s) == before


@every_boss
def test_a_failed_reset_clears_all_flags(make, game, boss):
    def attack_on(world):
        world.shown = {"boss.animation": {"elden_ring": 3000}.get(game, "ThrowAtk")}

    souls = make(game, boss, attack_on)
    flags = [name for name in ("player.no_death", "boss.no_attack") if name in souls.session.profile.attributes]
    with pytest.raises(ResetFailedError, match="the boss to rest"):
        souls.env.reset()
    assert all(souls.session.snapshot(flags).values())
    session, kept = souls.session, {}
    session.close, close = lambda: kept.update(session.snapshot(flags)), session.close
    souls.env.close()
    close()
    assert set(kept) == set(flags)
    assert not any(kept.values())


def test_unknown_animations_do_not_delay_the_reset(make):
    souls = make("elden_ring", "margit")
    # The numbers in the test's table are not used by the game.
    souls.world.shown = {"player.animation": 2020, "boss.animation": 1702}
    souls.env.reset()
    assert souls.log.n_retries == 0
    souls.check_fight()


# --- to the next one --------------------------------------------------------------------------------------------


@every_boss
def test_resets_in_place_need_no_load(make, game, boss):
    souls = make(game, boss)
    souls.env.reset(seed=3)
    n_loads, n_fights = souls.world.n_loads, souls.world.fight.n_fights
    for _ in range(3):
        for _ in range(15):
            souls.env.step(0)
        souls.env.reset()
        souls.check_fight()
    assert (souls.world.n_loads, souls.world.fight.n_fights) == (n_loads, n_fights)


@every_boss
def test_after_a_death_the_game_loads_by_itself(make, game, boss):
    souls = make(game, boss, episodes="demo")
    for _ in range(3):
        souls.env.reset()
        n_respawns, n_loads = souls.log.n_respawns, souls.world.n_loads
        souls.duel.p_hp = 0.0
        *_, is_over, _, info = souls.env.step(NOTHING)
        assert is_over
        assert not info["fight"]["won"]
        souls.env.reset()
        assert (souls.log.n_respawns, souls.world.n_loads) == (n_respawns, n_loads + 1)
        souls.check_fight()
    assert souls.log.n_retries == 0


@every_boss
def test_after_a_win_the_boss_is_restored(make, game, boss):
    souls = make(game, boss, episodes="demo")
    for _ in range(2):
        souls.env.reset()
        souls.duel.phase, souls.duel.b_hp = 2, 0.0
        *_, is_over, _, info = souls.env.step(NOTHING)
        assert is_over
        assert info["fight"]["won"]
        assert souls.world.at == "won"
        assert souls.game.event_flags[souls.session.facts.defeat_flag]
        n_respawns = souls.log.n_respawns
        souls.env.reset()
        assert souls.log.n_respawns == n_respawns + 1
        assert not souls.game.event_flags[souls.session.facts.defeat_flag]
        souls.check_fight()
    assert souls.log.n_retries == 0


@every_boss
def test_a_defeat_flag_that_is_set_late_is_cleared(make, game, boss):
    souls = make(game, boss, episodes="demo")
    souls.env.reset()
    souls.world.defeat_s = 2.0
    souls.duel.phase, souls.duel.b_hp = 2, 0.0
    souls.env.step(NOTHING)
    assert not souls.game.event_flags[souls.session.facts.defeat_flag]
    n_respawns = souls.log.n_respawns
    souls.env.reset()
    # Once to leave, and once more for the flag.
    assert souls.log.n_respawns == n_respawns + 2
    assert not souls.game.event_flags[souls.session.facts.defeat_flag]
    souls.check_fight()


def test_a_truncated_episode_is_left_by_a_death(make):
    souls = make("dark_souls_3", "iudex", episodes="demo", max_episode_steps=3)
    souls.env.reset()
    n_respawns = souls.log.n_respawns
    assert [souls.env.step(NOTHING)[3] for _ in range(3)] == [False, False, True]
    souls.env.reset()
    assert souls.log.n_respawns == n_respawns + 1
    souls.check_fight()


def test_the_first_phase_is_restored_by_a_load(make):
    souls = make("dark_souls_3", "iudex")
    observation, _ = souls.env.reset(seed=1)
    n_loads = souls.world.n_loads
    full = souls.duel.p_hp

    def heal():
        souls.duel.p_hp = full

    souls.world.on_advance = heal
    for _ in range(300):
        if observation["phase"] == 2:
            break
        if souls.duel.phase == 1:
            souls.duel.b_hp = max(souls.duel.b_hp - 40, 1)
        observation, *_ = souls.env.step(NOTHING)
    assert (observation["phase"], souls.duel.phase) == (2, 2)
    souls.env.reset()
    assert souls.world.n_loads == n_loads + 1
    assert souls.log.n_game_restarts == 0
    souls.check_fight()


def test_an_old_load_is_followed_by_another(make):
    souls = make("dark_souls_3", "iudex", reload_minutes=1e-9)
    souls.env.reset()
    n_loads = souls.world.n_loads
    souls.env.reset()
    assert souls.world.n_loads == n_loads + 1
    assert souls.log.n_game_restarts == 0
    souls.check_fight()


def happen(souls, event):
    """Cause an event in a fight, and step until the episode ends, for a limited number of steps."""
    if event == "death":
        souls.duel.p_hp = 0.0
    elif event == "win":
        souls.duel.phase, souls.duel.b_hp = 2, 0.0
    elif event == "load":
        souls.world.load()
    for _ in range(4):
        try:
            *_, is_over, _, _ = souls.env.step(NOTHING)
        except PointerError:
            assert event == "load"
            return
        if is_over:
            return


@of_kind
@every_boss
def test_a_reset_after_random_events_ends_in_the_fight(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    rng = np.random.default_rng([len(boss), len(episodes)])
    souls.env.reset(seed=5)
    for event in rng.choice(["death", "win", "load", "nothing"], 16 if IS_LONG else 6):
        happen(souls, event)
        # A reset is possible at any time: during a death, during a load, or long after them.
        souls.session.clock.advance(float(rng.uniform(0.0, 6.0)))
        souls.env.reset()
        souls.check_fight()
    assert souls.log.n_retries == souls.log.n_game_restarts == 0


# --- what is missing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boss", boss_names("elden_ring"))
def test_a_boss_without_a_position_before_the_fog_is_refused(boss):
    facts = load_boss_facts("elden_ring", boss)
    if boss == "margit":
        SoulsEntrance(facts, GAMES["elden_ring"])
        return
    with pytest.raises(MissingFactError, match=r"poses\.fog_wall: stand before the fog and read player\.position"):
        SoulsEntrance(facts, GAMES["elden_ring"])


@pytest.mark.parametrize(("game", "boss"), BOSSES[:2])
def test_the_flags_of_an_encounter_equal_those_of_the_profile(make, game, boss):
    facts, profile = load_boss_facts(game, boss), make(game, boss).session.profile
    for name, value in facts.encounter.items():
        assert profile.attributes[name].is_writable
        assert isinstance(value, bool) == (profile.attributes[name].type in ("flag", "bool"))


@every_boss
@of_kind
def test_keys_are_checked_before_the_first_episode(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes, check_keys=True)
    souls.env.reset()
    assert set(BUTTONS) <= set(souls.keys_down())
    souls.check_fight()


def test_the_error_names_a_key_with_another_binding(make):
    def bind_otherwise(world):
        key = world.profile.keys["roll"]
        world._buttons = {other: name for other, name in world._buttons.items() if other != key}

    souls = make("dark_souls_3", "iudex", bind_otherwise, check_keys=True)
    with pytest.raises(EnvironmentUsageError, match=r"without an effect in the game: roll \(key SPACE\)"):
        souls.env.reset()
