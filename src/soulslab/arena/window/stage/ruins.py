"""Ruins around the floor: a wall with broken columns, arches behind it, and fires in front of it."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.window.stage.atmosphere import Atmosphere
from soulslab.arena.window.stage.baked_mesh import Floats, Mesh, texture_of
from soulslab.arena.window.stage.landscape import N_BRAZIERS, WALL_GAP_M, Place, light_at
from soulslab.arena.window.stage.textures import bricks, noise

N_SECTORS = 10
WALL_M = 0.9
#: Sectors of the wall within this angle of the camera's direction are hidden, so that they do not obstruct the view.
NEAR_COS = math.cos(0.75)
_STEPS = 7
_BRICK_M = 3.2
_FLAME_Z_M = 1.22


class Ruins:
    """Wall, columns, arches and fires around a floor, below a node at the floor's centre."""

    def __init__(self, parent: NodePath, place: Place, atmosphere: Atmosphere) -> None:
        self._place = place
        self._sectors: list[tuple[float, float, NodePath]] = []
        self._flames = Flames(parent, place, atmosphere)
        if not place.has_wall:
            return
        masonry = texture_of(bricks(atmosphere))
        first, last = place.wall_rad
        edges = np.linspace(first, last, N_SECTORS + 1)
        heights = _heights()
        fires = place.braziers()
        for i in range(N_SECTORS):
            mesh = Mesh()
            part = heights[i * _STEPS : (i + 1) * _STEPS + 1]
            middle = float(edges[i] + edges[i + 1]) / 2
            _wall(mesh, np.linspace(edges[i], edges[i + 1], _STEPS + 1), part, place, atmosphere)
            _column(mesh, middle, i, place, atmosphere)
            for x, y in (fires[j] for j in range(len(fires)) if _sector_of(j) == i):
                add_bowl(mesh, x, y, atmosphere)
            self._sectors.append((math.cos(middle), math.sin(middle), mesh.node(parent, f"wall {i}", masonry)))
        arches(place, atmosphere).node(parent, "arches").setTwoSided(True)

    def show(self, camera_m: tuple[float, float], n_ticks: int) -> None:
        """Hide the parts that obstruct the view from a position relative to the floor's centre; animate the fires."""
        x, y = camera_m
        distance = math.hypot(x, y)
        is_outside = distance > self._place.radius_m - 0.5
        hidden = set()
        for i, (cos, sin, path) in enumerate(self._sectors):
            if is_outside and cos * x + sin * y > NEAR_COS * distance:
                hidden.add(i)
            (path.hide if i in hidden else path.show)()
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


def _wall(mesh: Mesh, angles: Floats, heights: Floats, place: Place, atmosphere: Atmosphere) -> None:
    """Add a stretch of wall with a different height at each step, so that its top looks broken."""
    inner, outer = place.radius_m + WALL_GAP_M, place.radius_m + WALL_GAP_M + WALL_M
    for i in range(len(angles) - 1):
        tops = np.array([heights[i], 0.35 * heights[i] + 0.65 * heights[i + 1]])
        way = np.stack([np.cos(angles[i : i + 2]), np.sin(angles[i : i + 2])], axis=1)
        u = angles[i : i + 2] * inner / _BRICK_M
        for radius, order, shade in ((inner, 1, np.array([0.6, 1.0])[:, None, None]), (outer, -1, 0.55)):
            points = np.stack([np.c_[way * radius, z][::order] for z in (np.zeros(2), tops)])
            v = points[..., 2] / _BRICK_M
            uvs = np.stack([np.broadcast_to(u, v.shape), v], axis=-1)
            mesh.grid(points, light_at(points, place, atmosphere) * shade, uvs)
        rim = np.stack([np.c_[way * inner, tops], np.c_[way * outer, tops]])
        mesh.grid(rim, np.ones((2, 2, 3)), np.stack([rim[..., 0], rim[..., 1]], axis=-1) / _BRICK_M)
        # At a step between two heights, the end face is visible.
        step = np.stack([np.c_[way[[1, 1]] * np.array([[inner], [outer]]), np.full(2, z)] for z in (0.0, tops[1])])
        mesh.grid(step[:, ::-1], np.full((2, 2, 3), 0.6), np.stack([step[..., 0], step[..., 2]], -1) / _BRICK_M)


def _column(mesh: Mesh, angle: float, number: int, place: Place, atmosphere: Atmosphere) -> None:
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
    light = light_at(points, place, atmosphere) * shade * np.clip(0.7 + points[..., 2:] / 3, 0, 1)
    mesh.grid(points[::-1], light[::-1], uvs[::-1])


def arches(place: Place, atmosphere: Atmosphere) -> Mesh:
    """Build pointed arches around the wall, some of them broken."""
    mesh = Mesh()
    rng = np.random.default_rng(81)
    first, last = place.wall_rad
    n_arches = 7
    for i in range(n_arches):
        angle = first + (last - first) * (i + 0.5 + 0.3 * (rng.random() - 0.5)) / n_arches
        away = float(rng.random())
        radius = place.radius_m + 10.0 + 12.0 * away
        share = 0.35 + 0.3 * away
        span, tall = 2.4 + 1.6 * rng.random(), 6.0 + 5.0 * rng.random()
        outline = _arch(span, tall, 1.0 if i % 3 else 0.62)
        colour = (np.array(atmosphere.zenith) * 0.55 + 0.2 * np.array(atmosphere.stone)) * (1 - share)
        middle = np.array([radius * math.cos(angle), radius * math.sin(angle)])
        turn = angle + math.pi / 2 + 0.5 * (rng.random() - 0.5)
        _extrude(mesh, outline, (middle, turn), (colour, np.array(atmosphere.horizon) * 0.85, share))
    return mesh


