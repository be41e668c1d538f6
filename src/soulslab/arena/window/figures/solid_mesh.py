"""Solids made of few triangles with colours and normals, joined into one node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Geom,
    GeomEnums,
    GeomNode,
    GeomVertexAnimationSpec,
    GeomVertexArrayFormat,
    GeomVertexData,
    GeomVertexFormat,
    GeomVertexWriter,
    InternalName,
    SparseArray,
    TransformBlend,
    TransformBlendTable,
    UserVertexTransform,
)

from soulslab.arena.window.stage.baked_mesh import geometry_of

Point: TypeAlias = tuple[float, float, float]
#: Red, green and blue, 0 to 1.
Colour: TypeAlias = tuple[float, float, float]
Floats: TypeAlias = NDArray[np.float64]

#: One vertex in panda3d's format; the colour is packed as 0xAARRGGBB.
VERTEX = np.dtype([("place", "<f4", 3), ("normal", "<f4", 3), ("colour", "<u4")])

#: Baked shade: surfaces that face down are this much darker than surfaces that face up, so that the form of a body is
#: visible in flat light.
UNDERSIDE = 0.35

_BOX_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
_BOX_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


class Mesh:
    """Collects solids. All sizes are in m, in the axes of the part that the solid belongs to."""

    def __init__(self) -> None:
        self._places: list[Floats] = []
        self._normals: list[Floats] = []
        self._colours: list[Floats] = []
        self._triangles: list[NDArray[np.int64]] = []
        self._n_vertices = 0

    def box(self, centre: Point, size: Point, colour: Colour, taper: tuple[float, float] = (1.0, 1.0)) -> Mesh:
        """Add a box; ``taper`` is the width (x) and depth (y) of its top as shares of those of its bottom."""
        corners = _BOX_CORNERS * (np.array(size) / 2)
        top = corners[:, 2] > 0
        corners[top, 0] *= taper[0]
        corners[top, 1] *= taper[1]
        for face in _BOX_FACES:
            self.polygon(corners[list(face)] + np.array(centre), colour)
        return self

    def polygon(self, corners: Floats | Sequence[Point], colour: Colour, *, is_two_sided: bool = False) -> Mesh:
        """Add a flat, convex polygon with its corners counter-clockwise as seen from its front."""
        places = np.asarray(corners, np.float64)
        normal = _unit(_cross(places[1] - places[0], places[2] - places[0]))
        fan = np.array([(0, i, i + 1) for i in range(1, len(places) - 1)])
        self._add(places, np.tile(normal, (len(places), 1)), colour, fan)
        if is_two_sided:
            self._add(places, np.tile(-normal, (len(places), 1)), colour, fan[:, ::-1])
        return self

    def tube(
        self,
        profile: Sequence[tuple[float, float]],
        colour: Colour,
        start: Point = (0.0, 0.0, 0.0),
        way: Point = (0.0, 1.0, 0.0),
        shape: tuple[int, float] = (6, 1.0),
    ) -> Mesh:
        """Add a solid of revolution with a profile of (distance along ``way``, radius); a radius of 0 makes a point.

        ``shape`` is the number of its sides, and its thickness as a share of its width.
        """
        n_sides, flatness = shape
        along, across, up = _frame(np.array(way, np.float64))
        turn = np.arange(n_sides) * (2 * math.pi / n_sides) + math.pi / n_sides
        ring = np.outer(np.cos(turn), across) + np.outer(np.sin(turn) * flatness, up)
        out = np.outer(np.cos(turn) * flatness, across) + np.outer(np.sin(turn), up)
        out /= np.linalg.norm(out, axis=1)[:, None]
        distances, radii = np.array(profile, np.float64).T
        places = [np.array(start) + along * y + ring * r for y, r in zip(distances, radii, strict=True)]
        slopes = -np.gradient(radii, distances) if len(profile) > 1 else np.zeros(1)
        normals = [_unit_rows(out + along * slope) for slope in np.clip(slopes, -3.0, 3.0)]
        triangles = []
        for i in range(len(profile) - 1):
            for j in range(n_sides):
                a, b = i * n_sides + j, i * n_sides + (j + 1) % n_sides
                c, d = a + n_sides, b + n_sides
                if radii[i] > 0:
                    triangles.append((a, b, d))
                if radii[i + 1] > 0:
                    triangles.append((a, d, c))
                elif radii[i] > 0:
                    triangles[-1] = (a, b, c)
        self._add(np.concatenate(places), np.concatenate(normals), colour, np.array(triangles))
        for end, sign in ((0, -1.0), (len(profile) - 1, 1.0)):
            if radii[end] > 0:
                self.polygon(places[end] if sign > 0 else places[end][::-1], colour)
        return self

    def ball(self, centre: Point, radii: Point, colour: Colour, shape: tuple[int, int] = (6, 4)) -> Mesh:
        """Add an ellipsoid with (sides, rings)."""
        n_sides, n_rings = shape
        tilt = np.linspace(0.0, math.pi, n_rings + 1)
        turn = np.arange(n_sides) * (2 * math.pi / n_sides)
        unit = np.stack(
            [
                np.outer(np.sin(tilt), np.cos(turn)).ravel(),
                np.outer(np.sin(tilt), np.sin(turn)).ravel(),
                np.repeat(np.cos(tilt), n_sides),
            ],
            axis=1,
        )
        triangles = []
        for i in range(n_rings):
            for j in range(n_sides):
                a, b = i * n_sides + j, i * n_sides + (j + 1) % n_sides
                if i > 0:
                    triangles.append((a, b + n_sides, b))
                if i < n_rings - 1:
                    triangles.append((a, a + n_sides, b + n_sides))
        self._add(unit * radii + np.array(centre), _unit_rows(unit / radii), colour, np.array(triangles))
        return self

    def spike(
        self, start: Point, tip: Point, radius: float, colour: Colour, shape: tuple[int, float] = (5, 1.0)
    ) -> Mesh:
        """Add a pointed cone."""
        way = np.array(tip) - np.array(start)
        length = float(np.linalg.norm(way))
        x, y, z = way
        return self.tube([(0.0, radius), (length, 0.0)], colour, start, (float(x), float(y), float(z)), shape)

    def squeeze(self, thickness: float) -> Mesh:
        """Make everything that has been added so far thin across (x), as blades are."""
        for i, normals in enumerate(self._normals):
            self._places[i][:, 0] *= thickness
            self._normals[i] = _unit_rows(normals * (1.0 / thickness, 1.0, 1.0))
        return self

    def fade(self, low: float, high: float, strength: float) -> Mesh:
        """Darken everything added so far towards the bottom: not at z = ``high``, by ``strength`` at ``low``."""
        for i, places in enumerate(self._places):
            share = np.clip((high - places[:, 2]) / (high - low), 0.0, 1.0)
            self._colours[i] = self._colours[i] * (1.0 - strength * share[:, None])
        return self

    def solid(self, scale: float = 1.0) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Return the solid scaled by ``scale``: its vertices (`VERTEX`) and triangles (n, 3)."""
        vertices = np.zeros(self._n_vertices, VERTEX)
        if not self._places:
            return vertices, np.zeros((0, 3), np.int64)
        vertices["place"] = np.concatenate(self._places) * scale
        vertices["normal"] = np.concatenate(self._normals)
        vertices["colour"] = pack(np.concatenate(self._colours), 1.0)
        return vertices, np.concatenate(self._triangles)

    def node(self, name: str, scale: float = 1.0) -> GeomNode:
        """Return the solid scaled by ``scale`` as one node."""
        node = GeomNode(name)
        node.addGeom(geometry(*self.solid(scale)))
        return node

    def _add(self, places: Floats, normals: Floats, colour: Colour, triangles: NDArray[np.int64]) -> None:
        shade = 1.0 - UNDERSIDE * (0.5 - 0.5 * normals[:, 2:])
        self._places.append(places)
        self._normals.append(normals)
        self._colours.append(np.clip(np.array(colour) * shade, 0.0, 1.0))
        self._triangles.append(triangles + self._n_vertices)
        self._n_vertices += len(places)


