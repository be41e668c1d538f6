"""The landscape around a fight: floor, earth and cliff, sky and weather.

The sky is a panorama on the inside of a cylinder; it and the falling specks are around the camera.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from panda3d.core import CullBinEnums, CullBinManager, DepthTestAttrib, NodePath, RenderAttrib

from soulslab.arena.boss_file import Ground
from soulslab.arena.geometry import angle_between
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.window.stage.atmosphere import Atmosphere
from soulslab.arena.window.stage.baked_mesh import Floats, Mesh, texture_of
from soulslab.arena.window.stage.textures import SKY_HIGH_RAD, SKY_LOW_RAD, medallion, noise, sky, slabs

#: Radius of the medallion at the centre, and its upper bound as a share of the floor's radius.
MEDALLION_M, _MEDALLION_SHARE = 5.0, 0.5
#: Gap between floor and wall: the player's centre stops at the floor's radius, its body at the wall.
WALL_GAP_M = 0.5
#: Outer radius of the earth behind the wall.
OUTSIDE_M = 30.0
CLIFF_DEPTH_M = 16.0
N_BRAZIERS = 6
#: A texture of slabs shows two by two of them.
_SLABS_M, _RING_M = 3.6, 2.5
_N_COLUMNS = 54


class Place(msgspec.Struct, frozen=True):
    """Positions of the parts of the ground, relative to the floor's centre.

    ``half_rad`` is half the angular width of the cliff, 0 for no cliff; ``cliff_rad`` is the direction of its middle.
    """

    radius_m: float
    cliff_rad: float
    half_rad: float

    @property
    def has_wall(self) -> bool:
        """Whether there is a wall beside the cliff."""
        return self.half_rad < math.pi - 0.1

    @property
    def medallion_m(self) -> float:
        """Radius of the medallion at the centre."""
        return min(MEDALLION_M, _MEDALLION_SHARE * self.radius_m)

    @property
    def wall_rad(self) -> tuple[float, float]:
        """Angles at which the wall begins and ends, to the left."""
        return self.cliff_rad + self.half_rad, self.cliff_rad + math.tau - self.half_rad

    def braziers(self) -> list[tuple[float, float]]:
        """Return the positions of the fires along the wall; empty without a wall."""
        if not self.has_wall:
            return []
        first, last = self.wall_rad
        angles = [first + (last - first) * (i + 0.5) / N_BRAZIERS for i in range(N_BRAZIERS)]
        radius = self.radius_m + 0.1
        return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def place_of(ground: Ground) -> Place:
    """Return the place of a boss's ground."""
    return Place(ground.radius_m, ground.cliff_rad, ground.cliff_width_rad / 2)


def light_at(points: Floats, place: Place, atmosphere: Atmosphere) -> Floats:
    """Return the light on points of the floor, (..., 3): brightest at the centre, and warm near the fires.

    The points, (..., 2 or 3) in m, are relative to the floor's centre.
    """
    x, y = points[..., 0], points[..., 1]
    r = np.hypot(x, y) / place.radius_m
    light = (1.0 - atmosphere.shade * np.clip(r, 0, 1.6) ** 2)[..., None] * np.ones(3)
    for fire_x, fire_y in place.braziers():
        near = np.exp(-((x - fire_x) ** 2 + (y - fire_y) ** 2) / 14.0)
        light = light + 0.75 * near[..., None] * np.array(atmosphere.fire)
    return np.clip(light, 0.0, 1.0)


def build_ground(parent: NodePath, ground: Ground, atmosphere: Atmosphere) -> None:
    """Build floor, earth and cliff below a node at the floor's centre."""
    place = place_of(ground)
    stone = texture_of(slabs(atmosphere))
    _floor(place, atmosphere).node(parent, "floor", stone)
    _medallion(place, atmosphere).node(parent, "medallion", texture_of(medallion(atmosphere), repeats=False))
    _edge(place, atmosphere).node(parent, "edge")


def lip_m(angles: Floats, place: Place) -> Floats:
    """Return the extent of the floor at angles: to the wall, or to the irregular edge of the cliff."""
    off = np.abs(angle_between(angles, place.cliff_rad))
    wobble = 0.22 * np.sin(17 * angles) + 0.13 * np.sin(41 * angles + 1)
    return np.where(off < place.half_rad, place.radius_m + 0.1 + wobble, place.radius_m + WALL_GAP_M)


def _columns(place: Place) -> Floats:
    """Return the angles of the floor's columns, closed, including the corners of the cliff."""
    angles = place.cliff_rad + np.linspace(0.0, math.tau, _N_COLUMNS + 1)
    if place.half_rad > 0.0:
        corners = place.cliff_rad + np.array([place.half_rad, math.tau - place.half_rad])
        angles = np.sort(np.concatenate([angles, corners, [corners[0] - 1e-3, corners[1] + 1e-3]]))
    return angles


