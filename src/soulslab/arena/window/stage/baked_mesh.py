"""Triangle meshes with baked light: the vertices contain the light, so that the renderer does not compute it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Geom,
    GeomNode,
    GeomTriangles,
    GeomVertexData,
    GeomVertexFormat,
    NodePath,
    SamplerState,
    Texture,
)

Floats: TypeAlias = NDArray[np.floating[Any]]

_VERTEX = np.dtype([("point", "<f4", 3), ("colour", "u1", 4), ("uv", "<f4", 2)])


class Mesh:
    """Collects triangles and makes one node of them. Front faces are counter-clockwise."""

    def __init__(self) -> None:
        self._vertices: list[NDArray[np.void]] = []
        self._triangles: list[NDArray[np.int64]] = []
        self._n_vertices = 0

    def add(self, points: Floats, triangles: NDArray[np.int64], colours: Floats, uvs: Floats | None = None) -> None:
        """Add triangles (M, 3) of points (N, 3) in m.

        Colours, 0 to 1, are (N, 3) or (N, 4), or one for all points; texture coordinates are (N, 2).
        """
        vertices = np.zeros(len(points), _VERTEX)
        vertices["point"] = points
        vertices["colour"] = 255
        rgb = np.clip(np.broadcast_to(colours, (len(points), np.shape(colours)[-1])), 0.0, 1.0)
        vertices["colour"][:, : rgb.shape[1]] = np.rint(rgb * 255)
        if uvs is not None:
            vertices["uv"] = uvs
        self._vertices.append(vertices)
        self._triangles.append(triangles + self._n_vertices)
        self._n_vertices += len(points)

    def grid(self, points: Floats, colours: Floats, uvs: Floats | None = None) -> None:
        """Add a sheet of points (M, N, 3) in m, with colours (M, N, 3 or 4) and texture coordinates (M, N, 2).

        Seen from the front, a step along M and a step along N turn counter-clockwise.
        """
        rows, columns = points.shape[:2]
        first = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
        a, b, c, d = first, first + columns, first + columns + 1, first + 1
        triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
        flat = uvs.reshape(-1, 2) if uvs is not None else None
        self.add(points.reshape(-1, 3), triangles, colours.reshape(-1, colours.shape[-1]), flat)

    def box(self, low: Floats, high: Floats, colours: tuple[Floats, Floats, Floats], turn_rad: float = 0.0) -> None:
        """Add an upright box between two corners in m without a bottom face, rotated about its centre.

        The colours are those of its top, of the lower edge of its sides, and of the upper edge of its sides.
        """
        top, foot, head = colours
        (x0, y0, z0), (x1, y1, z1) = low, high
        middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
        flat = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) - middle
        cos, sin = np.cos(turn_rad), np.sin(turn_rad)
        flat = flat @ np.array([[cos, sin], [-sin, cos]]) + middle
        ring = np.vstack([flat, flat[:1]])
        sides = np.stack([np.c_[ring, np.full(5, z1)], np.c_[ring, np.full(5, z0)]])
        shades = np.array([0.8, 1.0, 0.7, 0.55, 0.8])[:, None]
        along = np.array([0.0, 1.0, 2.0, 3.0, 4.0]) * max(x1 - x0, y1 - y0) / 3.0
        uvs = np.stack([np.c_[along, np.full(5, z1 / 3.0)], np.c_[along, np.full(5, z0 / 3.0)]])
        self.grid(sides, np.stack([head * shades, foot * shades]), uvs)
        self.add(np.c_[flat, np.full(4, z1)], np.array([[0, 1, 2], [0, 2, 3]]), top, flat / 3.0)

    def node(self, parent: NodePath, name: str, texture: Texture | None = None) -> NodePath:
        """Make a node of the mesh that ignores the light and fog of the scene."""
        data = GeomVertexData(name, GeomVertexFormat.getV3c4t2(), Geom.UHStatic)
        data.uncleanSetNumRows(self._n_vertices)
        data.modifyArrayHandle(0).copyDataFrom(np.concatenate(self._vertices).tobytes())
        node = GeomNode(name)
        node.addGeom(geometry_of(data, np.concatenate(self._triangles)))
        path = parent.attachNewNode(node)
        path.setLightOff()
        path.setFogOff()
        if texture is not None:
            path.setTexture(texture)
        return path


def geometry_of(data: GeomVertexData, triangles: NDArray[np.int64]) -> Geom:
    """Return a geometry of vertices and triangles (M, 3)."""
    primitive = GeomTriangles(Geom.UHStatic)
    primitive.setIndexType(Geom.NTUint16)
    primitive.modifyVertices(triangles.size)
    primitive.modifyVertices().modifyHandle().copyDataFrom(triangles.astype("<u2").tobytes())
    geom = Geom(data)
    geom.addPrimitive(primitive)
    return geom


def texture_of(image: NDArray[np.uint8], *, repeats: bool = True, has_mipmaps: bool = True) -> Texture:
    """Return a texture of an (H, W, 3) or (H, W, 4) image whose first row is the top; its sides are powers of two."""
    height, width, n_channels = image.shape
    texture = Texture()
    form = Texture.FRgb if n_channels == 3 else Texture.FRgba
    texture.setup2dTexture(width, height, Texture.TUnsignedByte, form)
    # panda3d stores blue first, and the bottom row first.
    order = [2, 1, 0, 3][:n_channels]
    texture.setRamImage(np.ascontiguousarray(image[::-1, :, order]).tobytes())
    # With hardware, the floor stays sharp into the distance.
    texture.setAnisotropicDegree(8)
    texture.setMagfilter(SamplerState.FT_linear)
    texture.setMinfilter(SamplerState.FT_linear_mipmap_nearest if has_mipmaps else SamplerState.FT_linear)
    wrap = SamplerState.WM_repeat if repeats else SamplerState.WM_clamp
    texture.setWrapU(wrap)
    texture.setWrapV(wrap)
    return texture
