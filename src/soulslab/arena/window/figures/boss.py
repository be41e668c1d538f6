"""The node of a boss."""

from __future__ import annotations

from panda3d.core import NodePath

from soulslab.arena.boss_file import Boss
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.state import THROWN, Record
from soulslab.arena.window.figures.body import Body
from soulslab.arena.window.figures.boss_builds import figure_of
from soulslab.arena.window.figures.boss_mesh import boss_meshes, growth_meshes
from soulslab.arena.window.figures.boss_moves import styles_of
from soulslab.arena.window.figures.boss_poses import boss_pose
from soulslab.arena.window.figures.moment import Moments

#: After a hit, the figure is brighter for this long, by these factors of its colours.
FLASH_TICKS = 5
FLASH = (1.6, 1.45, 1.25, 1.0)
#: Share of the move of the phase change after which the growth has its full size.
GROWN_SHARE = 0.7


class BossFigure:
    """A boss.

    Args:
        parent: Parent node; its axes are those of the world.
        boss: The boss.

    Attributes:
        root: Node of the figure, for its shadow.
    """

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        self._figure = figure_of(boss)
        self._styles = styles_of(boss)
        self._body = Body(parent, self._figure.build, boss_meshes(self._figure), growth_meshes(self._figure))
        self._moments = Moments()
        self.root = self._body.root

    def show(self, game: LiveFight) -> None:
        """Show the present pose."""
        d, f = self._moments.of(game)
        self._body.stand((float(d.b_x), float(d.b_y), float(f.floor)), (float(d.b_fx), float(d.b_fy)))
        self._body.show_growth(_growth(d, f))
        self._body.show(boss_pose(self._figure, self._styles, d, f, game.stage, game.stage_ticks))
        if game.stage == "fighting" and is_hit(d, f):
            self.root.setColorScale(FLASH)
        else:
            self.root.clearColorScale()


def is_hit(d: Record, f: Record) -> bool:
    """Return whether the boss was hit within the last ticks."""
    if d.b_mode == THROWN:
        return 0 <= d.b_ticks - f.riposte_hit < FLASH_TICKS
    a = f.animations[d.p_anim]
    return bool(d.p_has_hit and 0 <= d.p_ticks - a.active_from < FLASH_TICKS)


def _growth(d: Record, f: Record) -> float:
    """Return the size of the growth of the second phase, 0 to 1."""
    if d.phase == 2:
        return 1.0
    if d.b_move >= 0 and d.b_move == f.phase_two_move:
        return min(float(d.b_ticks) / (GROWN_SHARE * float(f.moves[d.b_move].duration)), 1.0)
    return 0.0