def _arch(span: float, tall: float, part: float) -> tuple[Floats, Floats]:
    """Return the inner and outer line of a pointed arch, (N, 2) each (sideways, up), up to a part of its length."""
    thick = 0.85
    t = np.linspace(0.0, 1.0, 7)[:, None]
    # Two piers, and between them two arcs, each of them around the foot of the other.
    inner_left = np.concatenate(
        [[[-span, -3.0]], np.c_[span - 2 * span * np.cos(t * math.pi / 3), tall + 2 * span * np.sin(t * math.pi / 3)]]
    )
    rise = np.linspace(0.0, 1.0, len(inner_left))[:, None]
    outer_left = inner_left + np.c_[-thick * (1 - rise), thick * 1.5 * rise]
    mirror = np.array([-1.0, 1.0])
    inner = np.concatenate([inner_left, inner_left[-2::-1] * mirror])
    outer = np.concatenate([outer_left, outer_left[-2::-1] * mirror])
    n = max(round(len(inner) * part), 4)
    return inner[:n], outer[:n]


def _extrude(
    mesh: Mesh, outline: tuple[Floats, Floats], pose: tuple[Floats, float], light: tuple[Floats, Floats, float]
) -> None:
    """Add an arch, 1.2 m deep, with its centre and sideways angle, its colour, and the colour and share of the haze."""
    middle, turn = pose
    colour, haze, share = light
    aside, ahead = np.array([math.cos(turn), math.sin(turn)]), np.array([-math.sin(turn), math.cos(turn)])
    inner, outer = outline
    around = ((outer, -0.6), (inner, -0.6), (inner, 0.6), (outer, 0.6), (outer, -0.6))
    points = np.stack([np.c_[middle + line[:, :1] * aside + depth * ahead, line[:, 1]] for line, depth in around])
    up = np.clip(points[..., 2:] / 9.0, 0.0, 1.0)
    shade = np.array([1.0, 0.8, 1.0, 1.15, 1.0])[:, None, None]
    mesh.grid(points, (colour * shade + haze * share) * up + (colour * 0.4 + haze * 0.62) * (1 - up))


class Flames:
    """The flames; their bowls are part of the wall."""

    def __init__(self, parent: NodePath, place: Place, atmosphere: Atmosphere) -> None:
        self._flames: list[NodePath] = []
        for x, y in place.braziers():
            flame = _flame(atmosphere).node(parent, "flame")
            flame.setTwoSided(True)
            flame.setPos(x, y, _FLAME_Z_M)
            self._flames.append(flame)

    def show(self, n_ticks: int, hidden: Collection[int]) -> None:
        """Animate the flames, except for the hidden ones, which obstruct the view."""
        beat = n_ticks / TICKS_PER_S * math.tau
        for i, flame in enumerate(self._flames):
            (flame.hide if i in hidden else flame.show)()
            tall = 1.0 + 0.14 * math.sin(2.3 * beat + 2 * i) + 0.08 * math.sin(5.1 * beat + i)
            flame.setHprScale(9.0 * math.sin(1.7 * beat + i), 0.0, 0.0, 2.0 - tall, 2.0 - tall, tall)


def add_bowl(mesh: Mesh, x: float, y: float, atmosphere: Atmosphere) -> None:
    """Add the bowl of a fire on its post."""
    iron, glowing = np.full(3, 0.12), np.array(atmosphere.fire)
    for half, low, high, colours in (
        (0.08, 0.0, 1.1, (iron, iron, iron)),
        (0.32, 1.02, 1.25, (glowing, iron * 1.5, iron * 2.5)),
    ):
        mesh.box(np.array([x - half, y - half, low]), np.array([x + half, y + half, high]), colours)


def _flame(atmosphere: Atmosphere) -> Mesh:
    """Build crossed tongues of flame with a hot core."""
    mesh = Mesh()
    fire = np.array(atmosphere.fire)
    # Each tongue is a list of (half width, height).
    shape = np.array([[0.20, 0.0], [0.27, 0.22], [0.20, 0.5], [0.09, 0.78], [0.0, 1.05]])
    for turn in (0.2, 0.2 + math.pi / 3, 0.2 + 2 * math.pi / 3):
        way = np.array([math.cos(turn), math.sin(turn)])
        for size, colour in ((1.0, fire), (0.62, 0.35 * fire + 0.65)):
            half, z = shape[:, :1] * size, shape[:, 1:] * size
            # The hotter tongue is in front of the other one on both sides.
            for out in (0.0,) if size == 1.0 else (-0.015, 0.015):
                off = out * np.array([-way[1], way[0]])
                sides = np.stack([np.c_[-half * way + off, z], np.c_[half * way + off, z]])
                fade = np.linspace(1.0, 0.72, len(shape))[None, :, None]
                mesh.grid(sides, fade * colour * np.ones((2, len(shape), 1)))
    return mesh
