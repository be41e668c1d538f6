"""The entrance into the fight of a real game, from each state of the game, in memory with the layout of its profile."""

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

VERSIONS = load_profile(profile_path(Path("elden_ring"))).process.versions


def every_boss(test):
    """Run a test with each boss."""
    return pytest.mark.parametrize(("game", "boss"), BOSSES)(test)


def every_game(test):
    """Run a test with one boss of each game; in the long form with each boss."""
    return pytest.mark.parametrize(("game", "boss"), BOSSES if IS_LONG else BOSSES[::2])(test)


def of_kind(test):
    """Run a test with each kind of episode."""
    return pytest.mark.parametrize("episodes", ["in_place", "demo"])(test)


# --- the first fight --------------------------------------------------------------------------------------------


@of_kind
@every_boss
def test_the_first_reset_leads_from_the_title_into_the_fight(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    assert souls.world.at == "title"
    souls.env.reset(seed=1)
    # The flags of Dark Souls III's encounters are not set in a new save, and have effect after a load.
    assert souls.world.n_loads == (1 if boss == "margit" else 2)
    assert (souls.log.n_retries, souls.log.n_game_restarts) == (0, 0)
    souls.check_fight()


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_of_elden_ring_has_its_boss(make, version):
    """The oldest and the newest version begin at the title, the others in the fight, which is faster."""
    arrange = None if version in (VERSIONS[0], VERSIONS[-1]) else lambda world: world.be_in_fight()
    souls = make("elden_ring", "margit", arrange, of_session={"version": version})
    souls.env.reset(seed=1)
    assert souls.session.info.version == version
    souls.check_fight()


@every_boss
def test_a_reset_from_the_bonfire_needs_no_load(make, game, boss):
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
@every_game
def test_a_game_that_is_already_in_the_fight_is_not_changed(make, game, boss, episodes):
    souls = make(game, boss, lambda world: world.be_in_fight(), episodes=episodes)
    flags = dict(souls.session.snapshot([name for name in souls.session.profile.attributes if "iudex_" in name]))
    souls.env.reset()
    assert {"interact", "forward"}.isdisjoint(souls.keys_down())
    assert souls.world.n_loads == souls.log.n_respawns == 0
    assert {name: souls.session.read(name) for name in flags} == flags
    souls.check_fight()


def test_a_demo_episode_does_not_start_in_a_fight_that_has_begun(make):
    souls = make("dark_souls_3", "iudex", lambda world: world.be_in_fight(), episodes="demo")
    souls.duel.b_hp -= 100
    souls.session.clock.advance(1 / 60)
    souls.env.reset()
    assert souls.log.n_respawns == 1
    souls.check_fight()


@every_boss
def test_a_player_that_rested_elsewhere_is_warped_first(make, game, boss):
    souls = make(game, boss, lambda world: world.rest_elsewhere())
    souls.env.reset()
    assert souls.log.n_respawns == 1
    assert souls.game.last_rest_point == souls.session.facts.warp_points[0]
    souls.check_fight()


@every_boss
def test_a_defeated_boss_is_restored(make, game, boss):
    flag = load_boss_facts(game, boss).defeat_flag
    souls = make(game, boss, lambda world: world.flags.set(flag, True))
    assert souls.game.event_flags[flag]
    souls.env.reset()
    assert not souls.game.event_flags[flag]
    assert souls.log.n_respawns == 1
    souls.check_fight()


def test_the_entrance_leaves_the_untended_graves(make):
    def be_dark(world):
        world.graves = 0x0A

    souls = make("dark_souls_3", "iudex", be_dark)
    souls.env.reset()
    assert souls.session.read("world.untended_graves") == 0
    souls.check_fight()


@pytest.mark.parametrize(("game", "boss"), BOSSES[:2])
def test_the_camera_is_turned_towards_the_fog(make, game, boss):
    souls, looks = make(game, boss), []

    def look():
        if "interact" in souls.world.keys[-1:] and souls.world.at == "fog":
            looks.append(souls.game.camera.pose.direction)

    souls.world.on_advance = look
    souls.env.reset()
    poses = souls.session.facts.poses
    way = np.subtract(poses.behind_fog_wall.position_m, poses.fog_wall.position_m)[:2]
    assert looks[0] == pytest.approx((*way / np.linalg.norm(way), 0.0), abs=1e-5)


def test_forward_is_pressed_if_the_fog_does_not_open(make):
    def arrange(world):
        world.needs_forward = True

    souls = make("elden_ring", "margit", arrange)
    souls.env.reset()
    assert "forward" in souls.world.keys
    souls.check_fight()


@of_kind
@every_game
def test_the_camera_locks_on_the_boss(make, game, boss, episodes):
    def be_unlocked(world):
        world.is_lock_lost = True

    souls = make(game, boss, be_unlocked, episodes=episodes)
    souls.env.reset()
    # A demo episode begins without lock-on, and its first step presses the key.
    souls.env.step(NOTHING)
    assert "lock_on" in souls.keys_down()
    # The built-in fight cannot lock on a boss behind the camera, and turns the camera first.
    locks = [souls.env.step(NOTHING)[0]["lock_on"] for _ in range(20)]
    assert locks[-1] == 1


@of_kind
def test_the_range_of_the_lock_on_is_extended_until_release(make, episodes):
    souls = make("dark_souls_3", "iudex", episodes=episodes)
    poses = souls.session.facts.poses
    distance_m = np.linalg.norm(np.subtract(poses.player_start.position_m, poses.boss_start.position_m))
    before = souls.game.camera.lock_range_m, souls.game.camera.lock_sight_time_s
    for _ in range(2):
        souls.env.reset()
        # The range without the bonus is 15 m (SoulsGym).
        assert 15.0 < distance_m < 15.0 + souls.game.camera.lock_range_m
        assert souls.game.camera.lock_sight_time_s > before[1]
    souls.env.episode.release(souls.env.game)
    assert (souls.game.camera.lock_range_m, souls.game.camera.lock_sight_time_s) == before


@every_game
def test_close_after_a_failed_reset_restores_the_flags(make, game, boss):
    def attack_on(world):
        world.shown = {"boss.animation": {"elden_ring": 3000}.get(game, "ThrowAtk")}

    souls = make(game, boss, attack_on)
    souls.env.episode._runner._max_retries = 0  # the further tries would fail in the same way
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


def test_unknown_animations_do_not_delay_a_reset(make):
    souls = make("elden_ring", "margit")
    # These ids are not in the profile's table of animations.
    souls.world.shown = {"player.animation": 2020, "boss.animation": 1702}
    souls.env.reset()
    assert souls.log.n_retries == 0
    souls.check_fight()


# --- the next fights --------------------------------------------------------------------------------------------


@every_game
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
def test_a_reset_after_a_death_waits_for_the_game_to_load(make, game, boss):
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


@every_game
def test_a_reset_after_a_win_restores_the_boss(make, game, boss):
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


@every_game
def test_a_defeat_flag_that_is_set_late_is_cleared(make, game, boss):
    souls = make(game, boss, episodes="demo")
    souls.env.reset()
    souls.world.defeat_s = 2.0
    souls.duel.phase, souls.duel.b_hp = 2, 0.0
    souls.env.step(NOTHING)
    assert not souls.game.event_flags[souls.session.facts.defeat_flag]
    n_respawns = souls.log.n_respawns
    souls.env.reset()
    # The first load leaves the place, and the second is for the flag.
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


def test_a_load_restores_the_first_phase(make):
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


def test_a_reset_after_reload_minutes_loads_again(make):
    souls = make("dark_souls_3", "iudex", reload_minutes=1e-9)
    souls.env.reset()
    n_loads = souls.world.n_loads
    souls.env.reset()
    assert souls.world.n_loads == n_loads + 1
    assert souls.log.n_game_restarts == 0
    souls.check_fight()


def cause(souls, event):
    """Cause an event in a fight, and step until the episode ends, or for four steps."""
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
@every_game
def test_the_next_reset_recovers_from_each_event(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes)
    rng = np.random.default_rng([len(boss), len(episodes)])
    souls.env.reset(seed=5)
    for event in rng.choice(["death", "win", "load", "nothing"], 16 if IS_LONG else 8):
        cause(souls, event)
        # The reset begins while a death is shown, while the game loads, or later.
        souls.session.clock.advance(float(rng.uniform(0.0, 6.0)))
        souls.env.reset()
        souls.check_fight()
    assert souls.log.n_retries == souls.log.n_game_restarts == 0


# --- missing facts and keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("boss", boss_names("elden_ring"))
def test_an_entrance_needs_the_pose_before_the_fog(boss):
    facts = load_boss_facts("elden_ring", boss)
    if boss == "margit":
        SoulsEntrance(facts, GAMES["elden_ring"])
        return
    with pytest.raises(
        MissingFactError, match=r"poses\.fog_wall: stand before the fog and read the position attribute"
    ):
        SoulsEntrance(facts, GAMES["elden_ring"])


@pytest.mark.parametrize(("game", "boss"), BOSSES[:2])
def test_the_flags_of_an_encounter_are_in_the_profile(make, game, boss):
    facts, profile = load_boss_facts(game, boss), make(game, boss).session.profile
    for name, value in facts.encounter.items():
        assert profile.attributes[name].is_writable
        assert isinstance(value, bool) == (profile.attributes[name].type in ("flag", "bool"))


@every_game
@of_kind
def test_keys_are_checked_before_the_first_episode(make, game, boss, episodes):
    souls = make(game, boss, episodes=episodes, check_keys=True)
    souls.env.reset()
    assert set(BUTTONS) <= set(souls.keys_down())
    souls.check_fight()


def test_a_key_without_effect_is_named(make):
    def bind_otherwise(world):
        key = world.profile.keys["roll"]
        world._buttons = {other: name for other, name in world._buttons.items() if other != key}

    souls = make("dark_souls_3", "iudex", bind_otherwise, check_keys=True)
    with pytest.raises(EnvironmentUsageError, match=r"without an effect in the game: roll \(key SPACE\)"):
        souls.env.reset()
