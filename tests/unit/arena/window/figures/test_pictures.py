"""Pictures of figures: actions are visible, and equal records give equal pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.records import ATTACKING, PARRIED, ROAMING, THROWN
from soulslab.arena.window.figures.effects import Effects
from soulslab.arena.window.figures.figure_nodes import BossFigure, KnightFigure, Shadow
from soulslab.arena.window.plain_records import RecordCopier
from support.offscreen import Offscreen


class Figures:
    """Both figures with shadows and effects in a separate scene, boss and player 3 m apart."""

    def __init__(self, offscreen: Offscreen, boss: str) -> None:
        self.game = LiveFight(load_boss(boss, list(load_knight().knock_backs)), LiveFightOptions(seed=3))
        self.root = offscreen.root.attachNewNode("figures")
        self._screen = offscreen
        self._knight = KnightFigure(self.root)
        self._boss = BossFigure(self.root, self.game.boss)
        self._effects = Effects(self.root, self.game.boss)
        self._records = RecordCopier()
        floor = float(self.game.fight.floor)
        for figure in (self._knight, self._boss):
            Shadow(self.root, figure.root, (0.4, 0.4, -1.0), floor, (0.17, 0.165, 0.18))
        d = self.game.duel
        d.b_x, d.b_y, d.b_fx, d.b_fy = 0.0, 4.0 + float(self.game.fight.b_radius), 0.0, -1.0
        d.p_x, d.p_y, d.p_fx, d.p_fy = 0.0, 0.0, 0.0, 1.0
        d.p_dx, d.p_dy = 0.0, 1.0
        offscreen.camera.setPos(6.0, -6.0, floor + 3.5)
        offscreen.camera.lookAt(0.0, 3.0, floor + 1.2)

    def picture(self) -> NDArray[np.uint8]:
        for part in (self._knight, self._boss, self._effects):
            part.show(self.game, *self._records.copy(self.game))
        return self._screen.picture().copy()

    def at(self, move: int, ticks: int) -> None:
        d, f = self.game.duel, self.game.fight
        row = f.moves[move]
        d.b_mode, d.b_move, d.b_ticks = ATTACKING, move, ticks
        d.b_window = sum(ticks >= f.windows[row.first_window + i].end for i in range(row.n_windows))


@pytest.fixture(params=boss_names())
def figures(offscreen: Offscreen, request: pytest.FixtureRequest) -> Iterator[Figures]:
    made = Figures(offscreen, request.param)
    yield made
    made.root.removeNode()


def n_different(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> int:
    """Count the pixels in which two pictures differ visibly."""
    return int((np.abs(first.astype(int) - second.astype(int)).max(axis=2) > 20).sum())


def test_wind_up_blow_and_standing_look_different(figures: Figures) -> None:
    idle = figures.picture()
    window = figures.game.fight.windows[figures.game.fight.moves[0].first_window]
    figures.at(0, int(0.7 * window.start))
    winding_up = figures.picture()
    figures.at(0, int(window.start + window.end) // 2)
    striking = figures.picture()
    for first, second in ((idle, winding_up), (winding_up, striking), (idle, striking)):
        assert n_different(first, second) > 300


def test_the_same_record_gives_the_same_pixels(figures: Figures) -> None:
    game = figures.game
    window = game.fight.windows[game.fight.moves[0].first_window]
    figures.at(0, int(window.start) + 3)
    first = figures.picture()
    figures.at(1, 40)
    game.duel.p_anim, game.duel.p_ticks = game.fight.rolling, 12
    assert n_different(first, figures.picture()) > 100
    game.duel.p_anim, game.duel.p_ticks = game.fight.idle, 0
    figures.at(0, int(window.start) + 3)
    np.testing.assert_array_equal(figures.picture(), first)


def test_the_second_phase_can_be_seen(figures: Figures) -> None:
    first = figures.picture()
    figures.game.duel.phase = 2
    assert n_different(first, figures.picture()) > 60


def test_a_hit_lights_the_player_up(figures: Figures) -> None:
    d = figures.game.duel
    d.p_anim = load_knight().animations.index("DamageMiddle")
    d.p_ticks = 1
    lit = figures.picture()
    d.p_ticks = 14
    assert n_different(lit, figures.picture()) > 100


def test_a_parry_strikes_sparks(figures: Figures) -> None:
    d = figures.game.duel
    d.b_mode, d.b_move, d.b_ticks = PARRIED, -1, 3
    sparks = figures.root.find("**/sparks")
    figures.picture()
    assert not sparks.isHidden()
    d.b_mode = ROAMING
    figures.picture()
    assert sparks.isHidden()


def test_a_riposte_strikes_sparks(figures: Figures) -> None:
    d, f = figures.game.duel, figures.game.fight
    d.b_mode, d.b_move, d.p_anim = THROWN, -1, f.riposte
    d.b_ticks = d.p_ticks = f.riposte_hit + 2
    figures.picture()
    sparks = figures.root.find("**/sparks")
    assert not sparks.isHidden()
    assert sparks.getColorScale()[3] > 0.5


def test_a_projectile_is_seen_where_it_is(figures: Figures) -> None:
    game = figures.game
    before = figures.picture()
    game.duel.q_ticks[2] = 30
    game.duel.q_pose[2] = (0.5, 1.5, 0.0, -0.3)
    assert n_different(before, figures.picture()) > 5
    daggers = [path for path in figures.root.findAllMatches("**/dagger") if not path.isHidden()]
    assert [(path.getX(), path.getY()) for path in daggers] == [(0.5, 1.5)]
    assert math.isclose(daggers[0].getH() % 360.0, 180.0)


def test_nothing_grows(figures: Figures) -> None:
    figures.picture()
    n_nodes = len(figures.root.findAllMatches("**"))
    game = figures.game
    for tick in range(400):
        game.duel.tick = tick
        figures.at(tick // 40 % int(game.fight.n_moves), tick % 120)
        figures.picture() if tick % 80 == 0 else figures._boss.show(game, *figures._records.copy(game))
    assert len(figures.root.findAllMatches("**")) == n_nodes
