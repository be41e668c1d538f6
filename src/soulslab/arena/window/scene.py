"""The scene of a fight: stage, fighters, and camera."""

from __future__ import annotations

from panda3d.core import NodePath

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.figures.boss import BossFigure
from soulslab.arena.window.figures.effects import Effects
from soulslab.arena.window.figures.knight import KnightFigure
from soulslab.arena.window.figures.shadow import Shadow
from soulslab.arena.window.hud.hud import Hud, HudOptions
from soulslab.arena.window.stage.camera import CameraRig
from soulslab.arena.window.stage.light import is_drawn_by_tinydisplay, light_direction, light_up, shadow_colour, whiten
from soulslab.arena.window.stage.mood import mood_of
from soulslab.arena.window.stage.stage import Stage


class Scene:
    """The scene of a fight in a window.

    Args:
        root: Parent of all nodes.
        camera: Camera, which is placed for each picture.
        game: The fight that will be shown.
        size_px: Width and height of the picture.
        options: Optional parts of the overlay.

    Attributes:
        hud: The overlay, including the list of keys.
    """

    def __init__(
        self,
        root: NodePath,
        camera: NodePath,
        game: LiveFight,
        size_px: tuple[int, int] = (800, 450),
        options: HudOptions | None = None,
    ) -> None:
        boss = game.boss
        mood = mood_of(boss)
        self._stage = Stage(root, boss)
        fighters = root.attachNewNode("fighters")
        light_up(fighters, boss.ground, mood)
        if is_drawn_by_tinydisplay(camera):
            whiten(fighters)
        self._knight, self._boss = KnightFigure(fighters), BossFigure(fighters, boss)
        self._effects = Effects(root, boss)
        falls = light_direction(boss.ground, mood), boss.ground.floor_m, shadow_colour(mood)
        Shadow(root, self._boss.root, *falls)
        self._shadow = Shadow(root, self._knight.root, *falls)
        self._rig = CameraRig(camera, game, size_px[0] / size_px[1])
        self._camera, self._options = camera, options
        self.hud = Hud(camera, game, size_px, options)
        self.show(game)

    def resize(self, game: LiveFight, size_px: tuple[int, int]) -> None:
        """Adapt the scene to another window size."""
        self._rig.resize(size_px[0] / size_px[1])
        notice, is_help_shown = self.hud.notice, self.hud.is_help_shown
        self.hud.close()
        self.hud = Hud(self._camera, game, size_px, self._options)
        self.hud.is_help_shown = is_help_shown
        self.hud.notify(notice)
        self.show(game)

    def show(self, game: LiveFight) -> None:
        """Update all nodes to the present state of the fight."""
        self._knight.show(game)
        self._boss.show(game)
        self._effects.show(game)
        if game.duel.p_falling:
            self._shadow.root.hide()
        else:
            self._shadow.root.show()
        self._stage.show(self._rig.show(game), game.n_ticks)
        self.hud.show(game)
