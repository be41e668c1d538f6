"""Planar shadows: a figure's nodes once more, flattened onto the floor along the light."""

from __future__ import annotations

from panda3d.core import LMatrix4f, NodePath

from soulslab.arena.window.figures.mesh import Colour

#: Above the floor, so that it does not shine through, in m.
LIFT_M = 0.012
#: Height that is left of a figure. Not 0: panda3d inverts the matrix.
FLATNESS = 1e-4


class Shadow:
    """The shadow of a figure, in step with it by itself.

    It shows the same nodes under another root, so that there is nothing to do for a picture.

    Args:
        parent: What the figure stands in; its axes are the world's.
        figure_root: Of the figure (`KnightFigure.root`, `BossFigure.root`).
        light: Direction in which the light falls, z below 0.
        floor_m: Height of the floor.
        colour: That of the ground in the shadow. It is opaque: parts overlap, and would darken each other.
    """

    def __init__(
        self,
        parent: NodePath,
        figure_root: NodePath,
        light: tuple[float, float, float],
        floor_m: float,
        colour: Colour,
    ) -> None:
        x, y, z = light
        slant_x, slant_y = -x / z, -y / z
        self.root = parent.attachNewNode("shadow")
        # A point z above the floor falls to where the light's ray through it meets the floor.
        height = floor_m + LIFT_M - FLATNESS * floor_m
        self.root.setMat(
            LMatrix4f(
                *(1.0, 0.0, 0.0, 0.0),
                *(0.0, 1.0, 0.0, 0.0),
                *(slant_x, slant_y, FLATNESS, 0.0),
                *(-slant_x * floor_m, -slant_y * floor_m, height, 1.0),
            )
        )
        figure_root.instanceTo(self.root)
        self.root.setColor(*colour, 1.0, 2)
        self.root.setColorScaleOff(2)
        self.root.setLightOff(2)
        self.root.setBin("fixed", -10)