def pack(colours: Floats, alpha: Floats | float) -> NDArray[np.uint32]:
    """Return colours (n, 3) and alpha (n,), each 0 to 1, in panda3d's packed format."""
    red, green, blue = (np.clip(colours, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint32).T
    opacity = np.broadcast_to(np.asarray(np.clip(alpha, 0.0, 1.0) * 255.0 + 0.5), red.shape).astype(np.uint32)
    packed: NDArray[np.uint32] = (opacity << 24) | (red << 16) | (green << 8) | blue
    return packed


def geometry(
    vertices: NDArray[np.void], triangles: NDArray[np.int64], *, joints: Joints | None = None, is_dynamic: bool = False
) -> Geom:
    """Return vertices (`VERTEX`) and triangles (n, 3) as a geometry; joints transform parts of its vertices."""
    array = GeomVertexArrayFormat()
    array.addColumn("vertex", 3, GeomEnums.NTFloat32, GeomEnums.CPoint)
    array.addColumn("normal", 3, GeomEnums.NTFloat32, GeomEnums.CNormal)
    array.addColumn("color", 1, GeomEnums.NTPackedDabc, GeomEnums.CColor)
    layout = GeomVertexFormat(array)
    if joints is not None:
        layout.addArray(
            GeomVertexArrayFormat(InternalName.make("transform_blend"), 1, GeomEnums.NTUint16, GeomEnums.CIndex)
        )
        animation = GeomVertexAnimationSpec()
        animation.setPanda()
        layout.setAnimation(animation)
    usage = GeomEnums.UHDynamic if is_dynamic else GeomEnums.UHStatic
    data = GeomVertexData("solid", GeomVertexFormat.registerFormat(layout), usage)
    data.setNumRows(len(vertices))
    memoryview(data.modifyArray(0)).cast("B")[:] = vertices.tobytes()
    if joints is not None:
        joints.bind(data, len(vertices))
    return geometry_of(data, triangles)


class Joints:
    """Rigid parts of one geometry. panda3d transforms their vertices, which costs less than one node per part."""

    def __init__(self, n_vertices: Sequence[int]) -> None:
        self._n_vertices = n_vertices
        self.transforms = [UserVertexTransform("part") for _ in n_vertices]

    def bind(self, data: GeomVertexData, n_rows: int) -> None:
        """Make the joints transform the vertices of a geometry."""
        table = TransformBlendTable()
        for transform in self.transforms:
            table.addBlend(TransformBlend(transform, 1.0))
        table.setRows(SparseArray.lowerOn(n_rows))
        data.setTransformBlendTable(table)
        writer = GeomVertexWriter(data, InternalName.getTransformBlend())
        for part, number in enumerate(self._n_vertices):
            for _ in range(number):
                writer.setData1i(part)


def _unit(vector: Floats) -> Floats:
    unit: Floats = vector / max(float(np.linalg.norm(vector)), 1e-9)
    return unit


def _cross(one: Floats, other: Floats) -> Floats:
    """Return the cross product of two vectors; `numpy.cross` takes many times as long for them."""
    (ax, ay, az), (bx, by, bz) = one.tolist(), other.tolist()
    return np.array((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


def _unit_rows(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)[:, None]
    return unit


def _frame(way: Floats) -> tuple[Floats, Floats, Floats]:
    """Return three axes: along a direction, across and up, such that across x up = along."""
    along = _unit(way)
    across = _cross(along, np.array((0.0, 0.0, 1.0))) if abs(along[2]) < 0.99 else np.array((1.0, 0.0, 0.0))
    across = _unit(across)
    up = _cross(along, across)
    return along, across, up