def _polar(radii: Floats, angles: Floats | float, z: Floats | float) -> Floats:
    """Return the points (M, N, 3) of rings by columns, seen from above."""
    r, angle = np.broadcast_arrays(radii, angles)
    return np.stack([r * np.cos(angle), r * np.sin(angle), np.broadcast_to(z, r.shape)], axis=-1)


def _floor(place: Place, atmosphere: Atmosphere) -> Mesh:
    mesh = Mesh()
    angles = _columns(place)
    n_rings = max(round((place.radius_m - place.medallion_m) / _RING_M), 1)
    edges = np.linspace(place.medallion_m, place.radius_m, n_rings + 1)
    for i in range(n_rings):
        outer = lip_m(angles, place) if i == n_rings - 1 else np.full_like(angles, edges[i + 1])
        points = _polar(np.stack([np.full_like(angles, edges[i]), outer]), angles, 0.0)
        # Only whole slabs; each ring is turned by a different part of a slab.
        n_slabs = max(round(math.tau * edges[i + 1] / _SLABS_M), 1)
        u = (angles - place.cliff_rad) / math.tau * n_slabs + 0.37 * i
        v = np.stack([np.full_like(u, i), i + (outer - edges[i]) / (edges[i + 1] - edges[i])])
        mesh.grid(points, light_at(points, place, atmosphere), np.stack([np.broadcast_to(u, v.shape), v], axis=-1))
    return mesh


def _medallion(place: Place, atmosphere: Atmosphere) -> Mesh:
    mesh = Mesh()
    angles = _columns(place)
    points = _polar(np.array([[0.01], [place.medallion_m]]), angles[None, :], 0.0)
    mesh.grid(points, light_at(points, place, atmosphere), points[..., :2] / (2 * place.medallion_m) + 0.5)
    return mesh


def _edge(place: Place, atmosphere: Atmosphere) -> Mesh:
    """Build the earth behind the wall up to the haze, and the faces of the cliff."""
    mesh = Mesh()
    haze, abyss = np.array(atmosphere.abyss), np.array(atmosphere.abyss) * 0.8
    first, last = place.wall_rad
    angles = np.linspace(first, last, 41)
    radii = place.radius_m + np.array([[WALL_GAP_M], [4.0], [12.0], [OUTSIDE_M]])
    bumps = noise((8, 64), 61, 1.2)[:4, :41]
    points = _polar(radii, angles[None, :], np.array([[0.0], [0.25], [0.6], [-4.0]]) + 0.3 * bumps * (radii > radii[0]))
    earth = np.array(atmosphere.stone) * 0.42 * (1 + 0.08 * bumps[..., None])
    share = np.array([0.0, 0.12, 0.5, 1.0])[:, None, None]
    mesh.grid(points, earth * (1 - share) + haze * share)
    if place.half_rad > 0.0:
        _cliff(mesh, place, np.array(atmosphere.stone), abyss)
    return mesh


def _cliff(mesh: Mesh, place: Place, stone: Floats, abyss: Floats) -> None:
    """Add the rock below the edge, and both ends of the earth at the cliff."""
    angles = place.cliff_rad + np.linspace(-place.half_rad, place.half_rad, 31)
    inside = np.clip(angles, place.cliff_rad - place.half_rad + 1e-3, place.cliff_rad + place.half_rad - 1e-3)
    down = np.array([0.0, -0.5, -2.5, -6.0, -CLIFF_DEPTH_M])[:, None]
    jag = noise((8, 64), 62, 0.9)[:5, :31]
    out = np.array([0.0, 0.35, 0.1, 0.9, 2.5])[:, None]
    points = _polar(lip_m(inside, place)[None, :] + out + 0.3 * jag * (down < 0), angles[None, :], down)
    share = np.array([0.0, 0.05, 0.35, 0.7, 1.0])[:, None, None]
    rock = stone * 0.5 * (1 + 0.16 * jag[..., None])
    rock[0] = stone * 0.85
    mesh.grid(points, rock * (1 - share) + abyss * share)
    for side, angle in ((1, angles[-1]), (-1, angles[0])):
        radii = place.radius_m + np.array([0.0, WALL_GAP_M, 4.0, 12.0, OUTSIDE_M])
        face = _polar(np.tile(radii, (3, 1)), angle, np.array([[0.8], [-4.0], [-CLIFF_DEPTH_M]]))
        face[0, :, 2] = [0.0, 0.0, 0.25, 0.6, -4.0]
        share = np.clip(np.array([[0.0], [0.5], [1.0]]) + np.array([0.0, 0.0, 0.1, 0.4, 1.0]), 0, 1)[..., None]
        colours = stone * 0.45 * (1 - share) + abyss * share
        mesh.grid(face[:, ::side], colours[:, ::side])


