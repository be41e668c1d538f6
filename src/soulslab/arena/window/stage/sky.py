"""Sky and weather: a panorama on the inside of a cylinder, and falling specks, both around the camera."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import CullBinEnums, CullBinManager, DepthTestAttrib, NodePath, RenderAttrib

from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.window.stage.atmosphere import Atmosphere
from soulslab.arena.window.stage.baked_mesh import Mesh, texture_of
from soulslab.arena.window.stage.textures import SKY_HIGH_RAD, SKY_LOW_RAD, sky

_RADIUS_M = 150.0
_N_COLUMNS = 32
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
    angles = np.linspace(0.0, math.tau, _N_COLUMNS + 1)
    heights = np.array([SKY_LOW_RAD, -0.3, 0.0, 0.3, SKY_HIGH_RAD])
    points = np.stack(
        [
            np.broadcast_to(_RADIUS_M * np.cos(angles), (5, _N_COLUMNS + 1)),
            np.broadcast_to(_RADIUS_M * np.sin(angles), (5, _N_COLUMNS + 1)),
            np.broadcast_to(_RADIUS_M * np.tan(heights)[:, None], (5, _N_COLUMNS + 1)),
        ],
        axis=-1,
    )
    u = np.broadcast_to(angles / math.tau, points.shape[:2])
    v = np.broadcast_to(((heights - SKY_LOW_RAD) / (SKY_HIGH_RAD - SKY_LOW_RAD))[:, None], points.shape[:2])
    mesh.grid(points, np.ones((*points.shape[:2], 3)), np.stack([u, v], axis=-1))
    for z, colour in ((points[-1, 0, 2], atmosphere.zenith), (points[0, 0, 2], atmosphere.abyss)):
        side = _RADIUS_M * np.array([[[-1, -1], [-1, 1]], [[1, -1], [1, 1]]])
        lid = np.concatenate([side, np.full((2, 2, 1), z)], axis=-1)
        mesh.grid(lid, np.broadcast_to(np.array(colour), (2, 2, 3)), np.full((2, 2, 2), 0.999 if z > 0 else 0.001))
    path = mesh.node(parent, "sky", texture_of(sky(atmosphere, cliff_rad), repeats=False, has_mipmaps=False))
    path.setTwoSided(True)
    path.setBin(_bin(), 0)
    path.setDepthWrite(False)
    path.setAttrib(DepthTestAttrib.make(RenderAttrib.MLessEqual))
    return path


def _bin() -> str:
    """Return the name of the bin between panda3d's ``opaque`` (20) and ``transparent`` (30)."""
    bins = CullBinManager.getGlobalPtr()
    if bins.findBin(_BIN) == -1:
        bins.addBin(_BIN, CullBinEnums.BTFixed, 25)
    return _BIN


class Weather:
    """Specks in the air around the camera, whose positions depend only on the game's ticks.

    Args:
        parent: Node whose coordinates the camera's position is in.
        atmosphere: Kind, colour and speed of the specks.
    """

    def __init__(self, parent: NodePath, atmosphere: Atmosphere) -> None:
        self._atmosphere = atmosphere
        self._clouds = [_cloud(atmosphere, number).node(parent, f"specks {number}") for number in range(_N_CLOUDS)]
        for path in self._clouds:
            path.setTwoSided(True)

    def show(self, camera_m: tuple[float, float, float], n_ticks: int) -> None:
        """Move the specks.

        Args:
            camera_m: Position of the camera.
            n_ticks: Ticks of the game.
        """
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
