"""The stage: everything in the scene except for the fighters."""

from __future__ import annotations

from panda3d.core import NodePath

from soulslab.arena.boss_file import Boss
from soulslab.arena.window.stage.ground import build_ground, place_of
from soulslab.arena.window.stage.mood import mood_of
from soulslab.arena.window.stage.ruins import Ruins
from soulslab.arena.window.stage.sky import build_sky
from soulslab.arena.window.stage.weather import Weather


class Stage:
    """Ground, ruins, sky and weather of a boss.

    Args:
        parent: Node in the fight's coordinates.
        boss: The boss.
    """

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        ground, mood = boss.ground, mood_of(boss)
        self._origin = (*ground.centre_m, ground.floor_m)
        # Far from the origin, vertices in single precision jitter, so everything is relative to the floor's centre.
        self._root = parent.attachNewNode("stage")
        self._root.setPos(*self._origin)
        build_ground(self._root, ground, mood)
        self._ruins = Ruins(self._root, place_of(ground), mood)
        self._sky = build_sky(self._root, mood, ground.cliff_rad)
        self._weather = Weather(self._root, mood)

    def show(self, camera_m: tuple[float, float, float], n_ticks: int) -> None:
        """Update it to the camera's position.

        Args:
            camera_m: In the fight's coordinates.
            n_ticks: Ticks of the game.
        """
        x, y, z = (place - origin for place, origin in zip(camera_m, self._origin, strict=True))
        self._sky.setPos(x, y, z)
        self._ruins.show((x, y), n_ticks)
        self._weather.show((x, y, z), n_ticks)
