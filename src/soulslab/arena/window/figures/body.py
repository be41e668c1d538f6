"""A body on screen: one node for each part, placed by the rig."""

from __future__ import annotations

import math
from collections.abc import Mapping

from panda3d.core import GeomNode, LMatrix4f, NodePath, OmniBoundingVolume

from soulslab.arena.window.figures.mesh import Mesh
from soulslab.arena.window.figures.pose import Pose
from soulslab.arena.window.figures.rig import PARTS, WEAPON_PART, Build, place_parts


class Body:
    """The nodes of a figure.

    Args:
        parent: What the figure stands in; its axes are the world's.
        build: Proportions.
        meshes: Solids of the parts, in units of the build, by their names in `soulslab.arena.window.figures.rig.PARTS`.

    Attributes:
        root: Stands at the figure's feet and faces its way; everything of the figure is below it.
        weapon: Node of the weapon.
    """

    def __init__(self, parent: NodePath, build: Build, meshes: Mapping[str, Mesh]) -> None:
        self.build = build
        self.root = parent.attachNewNode("figure")
        self._parts: list[tuple[int, NodePath]] = []
        for number, name in enumerate(PARTS):
            if name not in meshes:
                continue
            node: GeomNode = meshes[name].node(name, build.scale_m)
            # Bounds of a part matter little to the camera, and a flattened shadow would lose its parts by them.
            node.setBounds(OmniBoundingVolume())
            node.setFinal(True)
            self._parts.append((number, self.root.attachNewNode(node)))
        self.weapon = next(path for number, path in self._parts if number == WEAPON_PART)
        self._grown: list[NodePath] = []
        self._growth = -1.0

    def grow(self, meshes: Mapping[str, Mesh]) -> None:
        """Add solids to some parts that are seen only when `show_growth` says so."""
        paths = {PARTS[number]: path for number, path in self._parts}
        for name, mesh in meshes.items():
            node: GeomNode = mesh.node(name, self.build.scale_m)
            node.setBounds(OmniBoundingVolume())
            node.setFinal(True)
            self._grown.append(paths[name].attachNewNode(node))
        self.show_growth(0.0)

    def show_growth(self, share: float) -> None:
        """Show what was added by `grow`, at a share of 0 (not at all) to 1 of its size."""
        if share == self._growth:
            return
        self._growth = share
        for path in self._grown:
            if share <= 0.0:
                path.hide()
            else:
                path.show()
                path.setScale(share)

    def stand(self, place: tuple[float, float, float], facing: tuple[float, float]) -> None:
        """Put the figure somewhere, facing along a direction of the ground."""
        self.root.setPosHpr(*place, math.degrees(math.atan2(-facing[0], facing[1])), 0.0, 0.0)

    def show(self, pose: Pose) -> None:
        """Take on a pose."""
        places, stretch = place_parts(self.build, pose)
        for number, path in self._parts:
            (rx, ry, rz), (ax, ay, az), (ux, uy, uz), (x, y, z) = places[number]
            if number == WEAPON_PART:
                ax, ay, az = stretch * ax, stretch * ay, stretch * az
            path.setMat(LMatrix4f(rx, ry, rz, 0.0, ax, ay, az, 0.0, ux, uy, uz, 0.0, x, y, z, 1.0))
