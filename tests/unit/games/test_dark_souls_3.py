"""`DarkSouls3` on the built-in fight in the memory layout of the profile."""

from contextlib import suppress

import pytest

from soulslab.errors import (
    ConfigError,
    InvalidValueError,
    PointerError,
    ReadOnlyError,
    UnknownAttributeError,
    WaitTimeoutError,
)
from soulslab.games.boss_facts import Pose
from soulslab.games.dark_souls_3 import PROFILE_PATH, DarkSouls3, true_name
from soulslab.games.souls_game import temporary_values
from soulslab.games.waiting import Patience
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.process.image import read_image
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from support.masked_game import MaskedSession

ELSEWHERE = Pose(position_m=(131.0, 601.0, -68.5), angle_rad=1.25)
EACH = ("deaths", "damage", "hits", "attacks", "moves", "ai", "gravity")


@pytest.fixture
def game():
    with DarkSouls3(MaskedSession(PROFILE_PATH, SessionOptions(options={"boss": "judge"}))) as one:
        yield one


@pytest.fixture
def arena(game):
    return game.session.arena


def duel(arena):
    return arena.fight.duel


def test_health_and_stamina_are_read_and_written_in_the_fight(game, arena):
    player, boss = game.player, game.boss
    assert (player.hp, player.max_hp) == (duel(arena).p_hp, player.max_hp)
    assert player.hp == player.max_hp > 0
    player.hp, player.sp, boss.hp = 77, 5, 321
    game.session.clock.advance(1 / 60)
    assert (player.hp, boss.hp) == (77, 321)
    player.fp = 12
    assert (player.fp, boss.max_hp) == (12, boss.max_hp)
    with pytest.raises(InvalidValueError):
        player.hp = -1
    with pytest.raises(UnknownAttributeError, match=r"player\.max_fp"):
        player.max_fp  # noqa: B018  (it is read)
    with pytest.raises(AttributeError):
        player.max_hp = 1


def test_stats_are_read_and_written(game):
    stats = game.player.stats
    assert list(stats)[:2] == ["vigor", "attunement"]
    assert len(stats) == 10
    game.player.set_stats(vigor=27, luck=7)
    assert (game.player.stats["vigor"], game.player.stats["luck"]) == (27, 7)
    with pytest.raises(UnknownAttributeError):
        game.player.set_stats(arcane=1)
    assert game.boss.stats == {}


def test_poses_are_x_y_and_height(game):
    player, boss = game.player.pose, game.boss.pose
    assert player.position_m == pytest.approx(game.player.position_m)
    # The arena is that of the first boss, which lies about (139, 596), 70 m below zero.
    for pose in (player, boss):
        x, y, height = pose.position_m
        assert 110 < x < 190 and 540 < y < 640 and -73 < height < -55
        assert abs(pose.angle_rad) < 3.15


def test_teleport_moves_and_restores_the_permissions(game, arena):
    game.allowed.player_deaths = False
    game.teleport(ELSEWHERE)
    assert game.player.pose.position_m == pytest.approx(ELSEWHERE.position_m, abs=1.0)
    # The lock-on turns the player back.
    assert game.player.pose.angle_rad == pytest.approx(1.25, abs=0.3)
    assert not game.allowed.player_deaths
    assert not game.session.read("player.no_gravity")


def test_death_and_gravity_are_disabled_during_a_teleport(game, arena):
    seen = []
    arena.on_advance = lambda: seen.append(game.session.snapshot(("player.no_death", "player.no_gravity")))
    game.teleport(ELSEWHERE)
    assert [set(one.values()) for one in seen] == [{True}]
    assert set(game.session.snapshot(("player.no_death", "player.no_gravity")).values()) == {False}


def test_an_undone_teleport_is_an_error_and_restores_the_permissions(game, arena):
    home = game.player.position_m
    arena.on_advance = lambda: arena.binding.apply(arena.fight, {"player.position": [home[0], home[2], home[1]]})
    with pytest.raises(WaitTimeoutError, match=r"the player to stand at \(131.00, 601.00, -68.50\) m after a teleport"):
        game.teleport(ELSEWHERE)
    assert set(game.session.snapshot(("player.no_death", "player.no_gravity")).values()) == {False}


def test_temporary_values_are_restored_after_an_error(game):
    with pytest.raises(ZeroDivisionError), temporary_values(game.session, {"debug.no_hit": True}):
        assert not game.allowed.hits
        raise ZeroDivisionError
    assert game.allowed.hits


