"""The light on the fighters; all else has its light painted on."""

from __future__ import annotations

import math

from panda3d.core import AmbientLight, DirectionalLight, NodePath, Vec3

from soulslab.arena.boss_file import Ground
from soulslab.arena.window.stage.mood import Mood

#: Sun and moon shine down on the fighters more steeply than they stand, or shadows would cross the whole floor.
STEEPNESS = 1.3


def light_direction(ground: Ground, mood: Mood) -> tuple[float, float, float]:
    """Return where the light falls to, z below 0; not a unit vector."""
    angle = ground.cliff_rad + mood.glow_rad
    return -math.cos(angle), -math.sin(angle), -STEEPNESS


def light_up(fighters: NodePath, ground: Ground, mood: Mood) -> None:
    """Light up fighters: sun or moon from one side, the sky's colour from the other, and a little from everywhere."""
    x, y, z = light_direction(ground, mood)
    for name, way, colour, strength in (
        ("key", (x, y, z), mood.glow, 0.75),
        ("fill", (-x, -y, z), mood.horizon, 0.40),
    ):
        light = DirectionalLight(name)
        light.setDirection(Vec3(*way))
        light.setColor((*(strength * part for part in colour), 1.0))
        fighters.setLight(fighters.attachNewNode(light))
    # Stone is seen in this colour; what stands on it too.
    ambient = AmbientLight("ambient")
    ambient.setColor((*(0.55 * part for part in mood.stone), 1.0))
    fighters.setLight(fighters.attachNewNode(ambient))
