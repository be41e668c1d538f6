"""Sky and distance, painted on the inside of a cylinder around the camera."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import CullBinEnums, CullBinManager, DepthTestAttrib, NodePath, RenderAttrib

from soulslab.arena.window.stage.mesh import Mesh, texture_of
from soulslab.arena.window.stage.mood import Mood
from soulslab.arena.window.stage.textures import SKY_HIGH_RAD, SKY_LOW_RAD, sky

_RADIUS_M = 150.0
_N_COLUMNS = 32
_BIN = "sky"


def build_sky(parent: NodePath, mood: Mood, cliff_rad: float) -> NodePath:
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
    for z, colour in ((points[-1, 0, 2], mood.zenith), (points[0, 0, 2], mood.abyss)):
        side = _RADIUS_M * np.array([[[-1, -1], [-1, 1]], [[1, -1], [1, 1]]])
        lid = np.concatenate([side, np.full((2, 2, 1), z)], axis=-1)
        mesh.grid(lid, np.broadcast_to(np.array(colour), (2, 2, 3)), np.full((2, 2, 2), 0.999 if z > 0 else 0.001))
    path = mesh.node(parent, "sky", texture_of(sky(mood, cliff_rad), repeats=False, has_mipmaps=False))
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