def test_one_failed_restore_does_not_prevent_the_others(game, arena, caplog):
    values = {"player.no_gravity": True, "debug.no_hit": True}
    with pytest.raises(PointerError, match="the game may be loading"), temporary_values(game.session, values):
        arena.fight.restart()
        game.session.clock.advance(1 / 60)
        game.session.read("player.hp")
    assert game.allowed.hits
    assert "could not be restored" in caplog.text


@pytest.mark.parametrize("who", ["player", "boss"])
def test_character_permissions_write_their_attribute(game, who):
    known = {"player": {"deaths", "gravity"}, "boss": {"hits", "attacks", "moves", "ai", "gravity"}}
    allowed = getattr(game, who).allowed
    for what in EACH:
        if what not in known[who]:
            with pytest.raises(UnknownAttributeError):
                getattr(allowed, what)
            continue
        assert getattr(allowed, what)
        setattr(allowed, what, False)
        assert [one for one in known[who] if not getattr(allowed, one)] == [what]
        setattr(allowed, what, True)


@pytest.mark.parametrize("what", ["player_deaths", "deaths", "hits", "damage", "attacks", "moves", "ai"])
def test_game_permissions_write_their_attribute(game, what):
    assert getattr(game.allowed, what)
    setattr(game.allowed, what, False)
    assert not getattr(game.allowed, what)
    setattr(game.allowed, what, True)
    assert getattr(game.allowed, what)


def test_animations_have_name_and_time(game):
    game.session.clock.advance(0.2)
    animation = game.player.animation
    assert animation.name == "Idle"
    assert 0.0 < animation.time_s <= 0.21
    assert game.boss.animation.name


@pytest.mark.parametrize(
    ("name", "is_over", "ids", "wanted"),
    [
        ("Attack3000", False, (3001, -1), "Attack3000"),
        ("Attack3000", True, (3001, -1), "Attack3001"),
        ("Attack3000", True, (-1, 3002), "Attack3002"),
        ("Attack3000", True, (-1, -1), "IdleBattle"),
        ("SABlend_Right", False, (3003, -1), "Attack3003"),
        ("PartBlend", False, (-1, -1), "IdleBattle"),
        ("WalkFrontBattle", True, (3004, -1), "WalkFrontBattle"),
    ],
)
def test_true_name(name, is_over, ids, wanted):
    assert true_name(name, is_over=is_over, attack_id=ids[0], next_attack_id=ids[1]) == wanted


def test_an_outdated_name_in_memory_is_replaced(game, arena):
    arena.put("boss.animation", "SABlend_Front")
    arena.put("boss.attack_id", -1)
    arena.put("boss.next_attack_id", 3005)
    assert game.boss.animation.name == "Attack3005"


def test_vordt_is_another_group_of_the_same_profile(game):
    vordt = game.character("vordt")
    vordt.hp = 1328
    assert (vordt.hp, game.boss.hp == 1328) == (1328, False)


def test_camera_pose_and_turn(game):
    pose = game.camera.pose
    assert sum(part**2 for part in pose.direction) == pytest.approx(1.0, abs=0.05)
    game.camera.turn((1.0, 0.0, 0.0))
    assert game.camera.pose.direction == (1.0, 0.0, 0.0)
    game.camera.lock_range_m, game.camera.lock_sight_time_s = 20.0, 30.0
    assert (game.camera.lock_range_m, game.camera.lock_sight_time_s) == (20.0, 30.0)


def test_lock_on_presses_until_it_is_locked(game, arena):
    arena.put("lock_on", False)
    game.session.clock.advance(1 / 60)
    assert not game.camera.is_locked_on
    game.camera.lock_on()
    assert game.camera.is_locked_on
    # The fight locks on by itself; here there is nothing to lock on.
    arena.on_advance = lambda: arena.binding.apply(arena.fight, {"lock_on": False})
    game.session.clock.advance(1 / 60)
    with pytest.raises(WaitTimeoutError, match="the camera to lock on; last value: False"):
        game.camera.lock_on(Patience(deadline_s=1.0, poll_s=0.5))


def test_time_and_speed(game):
    before = game.time_s
    game.session.clock.advance(1.0)
    assert game.time_s == pytest.approx(before + 1.0, abs=0.02)
    game.speed = 0.5
    assert game.speed == 0.5


def show(arena, screen):
    """Set the attributes to the values of a screen of the game."""
    arena.put("game.save_slot", -1 if screen == "title" else 0)
    arena.put("game.cutscene", -7 if screen == "cutscene" else 0)
    for name in ("player.in_control_1", "player.in_control_16"):
        arena.put(name, screen == "control")


