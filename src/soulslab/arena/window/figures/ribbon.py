"""Ribbons of light, such as the trail of a blade or the wave of an attack on the ground; rewritten for each picture."""

from __future__ import annotations

import numpy as np
from panda3d.core import GeomNode, NodePath, OmniBoundingVolume, TransparencyAttrib

from soulslab.arena.window.figures.mesh import VERTEX, Colour, Floats, geometry, pack


class Ribbon:
    """A translucent band between two lines of points.

    Args:
        parent: Parent node.
        n_points: Number of points of each line.
    """

    def __init__(self, parent: NodePath, n_points: int) -> None:
        self.n_points = n_points
        self._vertices = np.zeros(2 * n_points, VERTEX)
        self._vertices["normal"] = (0.0, 0.0, 1.0)
        triangles = []
        for i in range(n_points - 1):
            a, b = 2 * i, 2 * i + 1
            triangles += [(a, b, b + 2), (a, b + 2, a + 2)]
        self._node = GeomNode("ribbon")
        self._node.addGeom(geometry(self._vertices, np.array(triangles), is_dynamic=True))
        self._node.setBounds(OmniBoundingVolume())
        self._node.setFinal(True)
        self.path = parent.attachNewNode(self._node)
        self.path.setLightOff(1)
        self.path.setTwoSided(True)
        self.path.setDepthWrite(False)
        self.path.setTransparency(TransparencyAttrib.MAlpha)
        self.path.setBin("fixed", 10)
        self.path.hide()

    def show(self, lines: tuple[Floats, Floats], colour: Colour, alphas: tuple[Floats, Floats]) -> None:
        """Show the band.

        Args:
            lines: Two lines of points, (n_points, 3) each, in m.
            colour: Colour of the band.
            alphas: Opacity along each line, (n_points,) each, 0 to 1.
        """
        places = self._vertices["place"]
        colours = self._vertices["colour"]
        for side in (0, 1):
            places[side::2] = lines[side]
            colours[side::2] = pack(np.broadcast_to(np.array(colour), (self.n_points, 3)), alphas[side])
        array = self._node.modifyGeom(0).modifyVertexData().modifyArray(0)
        memoryview(array).cast("B")[:] = self._vertices.tobytes()
        self.path.show()

    def hide(self) -> None:
        """Hide the band."""
        self.path.hide()
