"""What was built around the floor and has fallen in since: a wall with broken columns, arches behind it, and fires."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.state import TICKS_PER_S
from soulslab.arena.window.stage.ground import WALL_GAP_M, Place, light_at
from soulslab.arena.window.stage.mesh import Floats, Mesh, texture_of
from soulslab.arena.window.stage.mood import Mood
from soulslab.arena.window.stage.textures import bricks, noise

N_SECTORS = 10
WALL_M = 0.9
#: What stands between the camera and the player is not drawn: sectors this near to the camera's direction.
NEAR_COS = math.cos(0.75)
_STEPS = 7
_BRICK_M = 3.2
_FLAME_Z_M = 1.22
#: A fire so near to the camera is not drawn.
_FIRE_GAP_M = 5.0


class Ruins:
    """Wall, columns, arches and fires around a floor.

    Args:
        parent: At the floor's centre.
        place: Where the wall goes.
        mood: Light and air.
    """

    def __init__(self, parent: NodePath, place: Place, mood: Mood) -> None:
        self._place = place
        self._sectors: list[tuple[float, float, NodePath]] = []
        self._fires = _Fires(parent, place, mood)
        if not place.has_wall:
            return
        masonry = texture_of(bricks(mood))
        first, last = place.wall_rad
        edges = np.linspace(first, last, N_SECTORS + 1)
        heights = _heights()
        for i in range(N_SECTORS):
            mesh = Mesh()
            part = heights[i * _STEPS : (i + 1) * _STEPS + 1]
            _wall(mesh, np.linspace(edges[i], edges[i + 1], _STEPS + 1), part, place, mood)
            _column(mesh, float(edges[i] + edges[i + 1]) / 2, i, place, mood)
            middle = float(edges[i] + edges[i + 1]) / 2
            self._sectors.append((math.cos(middle), math.sin(middle), mesh.node(parent, f"wall {i}", masonry)))
        _far(place, mood).node(parent, "arches").setTwoSided(True)

    def show(self, camera_m: tuple[float, float], n_ticks: int) -> None:
        """Hide what is in the way, and let the fires flicker.

        Args:
            camera_m: Where the camera is, from the floor's centre.
            n_ticks: Of the game.
        """
        x, y = camera_m
        distance = math.hypot(x, y)
        is_outside = distance > self._place.radius_m - 0.5
        for cos, sin, path in self._sectors:
            if is_outside and cos * x + sin * y > NEAR_COS * distance:
                path.hide()
            else:
                path.show()
        self._fires.show(camera_m, n_ticks)


def _heights() -> Floats:
    """Height of the wall at each step, m: high and broken down in turn."""
    n = N_SECTORS * _STEPS + 1
    field = noise((4, 128), 71, 0.9)[0, :n]
    steps = np.round(np.clip(2.3 + 1.3 * field, 0.7, 5.0) * 2.0) / 2.0
    return np.asarray(steps)


def _wall(mesh: Mesh, angles: Floats, heights: Floats, place: Place, mood: Mood) -> None:
    """Add a stretch of wall: each step has a height of its own, so that its top is broken."""
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
        # Where it steps, its end shows.
        step = np.stack([np.c_[way[[1, 1]] * np.array([[inner], [outer]]), np.full(2, z)] for z in (0.0, tops[1])])
        mesh.grid(step[:, ::-1], np.full((2, 2, 3), 0.6), np.stack([step[..., 0], step[..., 2]], -1) / _BRICK_M)


def _column(mesh: Mesh, angle: float, number: int, place: Place, mood: Mood) -> None:
    """Add a column in front of the wall, most of them broken off."""
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
        points[-1, :, 2] += 0.5 * np.sin(around * 2 + number)  # broken, not cut
    facing = -np.cos(around - angle)
    shade = np.broadcast_to((0.68 + 0.30 * facing)[None, :, None], (*points.shape[:2], 1))
    uvs = np.stack([np.broadcast_to(around / math.tau * 2, points.shape[:2]), points[..., 2] / _BRICK_M], axis=-1)
    # Lit as the floor before it is; its foot stands in shadow.
    light = light_at(points, place, mood) * shade * np.clip(0.7 + points[..., 2:] / 3, 0, 1)
    mesh.grid(points[:, ::-1][::-1, ::-1], light[:, ::-1][::-1, ::-1], uvs[:, ::-1][::-1, ::-1])


def _far(place: Place, mood: Mood) -> Mesh:
    """Build what stands behind the wall, half gone in haze: arches, some of them broken, and single piers."""
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
        colour = (np.array(mood.zenith) * 0.55 + 0.2 * np.array(mood.stone)) * (1 - share)
        middle = np.array([radius * math.cos(angle), radius * math.sin(angle)])
        turn = angle + math.pi / 2 + 0.5 * (rng.random() - 0.5)
        _extrude(mesh, outline, (middle, turn), (colour, np.array(mood.horizon) * 0.85, share))
    return mesh


def _arch(span: float, tall: float, part: float) -> tuple[Floats, Floats]:
    """Return the inner and outer line of a pointed arch, (N, 2) each: aside and up; only a part of its way."""
    thick = 0.85
    t = np.linspace(0.0, 1.0, 9)[:, None]
    # Two piers, and between them two arcs around each other's foot.
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
    """Add an arch of an outline, 1.2 m deep.

    Args:
        mesh: To add to.
        outline: Inner and outer line, (N, 2).
        pose: Its middle, and the angle of its sideways direction.
        light: Its colour, the haze's, and how much of the haze is before it.
    """
    middle, turn = pose
    colour, haze, share = light
    aside, ahead = np.array([math.cos(turn), math.sin(turn)]), np.array([-math.sin(turn), math.cos(turn)])
    lines = []
    for line, depth in (
        (outline[1], -0.6),
        (outline[0], -0.6),
        (outline[0], 0.6),
        (outline[1], 0.6),
        (outline[1], -0.6),
    ):
        flat = middle + line[:, :1] * aside + depth * ahead
        lines.append(np.c_[flat, line[:, 1]])
    points = np.stack(lines)
    up = np.clip(points[..., 2:] / 9.0, 0.0, 1.0)
    shade = np.array([1.0, 0.8, 1.0, 1.15, 1.0])[:, None, None]
    mesh.grid(points, (colour * shade + haze * share) * up + (colour * 0.4 + haze * 0.62) * (1 - up))


class _Fires:
    """Flames in bowls before the wall, that flicker with the game's ticks."""

    def __init__(self, parent: NodePath, place: Place, mood: Mood) -> None:
        self._fires: list[tuple[float, float, NodePath]] = []
        for x, y in place.braziers():
            fire = parent.attachNewNode("fire")
            fire.setPos(x, y, 0.0)
            _bowl(mood).node(fire, "bowl")
            flame = _flame(mood).node(fire, "flame")
            flame.setTwoSided(True)
            flame.setZ(_FLAME_Z_M)
            self._fires.append((x, y, flame))

    def show(self, camera_m: tuple[float, float], n_ticks: int) -> None:
        for i, (x, y, flame) in enumerate(self._fires):
            fire = flame.getParent()
            if math.hypot(x - camera_m[0], y - camera_m[1]) < _FIRE_GAP_M:
                fire.hide()
                continue
            fire.show()
            beat = n_ticks / TICKS_PER_S * math.tau
            tall = 1.0 + 0.14 * math.sin(2.3 * beat + 2 * i) + 0.08 * math.sin(5.1 * beat + i)
            flame.setHprScale(9.0 * math.sin(1.7 * beat + i), 0.0, 0.0, 2.0 - tall, 2.0 - tall, tall)


