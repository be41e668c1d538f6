"""Weather: ash, snow or petals, as clouds of specks that repeat around the camera."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.state import TICKS_PER_S
from soulslab.arena.window.stage.mesh import Mesh
from soulslab.arena.window.stage.mood import Mood

#: Distance at which the specks of one cloud repeat.
PERIOD_M = 12.0
_N_CLOUDS = 2
#: Number of specks in one cloud, and their size.
_N_SPECKS = {"ash": 60, "snow": 170, "petals": 60}
_SIZES_M = {"ash": 0.020, "snow": 0.024, "petals": 0.04}


class Weather:
    """Specks in the air around the camera, whose positions depend only on the game's ticks.

    Args:
        parent: Node whose coordinates the camera's position is in.
        mood: Kind, colour and speed of the specks.
    """

    def __init__(self, parent: NodePath, mood: Mood) -> None:
        self._mood = mood
        self._clouds = [_cloud(mood, number).node(parent, f"specks {number}") for number in range(_N_CLOUDS)]
        for path in self._clouds:
            path.setTwoSided(True)

    def show(self, camera_m: tuple[float, float, float], n_ticks: int) -> None:
        """Move the specks.

        Args:
            camera_m: Position of the camera.
            n_ticks: Ticks of the game.
        """
        time_s = n_ticks / TICKS_PER_S
        mood = self._mood
        for i, path in enumerate(self._clouds):
            sway = 0.35 * math.sin(0.9 * time_s + 2.1 * i)
            moved = (
                mood.wind_m_s * (1 + 0.3 * i) * time_s + sway,
                0.4 * mood.wind_m_s * time_s - sway,
                -mood.fall_m_s * (1 + 0.25 * i) * time_s,
            )
            # The lattice of clouds is infinite; this selects its cell around the camera.
            path.setPos(*(m - PERIOD_M * round((m - c) / PERIOD_M) for m, c in zip(moved, camera_m, strict=True)))


def _cloud(mood: Mood, number: int) -> Mesh:
    """Build specks in a box that extends beyond the movement of the cloud, so that its border is never near."""
    rng = np.random.default_rng(100 + number)
    size = _SIZES_M[mood.weather]
    places = rng.uniform(-PERIOD_M, PERIOD_M, (_N_SPECKS[mood.weather], 3)) * np.array([1.0, 1.0, 0.5])
    # Equilateral triangles in random planes.
    ways = np.linalg.qr(rng.standard_normal((len(places), 3, 2)))[0]
    thirds = np.arange(3) / 3 * math.tau
    corners = size * np.einsum("nxk,ck->ncx", ways, np.stack([np.cos(thirds), np.sin(thirds)], axis=1))
    points = (places[:, None, :] + corners).reshape(-1, 3)
    shade = rng.uniform(0.7, 1.0, (len(places), 1, 1)) * np.ones((1, 3, 1))
    mesh = Mesh()
    mesh.add(points, np.arange(len(points)).reshape(-1, 3), shade.reshape(-1, 1) * np.array(mood.flake))
    return mesh