def test_screen(game, arena):
    show(arena, "world")
    assert (game.screen, game.is_in_control, game.is_loading) == ("world", False, False)
    show(arena, "control")
    assert (game.screen, game.is_in_control) == ("world", True)
    show(arena, "cutscene")
    assert (game.screen, game.is_in_control) == ("cutscene", False)
    show(arena, "title")
    assert game.screen == "title"
    arena.put("game.save_slot", 0)
    arena.fight.restart()
    game.session.clock.advance(1 / 60)
    assert (game.screen, game.is_loading, game.is_in_control) == ("loading", True, False)


@pytest.mark.parametrize("base", ["cutscene", "movie"])
def test_a_missing_cutscene_object_means_no_cutscene(game, arena, base):
    show(arena, "control")
    image = read_image(arena.process, arena.profile.process.executable)
    arena.process.write(resolve_addresses(arena.profile, arena.process, image).bases[base], bytes(8))
    assert (game.screen, game.is_in_control) == ("world", True)


def test_a_warp_is_a_death_at_another_bonfire(game, arena):
    def control_when_there():
        with suppress(PointerError):  # it is not there yet
            show(arena, "control")

    arena.on_advance = control_when_there
    show(arena, "control")
    game.allowed.player_deaths = False
    game.warp("Iudex Gundyr")
    assert game.last_rest_point == "Iudex Gundyr"
    assert game.session.read("world.last_bonfire") == 4002952
    assert game.player.hp > 0
    assert arena.fight.n_fights > 1
    assert not game.allowed.player_deaths
    with pytest.raises(ConfigError, match="did you mean 'Iudex Gundyr'"):
        game.warp("Iudex Gundir")


def test_a_warp_without_a_death_is_an_error(game, arena):
    arena.on_advance = lambda: arena.binding.apply(arena.fight, {"player.hp": 100})
    with pytest.raises(WaitTimeoutError, match="on the way to 'Firelink Shrine'; last value: 'world'"):
        game.warp("Firelink Shrine", died=Patience(deadline_s=1.0))


def test_enter_and_leave_the_world(game, arena):
    show(arena, "title")
    arena.on_advance = lambda: show(arena, "control") if ("E", True) in arena.input.events else None
    game.enter_world()
    assert (game.screen, game.is_in_control) == ("world", True)
    arena.on_advance = lambda: show(arena, "title") if ("ESC", True) in arena.input.events else None
    game.leave_world(("ESC", "LEFT_ARROW", "E"))
    assert game.screen == "title"


def test_a_timeout_at_the_title_names_the_key(game, arena):
    show(arena, "title")
    with pytest.raises(WaitTimeoutError, match="the title to end, with E pressed to confirm; last value: 'title'"):
        game.enter_world(Patience(deadline_s=1.0, poll_s=0.5))


def test_window_size_and_mode(game):
    game.window_px = (800, 450)
    game.window_mode = 1
    assert (game.window_px, game.window_mode) == ((800, 450), 1)


def test_a_read_only_session_refuses_writes():
    with DarkSouls3(MaskedSession(PROFILE_PATH, SessionOptions(is_read_only=True))) as game:
        assert game.player.hp > 0
        with pytest.raises(ReadOnlyError):
            game.teleport(ELSEWHERE)


def test_a_remote_session_does_the_same(game, arena, tmp_path):
    options = ServerOptions(address=f"unix:{tmp_path / 'socket'}", token="t" * 16)
    with serve(game.session, options) as server, connect(server.address, token=options.token) as session:
        remote = DarkSouls3(session)
        remote.player.hp = 55
        remote.teleport(ELSEWHERE)
        assert remote.player.pose == game.player.pose
        assert remote.player.hp == 55
        assert remote.player.position_m == pytest.approx(ELSEWHERE.position_m, abs=1.0)
        assert not session.read("player.no_gravity")
        assert remote.boss.animation == game.boss.animation
        with pytest.raises(WaitTimeoutError, match=r"the player to be in control; last value: \('world', False\)"):
            remote.wait_for_control(Patience(deadline_s=0.3))


@pytest.mark.parametrize("grade", ["scaled", "realtime"])
def test_waits_are_equal_for_every_clock_grade(game, arena, grade):
    game.session.clock.grade = grade
    game.session.clock.run()
    game.teleport(ELSEWHERE)
    assert game.session.clock.speed == 1.0
    assert game.player.position_m == pytest.approx(ELSEWHERE.position_m, abs=1.0)
    game.speed = 0.5
    assert (game.session.clock.speed, game.speed) == ((0.5, 1.0) if grade == "scaled" else (1.0, 0.5))