def _bowl(mood: Mood) -> Mesh:
    mesh = Mesh()
    iron = np.full(3, 0.07)
    mesh.box(np.array([-0.08, -0.08, 0.0]), np.array([0.08, 0.08, 1.1]), (iron, iron, iron))
    glowing = np.array(mood.fire)
    mesh.box(np.array([-0.32, -0.32, 1.02]), np.array([0.32, 0.32, 1.25]), (glowing, iron * 1.5, iron * 2.5))
    return mesh


def _flame(mood: Mood) -> Mesh:
    """Build crossed tongues of flame, hot within."""
    mesh = Mesh()
    fire = np.array(mood.fire)
    # Each tongue: a row of half widths at heights.
    shape = np.array([[0.20, 0.0], [0.27, 0.22], [0.20, 0.5], [0.09, 0.78], [0.0, 1.05]])
    for turn in (0.2, 0.2 + math.pi / 3, 0.2 + 2 * math.pi / 3):
        way = np.array([math.cos(turn), math.sin(turn)])
        for size, colour in ((1.0, fire), (0.62, 0.35 * fire + 0.65)):
            half, z = shape[:, :1] * size, shape[:, 1:] * size
            # The hotter tongue lies before the other on both sides.
            for out in (0.0,) if size == 1.0 else (-0.015, 0.015):
                off = out * np.array([-way[1], way[0]])
                sides = np.stack([np.c_[-half * way + off, z], np.c_[half * way + off, z]])
                fade = np.linspace(1.0, 0.72, len(shape))[None, :, None]
                mesh.grid(sides, fade * colour * np.ones((2, len(shape), 1)))
    return mesh
