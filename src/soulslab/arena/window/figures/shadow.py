"""Planar shadows: the nodes of a figure, flattened onto the floor along the direction of the light."""

from __future__ import annotations

from panda3d.core import LMatrix4f, NodePath

from soulslab.arena.window.figures.mesh import Colour

#: Distance above the floor in m, which avoids z-fighting.
LIFT_M = 0.012
#: Remaining height of the flattened figure. It is not 0, because panda3d inverts the matrix.
FLATNESS = 1e-4


class Shadow:
    """The shadow of a figure.

    It is a second instance of the figure's nodes, so it needs no update for a picture.

    Args:
        parent: Parent node of the figure; its axes are those of the world.
        figure_root: Root node of the figure (`KnightFigure.root`, `BossFigure.root`).
        light: Direction of the light, z below 0.
        floor_m: Height of the floor.
        colour: Colour of the ground in the shadow. It is opaque, because overlapping parts would darken each other.
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
        # A point at height z is projected to the intersection of the floor and the ray of light through it.
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
