"""The whole picture: it depends only on the fight, bars and screens show its state, and no nodes accumulate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from panda3d.core import Geom, GeomNode

from soulslab.arena.boss_file import Boss, boss_names, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import END_TICKS, LiveFight, LiveFightOptions
from soulslab.arena.vocabulary import ACTIONS, LIGHT_ATTACK
from soulslab.arena.window.hud import HudOptions
from soulslab.arena.window.scene import Scene
from soulslab.arena.window.settings import KEYS
from support.offscreen import Offscreen
from support.players import script

SIZE_PX = (320, 180)


def shipped(boss: str = "judge") -> Boss:
    return load_boss(boss, list(load_knight().knock_backs))


def new_game(boss: Boss) -> LiveFight:
    return LiveFight(boss, LiveFightOptions(seed=7))


@contextmanager
def new_scene(offscreen: Offscreen, game: LiveFight, options: HudOptions | None = None) -> Iterator[Scene]:
    """A separate scene in the offscreen buffer that all tests share."""
    root = offscreen.root.attachNewNode("scene")
    scene = Scene(root, offscreen.camera, game, SIZE_PX, options)
    try:
        yield scene
    finally:
        scene.hud.close()
        root.removeNode()


def play(game: LiveFight, scene: Scene, n_ticks: int) -> None:
    actions = script(4, n_ticks // 6 + 1)
    for tick in range(n_ticks):
        buttons = ACTIONS[actions[tick // 6]]
        game.tick(buttons, buttons if tick % 6 == 0 else ())
        scene.show(game)


def n_red(picture: NDArray[np.uint8], rows: slice) -> int:
    """Count the pixels of health bars in rows."""
    part = picture[rows].astype(int)
    return int(((part[..., 0] > 80) & (part[..., 1] < 0.4 * part[..., 0]) & (part[..., 2] < 0.4 * part[..., 0])).sum())


def test_the_same_fight_gives_the_same_pixels(offscreen: Offscreen) -> None:
    pictures = []
    for _ in range(2):
        game = new_game(shipped())
        with new_scene(offscreen, game) as scene:
            play(game, scene, 90)
            pictures.append(offscreen.picture().copy())
            scene.show(game)
            pictures.append(offscreen.picture().copy())
    for picture in pictures[1:]:
        np.testing.assert_array_equal(picture, pictures[0])


@pytest.mark.parametrize("boss", boss_names())
def test_each_boss_has_ground_sky_and_something_between(offscreen: Offscreen, boss: str) -> None:
    game = new_game(shipped(boss))
    with new_scene(offscreen, game) as scene:
        play(game, scene, 30)
        picture = offscreen.picture()
        # Not the colour that the window is cleared with, and neither flat nor black.
        assert picture[20:70].std() > 4.0
        assert picture[120:150].std() > 8.0
        assert picture.mean() > 25.0


@pytest.mark.parametrize(("cliff_width_rad", "radius_m"), [(0.0, 2.0), (6.2832, 12.0), (3.5, 80.0)])
def test_any_ground_can_be_built(offscreen: Offscreen, cliff_width_rad: float, radius_m: float) -> None:
    boss = shipped()
    ground = msgspec.structs.replace(boss.ground, cliff_width_rad=cliff_width_rad, radius_m=radius_m)
    game = new_game(msgspec.structs.replace(boss, ground=ground))
    with new_scene(offscreen, game) as scene:
        play(game, scene, 12)
        assert offscreen.picture().std() > 8.0


def test_the_bars_are_as_long_as_there_is_health(offscreen: Offscreen) -> None:
    game = new_game(shipped())
    with new_scene(offscreen, game) as scene:
        # Let all that was lost drain away.
        def shown(player: float, boss: float) -> tuple[int, int]:
            game.duel.p_hp, game.duel.b_hp = player * game.fight.p_max_hp, boss * game.fight.b_max_hp
            for _ in range(2):
                game.n_ticks += 200
                scene.show(game)
            picture = offscreen.picture()
            return n_red(picture, slice(0, 12)), n_red(picture, slice(160, 180))

        full, half, low = shown(1.0, 1.0), shown(0.5, 0.75), shown(0.25, 0.1)
        assert full[0] > 200
        assert full[1] > 400
        assert half[0] / full[0] == pytest.approx(0.5, abs=0.06)
        assert half[1] / full[1] == pytest.approx(0.75, abs=0.06)
        assert low[0] / full[0] == pytest.approx(0.25, abs=0.06)
        assert low[1] / full[1] == pytest.approx(0.1, abs=0.06)


def test_a_recent_loss_is_yellow(offscreen: Offscreen) -> None:
    game = new_game(shipped())

    def n_yellow() -> int:
        part = offscreen.picture()[160:180].astype(int)
        return int(((part[..., 0] > 110) & (part[..., 1] > 90) & (part[..., 2] < 0.5 * part[..., 1])).sum())

    with new_scene(offscreen, game) as scene:
        before = n_yellow()
        game.duel.b_hp *= 0.6
        scene.show(game)
        assert n_yellow() > before + 100
        game.n_ticks += 200
        scene.show(game)
        scene.show(game)
        assert n_yellow() == before


def test_each_stage_has_its_screen(offscreen: Offscreen) -> None:
    game = new_game(shipped())
    middle = slice(75, 105)
    with new_scene(offscreen, game) as scene:
        play(game, scene, 30)
        before = n_red(offscreen.picture(), middle)
        game.duel.p_hp = 0.0
        play(game, scene, 100)
        assert game.stage == "lost"
        assert n_red(offscreen.picture(), middle) > before + 150
        play(game, scene, END_TICKS - 90)
        assert game.stage == "loading"
        loading = offscreen.picture()
        assert np.median(loading) < 10
        assert (loading > 120).any(), "the boss's name"
        play(game, scene, 40)
        assert game.stage == "fighting"
        assert offscreen.picture().mean() > 25.0
        game.duel.b_hp = 0.0
        play(game, scene, 100)
        assert game.stage == "won"
        golden = offscreen.picture()[middle].astype(int)
        assert int(((golden[..., 0] > 150) & (golden[..., 2] < 0.6 * golden[..., 0])).sum()) > 150


def test_help_buttons_and_notices_are_shown_on_demand(offscreen: Offscreen) -> None:
    game = new_game(shipped())
    with new_scene(offscreen, game, HudOptions(keys=KEYS, has_buttons=True)) as scene:
        plain = offscreen.picture().copy()
        scene.hud.is_help_shown = True
        scene.show(game)
        assert (offscreen.picture() != plain)[60:120, 120:200].mean() > 0.5
        scene.hud.is_help_shown = False
        scene.show(game)
        np.testing.assert_array_equal(offscreen.picture(), plain)
        scene.hud.notice = "paused"
        scene.show(game)
        assert (offscreen.picture() != plain)[:25, 120:200].any()
        scene.hud.notice = ""
        game.action = LIGHT_ATTACK
        scene.show(game)
        assert (offscreen.picture() != plain)[60:160, 240:].any()


def test_another_size_keeps_the_middle_of_the_picture(offscreen: Offscreen) -> None:
    game = new_game(shipped())
    with new_scene(offscreen, game) as scene:
        plain = offscreen.picture().copy()
        scene.resize(game, (180, 180))
        assert (offscreen.picture() != plain).any()
        scene.resize(game, SIZE_PX)
        np.testing.assert_array_equal(offscreen.picture(), plain)


def test_nothing_grows(offscreen: Offscreen) -> None:
    game = new_game(shipped())

    def n_nodes_and_triangles() -> tuple[int, int]:
        nodes = list(offscreen.root.findAllMatches("**"))
        geoms = [node.node() for node in nodes if isinstance(node.node(), GeomNode)]
        return len(nodes), sum(_n_triangles(geom) for node in geoms for geom in node.getGeoms())

    with new_scene(offscreen, game) as scene:
        play(game, scene, 30)
        before = n_nodes_and_triangles()
        play(game, scene, 2000)
        assert game.n_fights > 1, "the script never lost"
        game.duel.p_hp, game.duel.b_hp = game.fight.p_max_hp, game.fight.b_max_hp
        after = n_nodes_and_triangles()
    assert after[0] <= before[0] + 1  # the damage number, once there is one
    assert after[1] < 12000


def _n_triangles(geom: Geom) -> int:
    return sum(primitive.getNumPrimitives() for primitive in geom.getPrimitives())
