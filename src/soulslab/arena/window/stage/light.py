"""Light on the fighters; the light of everything else is painted on."""

from __future__ import annotations

import math

from panda3d.core import AmbientLight, DirectionalLight, Material, NodePath, Vec3

from soulslab.arena.boss_file import Ground
from soulslab.arena.window.stage.mood import Mood, Rgb

#: The light on the fighters is steeper than the sun or moon, because shadows would otherwise cross the whole floor.
STEEPNESS = 1.3
#: Brightness of stone in a shadow, as a share of its colour.
SHADOW_SHARE = 0.36
_TINYDISPLAY = "TinyPanda"


def light_direction(ground: Ground, mood: Mood) -> tuple[float, float, float]:
    """Return the direction of the light, with z below 0; not a unit vector."""
    angle = ground.cliff_rad + mood.glow_rad
    return -math.cos(angle), -math.sin(angle), -STEEPNESS


def light_up(fighters: NodePath, ground: Ground, mood: Mood) -> None:
    """Light the fighters: sun or moon from one side, the colour of the sky from the other, and ambient light."""
    x, y, z = light_direction(ground, mood)
    for name, way, colour, strength in (
        ("key", (x, y, z), mood.glow, 0.75),
        ("fill", (-x, -y, z), mood.fill, 0.65),
    ):
        light = DirectionalLight(name)
        light.setDirection(Vec3(*way))
        light.setColor((*(strength * part for part in colour), 1.0))
        fighters.setLight(fighters.attachNewNode(light))
    # The colour of lit stone, so that the fighters match the ground.
    ambient = AmbientLight("ambient")
    ambient.setColor((*(0.52 * part for part in mood.stone), 1.0))
    fighters.setLight(fighters.attachNewNode(ambient))


def shadow_colour(mood: Mood) -> Rgb:
    """Return the colour of stone in a shadow."""
    red, green, blue = mood.stone
    return SHADOW_SHARE * red, SHADOW_SHARE * green, SHADOW_SHARE * blue


def is_drawn_by_tinydisplay(camera: NodePath) -> bool:
    """Return whether panda3d's software renderer draws the camera's view."""
    regions = camera.node().getDisplayRegions()
    return any(region.getWindow().getPipe().getInterfaceName() == _TINYDISPLAY for region in regions)


def whiten(fighters: NodePath) -> None:
    """Work around a bug of tinydisplay (panda3d 1.10.16), which multiplies lit vertices by their colours twice.

    With a white material it multiplies once. With OpenGL, the material would make the figures white.
    """
    white = Material("white")
    white.setAmbient((1.0, 1.0, 1.0, 1.0))
    white.setDiffuse((1.0, 1.0, 1.0, 1.0))
    fighters.setMaterial(white, 1)
