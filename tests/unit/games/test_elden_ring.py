"""`EldenRing` on the built-in fight in the memory layout of the profile."""

import pytest

from soulslab.errors import MissingFactError, UnknownAttributeError, WaitTimeoutError
from soulslab.games.boss_facts import Pose, load_boss_facts
from soulslab.games.character import to_memory
from soulslab.games.elden_ring import PROFILE_PATH, EldenRing
from soulslab.games.waiting import Patience
from support.masked_game import MaskedSession

EACH = ("deaths", "damage", "hits", "attacks", "moves", "ai", "gravity")


@pytest.fixture
def game():
    with EldenRing(MaskedSession(PROFILE_PATH)) as one:
        yield one


@pytest.fixture
def arena(game):
    return game.session.arena


def test_health_and_stamina_are_read_and_written(game):
    for who in (game.player, game.boss):
        assert who.hp == who.max_hp > 0
        assert who.fp <= who.max_fp
        who.hp = 123
        game.session.clock.advance(1 / 60)
        assert who.hp == 123
    assert game.player.sp <= game.player.max_sp
    assert (len(game.player.stats), game.boss.stats) == (9, {})


def test_animation_has_number_name_and_time(game, arena):
    game.session.clock.advance(0.2)
    animation = game.player.animation
    assert (animation.name, animation.number) == ("Idle", game.session.read("player.animation"))
    assert 0.0 < animation.time_s <= 0.21
    arena.put("player.animation", 777)
    assert (game.player.animation.name, game.player.animation.number) == ("", 777)
    assert game.boss.animation.number > 0


def test_positions_in_the_physics_and_in_a_block(game, arena):
    x, y, height = game.player.position_m
    assert 110 < game.boss.position_m[0] < 190
    in_block = (20.0, -12.0, -7.0)
    arena.put("player.block_position", to_memory(in_block))
    assert game.block_position_m == in_block
    assert game.block_origin_m == pytest.approx((x - 20.0, y + 12.0, height + 7.0), abs=1e-3)
    assert game.from_block(Pose(position_m=in_block)).position_m == pytest.approx((x, y, height), abs=1e-3)
    assert game.from_block(Pose(position_m=in_block, angle_rad=0.5)).angle_rad == 0.5


def test_poses_of_a_boss_file_are_converted(game, arena):
    facts = load_boss_facts("elden_ring", "margit")
    arena.put("player.block_position", to_memory((0.0, 0.0, 0.0)))
    player, fog = game.player.position_m, facts.pose("fog_wall").position_m
    wanted = tuple(one + other for one, other in zip(player, fog, strict=True))
    assert game.pose_of(facts, "fog_wall").position_m == pytest.approx(wanted, abs=1e-3)
    with pytest.raises(MissingFactError):
        game.pose_of(facts, "boss_start")


def test_a_teleport_moves_player_and_boss(game):
    start = game.player.position_m
    there = Pose(position_m=(start[0] + 4.0, start[1] - 3.0, start[2]), angle_rad=0.4)
    game.teleport(there)
    assert game.player.position_m == pytest.approx(there.position_m, abs=1.0)
    assert game.allowed.player_deaths
    assert not game.session.read("player.no_gravity")
    start = game.boss.position_m
    game.teleport(Pose(position_m=(start[0] - 3.0, start[1], start[2])), game.boss)
    assert game.boss.position_m[0] == pytest.approx(start[0] - 3.0, abs=1.0)
    assert not game.session.read("boss.no_death")


@pytest.mark.parametrize("who", ["player", "boss"])
def test_character_permissions_write_their_attribute(game, who):
    known = {"player": {"deaths", "damage", "gravity"}, "boss": {*EACH}}
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


def show(arena, screen):
    """Set the attributes to the values of a screen of the game."""
    arena.put("game.save_slot", -1 if screen == "title" else 0)
    arena.put("game.cutscene", screen == "cutscene")
    for name in ("player.in_control_5", "player.in_control_6"):
        arena.put(name, screen == "control")


def test_screen(game, arena):
    for screen, seen, is_in_control in (
        ("world", "world", False),
        ("control", "world", True),
        ("cutscene", "cutscene", False),
        ("title", "title", False),
    ):
        show(arena, screen)
        assert (game.screen, game.is_in_control) == (seen, is_in_control)
    show(arena, "control")
    arena.fight.restart()
    game.session.clock.advance(1 / 60)
    assert (game.screen, game.is_in_control) == ("loading", False)


def test_leave_and_enter_the_world(game, arena):
    show(arena, "control")
    arena.on_advance = lambda: show(arena, "title") if game.session.read("menu.quit_out") else None
    game.leave_world()
    assert game.screen == "title"
    arena.put("menu.quit_out", 0)
    arena.on_advance = lambda: show(arena, "control") if ("E", True) in arena.input.events else None
    game.enter_world()
    assert game.is_in_control


def test_leave_world_reports_a_timeout(game, arena):
    show(arena, "control")
    with pytest.raises(WaitTimeoutError, match="for the title; last value: 'world'"):
        game.leave_world(Patience(deadline_s=0.5))


def test_last_rest_point_by_name(game):
    game.last_rest_point = "Stormhill - Castleward Tunnel"
    assert game.session.read("world.last_grace") == 10002952
    assert game.last_rest_point == "Stormhill - Castleward Tunnel"


def test_camera_time_and_window(game):
    game.camera.turn((0.0, 1.0, 0.0))
    assert game.camera.pose.direction == (0.0, 1.0, 0.0)
    with pytest.raises(UnknownAttributeError):
        game.camera.lock_range_m  # noqa: B018  (it is read)
    assert game.window_px == (320, 180)
    before = game.time_s
    game.session.clock.advance(0.5)
    assert game.time_s == pytest.approx(before + 0.5, abs=0.02)
    assert game.block == game.session.read("world.block")
