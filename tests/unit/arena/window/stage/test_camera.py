"""The camera: follows the rules' camera, above ground, with the player visible, at any frame rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from panda3d.core import Camera, NodePath, Point2, Point3

from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.vocabulary import ACTIONS
from soulslab.arena.window.stage.camera import CameraRig
from support.players import script

ASPECT = 16 / 9


def new_game(boss: str, seed: int = 1) -> LiveFight:
    return LiveFight(load_boss(boss, list(load_knight().knock_backs)), LiveFightOptions(seed=seed, random_pose=True))


def new_rig(game: LiveFight) -> tuple[CameraRig, NodePath]:
    root = NodePath("root")
    camera = root.attachNewNode(Camera("camera"))
    return CameraRig(camera, game, ASPECT), camera


def place_in_picture(camera: NodePath, x: float, y: float, z: float) -> Point2 | None:
    """Return the position of a point in the picture, -1 to 1 each, or None if it is not visible."""
    seen = Point2()
    point = camera.getRelativePoint(camera.getParent(), Point3(float(x), float(y), float(z)))
    return seen if camera.node().getLens().project(point, seen) else None


def play(game: LiveFight, n_steps: int, seed: int):
    """Play scripted buttons; yields after each tick."""
    for action in script(seed, n_steps):
        buttons = ACTIONS[action]
        for i in range(6):
            game.tick(buttons, buttons if i == 0 else ())
            yield


@pytest.mark.parametrize("boss", boss_names())
def test_the_player_is_seen_from_above_ground_along_the_rules_camera(boss: str) -> None:
    game = new_game(boss)
    rig, camera = new_rig(game)
    n_with_boss = n_locked = 0
    for _ in play(game, 250, seed=3):
        eye = rig.show(game)
        d = game.duel
        assert eye[2] > game.fight.floor + 0.5
        forward = camera.getParent().getRelativeVector(camera, (0, 1, 0))
        flat = math.hypot(forward.x, forward.y)
        assert forward.x / flat == pytest.approx(d.c_fx, abs=1e-4)
        assert forward.y / flat == pytest.approx(d.c_fy, abs=1e-4)
        assert place_in_picture(camera, d.p_x, d.p_y, d.p_z + 0.9) is not None, game.n_ticks
        ahead = (d.b_x - d.p_x) * d.c_fx + (d.b_y - d.p_y) * d.c_fy
        if d.lock_on and ahead > 0.9 * math.hypot(d.b_x - d.p_x, d.b_y - d.p_y):
            n_locked += 1
            n_with_boss += place_in_picture(camera, d.b_x, d.b_y, float(game.fight.floor) + 1.5) is not None
    assert n_locked > 300
    assert n_with_boss == n_locked


def test_its_way_hardly_depends_on_how_often_it_is_looked_at() -> None:
    game = new_game("judge")
    often, _ = new_rig(game)
    seldom, _ = new_rig(game)
    often.show(game)
    seldom.show(game)
    worst_m = 0.0
    for tick, _ in enumerate(play(game, 100, seed=5)):
        eye = often.show(game)
        if tick % 6 == 5:
            worst_m = max(worst_m, math.dist(eye, seldom.show(game)))
    assert worst_m < 0.12


def test_it_jumps_with_a_fighter_that_is_put_elsewhere() -> None:
    game = new_game("trickster")
    rig, _ = new_rig(game)
    for _ in play(game, 5, seed=2):
        rig.show(game)
    game.duel.p_x += 6.0
    game.duel.b_y -= 3.0
    game.tick(())
    fresh, _ = new_rig(game)
    assert rig.show(game) == pytest.approx(fresh.show(game))


def test_a_player_that_falls_is_watched_from_the_edge() -> None:
    game = new_game("judge")
    rig, camera = new_rig(game)
    d, f = game.duel, game.fight
    d.p_x, d.p_y = f.centre_x + f.cliff_x * (f.radius + 0.5), f.centre_y + f.cliff_y * (f.radius + 0.5)
    lowest = 0.0
    while game.stage == "fighting":
        game.tick(())
        eye = rig.show(game)
        lowest = min(lowest, float(d.p_z) - float(f.floor))
        assert eye[2] > f.floor
        if game.stage == "fighting":
            assert place_in_picture(camera, d.p_x, d.p_y, d.p_z + 0.9) is not None
    assert lowest < -2.0


def test_a_heavy_hit_shakes_it_and_a_light_one_does_not() -> None:
    names = load_knight().animations

    def spread_m(animation: str) -> float:
        game = new_game("judge")
        rig, _ = new_rig(game)
        heights = []
        for ticks in range(20):
            game.duel.p_anim, game.duel.p_ticks = names.index(animation), ticks
            heights.append(rig.show(game)[2])
        return float(np.ptp(heights))

    assert spread_m("DamageFling") > 0.1
    assert spread_m("DamageSmall") == 0.0
