"""Ruins around the floor: a wall with broken columns, arches behind it, and fires in front of it."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.window.stage.arches import arches
from soulslab.arena.window.stage.fires import Flames, add_bowl
from soulslab.arena.window.stage.ground import N_BRAZIERS, WALL_GAP_M, Place, light_at
from soulslab.arena.window.stage.mesh import Floats, Mesh, texture_of
from soulslab.arena.window.stage.mood import Mood
from soulslab.arena.window.stage.textures import bricks, noise

N_SECTORS = 10
WALL_M = 0.9
#: Sectors of the wall within this angle of the camera's direction are hidden, so that they do not obstruct the view.
NEAR_COS = math.cos(0.75)
_STEPS = 7
_BRICK_M = 3.2


class Ruins:
    """Wall, columns, arches and fires around a floor.

    Args:
        parent: Node at the floor's centre.
        place: Positions of the parts of the ground.
        mood: Light and air.
    """

    def __init__(self, parent: NodePath, place: Place, mood: Mood) -> None:
        self._place = place
        self._sectors: list[tuple[float, float, NodePath]] = []
        self._flames = Flames(parent, place, mood)
        if not place.has_wall:
            return
        masonry = texture_of(bricks(mood))
        first, last = place.wall_rad
        edges = np.linspace(first, last, N_SECTORS + 1)
        heights = _heights()
        fires = place.braziers()
        for i in range(N_SECTORS):
            mesh = Mesh()
            part = heights[i * _STEPS : (i + 1) * _STEPS + 1]
            middle = float(edges[i] + edges[i + 1]) / 2
            _wall(mesh, np.linspace(edges[i], edges[i + 1], _STEPS + 1), part, place, mood)
            _column(mesh, middle, i, place, mood)
            for x, y in (fires[j] for j in range(len(fires)) if _sector_of(j) == i):
                add_bowl(mesh, x, y, mood)
            self._sectors.append((math.cos(middle), math.sin(middle), mesh.node(parent, f"wall {i}", masonry)))
        arches(place, mood).node(parent, "arches").setTwoSided(True)

    def show(self, camera_m: tuple[float, float], n_ticks: int) -> None:
        """Hide the parts that obstruct the view, and animate the fires.

        Args:
            camera_m: Position of the camera, relative to the floor's centre.
            n_ticks: Ticks of the game.
        """
        x, y = camera_m
        distance = math.hypot(x, y)
        is_outside = distance > self._place.radius_m - 0.5
        hidden = set()
        for i, (cos, sin, path) in enumerate(self._sectors):
            if is_outside and cos * x + sin * y > NEAR_COS * distance:
                hidden.add(i)
                path.hide()
            else:
                path.show()
        self._flames.show(n_ticks, {j for j in range(N_BRAZIERS) if _sector_of(j) in hidden})


def _sector_of(fire: int) -> int:
    """Return the number of the wall sector behind a fire."""
    return int((fire + 0.5) / N_BRAZIERS * N_SECTORS)


def _heights() -> Floats:
    """Return the height of the wall at each step in m, alternately high and broken."""
    n = N_SECTORS * _STEPS + 1
    field = noise((4, 128), 71, 0.9)[0, :n]
    steps = np.round(np.clip(2.3 + 1.3 * field, 0.7, 5.0) * 2.0) / 2.0
    return np.asarray(steps)


def _wall(mesh: Mesh, angles: Floats, heights: Floats, place: Place, mood: Mood) -> None:
    """Add a stretch of wall with a different height at each step, so that its top looks broken."""
    inner, outer = place.radius_m + WALL_GAP_M, place.radius_m + WALL_GAP_M + WALL_M
    for i in range(len(angles) - 1):
        tops = np.array([heights[i], 0.35 * heights[i] + 0.65 * heights[i + 1]])
        way = np.stack([np.cos(angles[i : i + 2]), np.sin(angles[i : i + 2])], axis=1)
        faces = []
        for radius, order in ((inner, slice(None)), (outer, slice(None, None, -1))):
            foot = np.c_[way * radius, np.zeros(2)][order]
            head = np.c_[way * radius, tops][order]
            faces.append((np.stack([foot, head]), radius == inner))
        u = angles[i : i + 2] * inner / _BRICK_M
        for points, is_inner in faces:
            v = points[..., 2] / _BRICK_M
            uvs = np.stack([np.broadcast_to(u, v.shape), v], axis=-1)
            light = light_at(points, place, mood)
            light = light * (np.array([0.6, 1.0])[:, None, None] if is_inner else 0.55)
            mesh.grid(points, light, uvs)
        rim = np.stack([np.c_[way * inner, tops], np.c_[way * outer, tops]])
        mesh.grid(rim, np.ones((2, 2, 3)), np.stack([rim[..., 0], rim[..., 1]], axis=-1) / _BRICK_M)
        # At a step between two heights, the end face is visible.
        step = np.stack([np.c_[way[[1, 1]] * np.array([[inner], [outer]]), np.full(2, z)] for z in (0.0, tops[1])])
        mesh.grid(step[:, ::-1], np.full((2, 2, 3), 0.6), np.stack([step[..., 0], step[..., 2]], -1) / _BRICK_M)


def _column(mesh: Mesh, angle: float, number: int, place: Place, mood: Mood) -> None:
    """Add a column in front of the wall; most columns are broken."""
    tall = (6.5, 2.2, 4.4, 7.0, 1.3)[number % 5]
    radius = place.radius_m + WALL_GAP_M + 0.25
    middle = np.array([radius * math.cos(angle), radius * math.sin(angle)])
    n = 8
    around = np.linspace(0.0, math.tau, n + 1)
    rings = [(0.75, 0.0), (0.75, 0.5), (0.52, 0.6), (0.46, tall)]
    if tall > 6.0:
        rings += [(0.70, tall + 0.25), (0.70, tall + 0.7)]
    points = np.array([[(*(middle + r * np.array([math.cos(a), math.sin(a)])), z) for a in around] for r, z in rings])
    if tall <= 6.0:
        points[-1, :, 2] += 0.5 * np.sin(around * 2 + number)  # an irregular break
    facing = -np.cos(around - angle)
    shade = np.broadcast_to((0.68 + 0.30 * facing)[None, :, None], (*points.shape[:2], 1))
    uvs = np.stack([np.broadcast_to(around / math.tau * 2, points.shape[:2]), points[..., 2] / _BRICK_M], axis=-1)
    # Lit as the floor in front of it, with a dark foot.
    light = light_at(points, place, mood) * shade * np.clip(0.7 + points[..., 2:] / 3, 0, 1)
    mesh.grid(points[:, ::-1][::-1, ::-1], light[:, ::-1][::-1, ::-1], uvs[:, ::-1][::-1, ::-1])
