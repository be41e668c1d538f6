"""The scene of a fight: stage, fighters with their light, and camera."""

from __future__ import annotations

import math

from panda3d.core import AmbientLight, CullBinEnums, CullBinManager, DirectionalLight, Material, NodePath, Vec3

from soulslab.arena.boss_file import Boss, Ground
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.figures.effects import Effects
from soulslab.arena.window.figures.figure_nodes import BossFigure, KnightFigure, Shadow
from soulslab.arena.window.hud import Hud, HudOptions
from soulslab.arena.window.plain_records import RecordCopier
from soulslab.arena.window.stage.atmosphere import Atmosphere, Rgb, atmosphere_of
from soulslab.arena.window.stage.camera import CameraRig
from soulslab.arena.window.stage.landscape import Weather, build_ground, build_sky, place_of
from soulslab.arena.window.stage.ruins import Ruins

#: The light on the fighters is steeper than the sun or moon, because shadows would otherwise cross the whole floor.
STEEPNESS = 1.3
#: Brightness of stone in a shadow, as a share of its colour.
SHADOW_SHARE = 0.36
_TINYDISPLAY = "TinyPanda"


class Scene:
    """The scene of a fight in a window, below a node in the fight's coordinates."""

    def __init__(
        self,
        root: NodePath,
        camera: NodePath,
        game: LiveFight,
        size_px: tuple[int, int] = (800, 450),
        options: HudOptions | None = None,
    ) -> None:
        # By default, panda3d draws opaque nodes in the order of their addresses, which decides between equal depths.
        CullBinManager.getGlobalPtr().setBinType("opaque", CullBinEnums.BTUnsorted)
        boss = game.boss
        atmosphere = atmosphere_of(boss)
        self._stage = Stage(root, boss)
        fighters = root.attachNewNode("fighters")
        light_up(fighters, boss.ground, atmosphere)
        if is_drawn_by_tinydisplay(camera):
            whiten(fighters)
        self._knight, self._boss = KnightFigure(fighters), BossFigure(fighters, boss)
        self._effects = Effects(root, boss)
        self._records = RecordCopier()
        falls = light_direction(boss.ground, atmosphere), boss.ground.floor_m, shadow_colour(atmosphere)
        Shadow(root, self._boss.root, *falls)
        self._shadow = Shadow(root, self._knight.root, *falls)
        self._rig = CameraRig(camera, game, size_px[0] / size_px[1])
        self._camera, self._options, self._size_px = camera, options, size_px
        self.hud = Hud(camera, game, size_px, options)
        self.show(game)

    def resize(self, game: LiveFight, size_px: tuple[int, int]) -> None:
        """Adapt the scene to the size of the window if that has changed."""
        if size_px == self._size_px or not all(size_px):
            return
        self._size_px = size_px
        self._rig.resize(size_px[0] / size_px[1])
        old = self.hud
        old.close()
        self.hud = Hud(self._camera, game, size_px, self._options)
        self.hud.notice, self.hud.is_help_shown = old.notice, old.is_help_shown
        self.show(game)

    def show(self, game: LiveFight) -> None:
        """Update all nodes to the present state of the fight."""
        records = self._records.copy(game)
        for part in (self._knight, self._boss, self._effects):
            part.show(game, *records)
        (self._shadow.root.hide if game.duel.p_falling else self._shadow.root.show)()
        self._stage.show(self._rig.show(game), game.n_ticks)
        self.hud.show(game)


class Stage:
    """Ground, ruins, sky and weather of a boss, below a node in the fight's coordinates."""

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        ground, atmosphere = boss.ground, atmosphere_of(boss)
        self._origin = (*ground.centre_m, ground.floor_m)
        # Far from the origin, vertices in single precision jitter, so everything is relative to the floor's centre.
        self._root = parent.attachNewNode("stage")
        self._root.setPos(*self._origin)
        build_ground(self._root, ground, atmosphere)
        self._ruins = Ruins(self._root, place_of(ground), atmosphere)
        self._sky = build_sky(self._root, atmosphere, ground.cliff_rad)
        self._weather = Weather(self._root, atmosphere)

    def show(self, camera_m: tuple[float, float, float], n_ticks: int) -> None:
        """Update it to the camera's position (in the fight's coordinates) and the ticks of the game."""
        x, y, z = (place - origin for place, origin in zip(camera_m, self._origin, strict=True))
        self._sky.setPos(x, y, z)
        self._ruins.show((x, y), n_ticks)
        self._weather.show((x, y, z), n_ticks)


def light_direction(ground: Ground, atmosphere: Atmosphere) -> tuple[float, float, float]:
    """Return the direction of the light, with z below 0; not a unit vector."""
    angle = ground.cliff_rad + atmosphere.glow_rad
    return -math.cos(angle), -math.sin(angle), -STEEPNESS


def light_up(fighters: NodePath, ground: Ground, atmosphere: Atmosphere) -> None:
    """Light the fighters: sun or moon from one side, the colour of the sky from the other, and ambient light."""
    x, y, z = light_direction(ground, atmosphere)
    for name, way, colour, strength in (
        ("key", (x, y, z), atmosphere.glow, 0.75),
        ("fill", (-x, -y, z), atmosphere.fill, 0.65),
    ):
        light = DirectionalLight(name)
        light.setDirection(Vec3(*way))
        light.setColor((*(strength * part for part in colour), 1.0))
        fighters.setLight(fighters.attachNewNode(light))
    # The colour of lit stone, so that the fighters match the ground.
    ambient = AmbientLight("ambient")
    ambient.setColor((*(0.52 * part for part in atmosphere.stone), 1.0))
    fighters.setLight(fighters.attachNewNode(ambient))


def shadow_colour(atmosphere: Atmosphere) -> Rgb:
    """Return the colour of stone in a shadow."""
    red, green, blue = atmosphere.stone
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
