"""Arches behind the wall, half hidden by haze."""

from __future__ import annotations

import math

import numpy as np

from soulslab.arena.window.stage.ground import Place
from soulslab.arena.window.stage.mesh import Floats, Mesh
from soulslab.arena.window.stage.mood import Mood


def arches(place: Place, mood: Mood) -> Mesh:
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
        colour = (np.array(mood.zenith) * 0.55 + 0.2 * np.array(mood.stone)) * (1 - share)
        middle = np.array([radius * math.cos(angle), radius * math.sin(angle)])
        turn = angle + math.pi / 2 + 0.5 * (rng.random() - 0.5)
        _extrude(mesh, outline, (middle, turn), (colour, np.array(mood.horizon) * 0.85, share))
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
    """Add an arch with an outline, 1.2 m deep.

    Args:
        mesh: Mesh that it is added to.
        outline: Inner and outer line, (N, 2).
        pose: Its centre, and the angle of its sideways direction.
        light: Its colour, the colour of the haze, and the share of the haze.
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