_RADIUS_M = 150.0
_N_SKY_COLUMNS = 32
_BIN = "sky"
#: Distance at which the specks of one cloud repeat.
PERIOD_M = 12.0
_N_CLOUDS = 2
#: Number of specks in one cloud, and their size.
_N_SPECKS = {"ash": 60, "snow": 170, "petals": 60}
_SIZES_M = {"ash": 0.020, "snow": 0.024, "petals": 0.04}


def build_sky(parent: NodePath, atmosphere: Atmosphere, cliff_rad: float) -> NodePath:
    """Build the sky, whose node has to be kept at the camera's position.

    It is drawn after all opaque objects, so that no pixel is drawn twice, and before all translucent ones.
    """
    mesh = Mesh()
    angles = np.linspace(0.0, math.tau, _N_SKY_COLUMNS + 1)
    heights = np.array([SKY_LOW_RAD, -0.3, 0.0, 0.3, SKY_HIGH_RAD])
    points = _polar(np.full((5, 1), _RADIUS_M), angles, _RADIUS_M * np.tan(heights)[:, None])
    u = np.broadcast_to(angles / math.tau, points.shape[:2])
    v = np.broadcast_to(((heights - SKY_LOW_RAD) / (SKY_HIGH_RAD - SKY_LOW_RAD))[:, None], points.shape[:2])
    mesh.grid(points, np.ones((*points.shape[:2], 3)), np.stack([u, v], axis=-1))
    for z, colour in ((points[-1, 0, 2], atmosphere.zenith), (points[0, 0, 2], atmosphere.abyss)):
        side = _RADIUS_M * np.array([[[-1, -1], [-1, 1]], [[1, -1], [1, 1]]])
        lid = np.concatenate([side, np.full((2, 2, 1), z)], axis=-1)
        mesh.grid(lid, np.broadcast_to(np.array(colour), (2, 2, 3)), np.full((2, 2, 2), 0.999 if z > 0 else 0.001))
    path = mesh.node(parent, "sky", texture_of(sky(atmosphere, cliff_rad), repeats=False, has_mipmaps=False))
    path.setTwoSided(True)
    # Between panda3d's bins ``opaque`` (20) and ``transparent`` (30).
    CullBinManager.getGlobalPtr().addBin(_BIN, CullBinEnums.BTFixed, 25)
    path.setBin(_BIN, 0)
    path.setDepthWrite(False)
    path.setAttrib(DepthTestAttrib.make(RenderAttrib.MLessEqual))
    return path


class Weather:
    """Specks in the air around the camera, whose positions depend only on the game's ticks."""

    def __init__(self, parent: NodePath, atmosphere: Atmosphere) -> None:
        self._atmosphere = atmosphere
        self._clouds = [_cloud(atmosphere, number).node(parent, f"specks {number}") for number in range(_N_CLOUDS)]
        for path in self._clouds:
            path.setTwoSided(True)

    def show(self, camera_m: tuple[float, float, float], n_ticks: int) -> None:
        """Move the specks; the position of the camera is in the coordinates of the parent node."""
        time_s = n_ticks / TICKS_PER_S
        atmosphere = self._atmosphere
        for i, path in enumerate(self._clouds):
            sway = 0.35 * math.sin(0.9 * time_s + 2.1 * i)
            moved = (
                atmosphere.wind_m_s * (1 + 0.3 * i) * time_s + sway,
                0.4 * atmosphere.wind_m_s * time_s - sway,
                -atmosphere.fall_m_s * (1 + 0.25 * i) * time_s,
            )
            # The lattice of clouds is infinite; this selects its cell around the camera.
            path.setPos(*(m - PERIOD_M * round((m - c) / PERIOD_M) for m, c in zip(moved, camera_m, strict=True)))


def _cloud(atmosphere: Atmosphere, number: int) -> Mesh:
    """Build specks in a box that extends beyond the movement of the cloud, so that its border is never near."""
    rng = np.random.default_rng(100 + number)
    size = _SIZES_M[atmosphere.weather]
    places = rng.uniform(-PERIOD_M, PERIOD_M, (_N_SPECKS[atmosphere.weather], 3)) * np.array([1.0, 1.0, 0.5])
    # Equilateral triangles in random planes.
    ways = np.linalg.qr(rng.standard_normal((len(places), 3, 2)))[0]
    thirds = np.arange(3) / 3 * math.tau
    corners = size * np.einsum("nxk,ck->ncx", ways, np.stack([np.cos(thirds), np.sin(thirds)], axis=1))
    points = (places[:, None, :] + corners).reshape(-1, 3)
    shade = rng.uniform(0.7, 1.0, (len(places), 1, 1)) * np.ones((1, 3, 1))
    mesh = Mesh()
    mesh.add(points, np.arange(len(points)).reshape(-1, 3), shade.reshape(-1, 1) * np.array(atmosphere.flake))
    return mesh
