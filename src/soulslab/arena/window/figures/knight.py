"""The node of the knight."""

from __future__ import annotations

import math

from panda3d.core import NodePath

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.motion import ease
from soulslab.arena.state import Record
from soulslab.arena.window.figures.body import Body
from soulslab.arena.window.figures.knight_mesh import knight_meshes
from soulslab.arena.window.figures.knight_poses import KNIGHT, knight_pose, knock_back_of
from soulslab.arena.window.figures.moment import Moments

#: After a hit, the figure is coloured for this long, by these factors of its colours.
FLASH_TICKS = 5
FLASH = (1.9, 0.75, 0.7, 1.0)
#: Ticks in which the knight turns to the direction of a roll, and in which it turns back.
TURN_TICKS = 4


class KnightFigure:
    """The player's knight.

    Args:
        parent: Parent node; its axes are those of the world.

    Attributes:
        root: Node of the figure, for its shadow.
    """

    def __init__(self, parent: NodePath) -> None:
        self._body = Body(parent, KNIGHT, knight_meshes(KNIGHT))
        self._moments = Moments()
        self.root = self._body.root

    def show(self, game: LiveFight) -> None:
        """Show the present pose."""
        d, f = self._moments.of(game)
        self._body.stand((float(d.p_x), float(d.p_y), float(d.p_z)), _facing(d, f))
        self._body.show(knight_pose(d, f, game.stage, game.stage_ticks))
        if game.stage == "fighting" and d.p_ticks < FLASH_TICKS and knock_back_of(d, f) is not None:
            self.root.setColorScale(FLASH)
        else:
            self.root.clearColorScale()


def _facing(d: Record, f: Record) -> tuple[float, float]:
    """Return the facing of the figure: in a roll, the direction of the roll."""
    fx, fy = float(d.p_fx), float(d.p_fy)
    if d.p_anim != f.rolling:
        return fx, fy
    turn = math.atan2(fx * d.p_dy - fy * d.p_dx, fx * d.p_dx + fy * d.p_dy)
    a = f.animations[d.p_anim]
    left = (int(a.duration) - int(d.p_ticks)) / max(int(a.duration) - int(a.advance_to), 1)
    turn *= ease(int(d.p_ticks) / TURN_TICKS) * ease(left)
    c, s = math.cos(turn), math.sin(turn)
    return fx * c - fy * s, fx * s + fy * c
