"""The node of a figure: one solid whose parts are positioned by the rig.

panda3d transforms the vertices. With the software renderer this takes half the time of one node per part, and less than
transforming them with numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from panda3d.core import GeomNode, LMatrix4f, NodePath, OmniBoundingVolume, UserVertexTransform

from soulslab.arena.window.figures.mesh import Joints, Mesh, geometry
from soulslab.arena.window.figures.pose import Pose
from soulslab.arena.window.figures.rig import PARTS, WEAPON_PART, Build, Place, place_parts


class Body:
    """The node of a figure.

    Args:
        parent: Parent node; its axes are those of the world.
        build: Proportions.
        meshes: Solids of the parts, in units of the build, by their names in `soulslab.arena.window.figures.rig.PARTS`.
        grown: Additional solids of some parts, which `show_growth` makes visible.

    Attributes:
        root: Node at the figure's feet that faces its direction, the parent of all its nodes.
    """

    def __init__(
        self, parent: NodePath, build: Build, meshes: Mapping[str, Mesh], grown: Mapping[str, Mesh] | None = None
    ) -> None:
        self.build = build
        self.root = parent.attachNewNode("figure")
        self._parts, _ = self._attach("body", meshes)
        self._growing, self._grown = self._attach("growth", grown or {})
        self._growth = 0.0
        self._grown.hide()

    def stand(self, place: tuple[float, float, float], facing: tuple[float, float]) -> None:
        """Set the figure's position, and its facing as a direction on the ground."""
        self.root.setPosHpr(*place, math.degrees(math.atan2(-facing[0], facing[1])), 0.0, 0.0)

    def show_growth(self, share: float) -> None:
        """Set the size of the additional solids, as a share of 0 (hidden) to 1, from the next `show` on."""
        if (share > 0.0) != (self._growth > 0.0):
            (self._grown.show if share > 0.0 else self._grown.hide)()
        self._growth = share

    def show(self, pose: Pose) -> None:
        """Set the pose."""
        places, stretch = place_parts(self.build, pose)
        for number, joint in self._parts:
            joint.setMatrix(_matrix(places[number], stretch if number == WEAPON_PART else 1.0))
        if self._growth > 0.0:
            for number, joint in self._growing:
                joint.setMatrix(LMatrix4f.scaleMat(self._growth) * _matrix(places[number], 1.0))

    def _attach(self, name: str, meshes: Mapping[str, Mesh]) -> tuple[list[tuple[int, UserVertexTransform]], NodePath]:
        """Attach solids as one node; return the transforms of the parts with their numbers, and the node."""
        numbers = [number for number, part in enumerate(PARTS) if part in meshes]
        solids = [meshes[PARTS[number]].solid(self.build.scale_m) for number in numbers]
        node = GeomNode(name)
        joints = Joints([len(vertices) for vertices, _ in solids])
        if solids:
            starts = np.cumsum([0, *(len(vertices) for vertices, _ in solids[:-1])])
            triangles = [triangles + start for (_, triangles), start in zip(solids, starts, strict=True)]
            vertices = np.concatenate([vertices for vertices, _ in solids])
            node.addGeom(geometry(vertices, np.concatenate(triangles), joints=joints, is_dynamic=True))
        # The bounds of a flattened shadow would cull parts of it, and both fighters are nearly always visible.
        node.setBounds(OmniBoundingVolume())
        node.setFinal(True)
        return list(zip(numbers, joints.transforms, strict=True)), self.root.attachNewNode(node)


def _matrix(place: Place, stretch: float) -> LMatrix4f:
    (rx, ry, rz), (ax, ay, az), (ux, uy, uz), (x, y, z) = place
    return LMatrix4f(
        *(rx, ry, rz, 0.0), *(stretch * ax, stretch * ay, stretch * az, 0.0), *(ux, uy, uz, 0.0), *(x, y, z, 1.0)
    )
