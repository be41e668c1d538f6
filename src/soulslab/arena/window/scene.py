"""What is seen of a fight: stage, fighters, and the camera that looks at them."""

from __future__ import annotations

from panda3d.core import CardMaker, NodePath

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.state import Record
from soulslab.arena.window.hud.hud import Hud, HudOptions
from soulslab.arena.window.stage.camera import CameraRig
from soulslab.arena.window.stage.stage import Stage


class Scene:
    """The fight in a window.

    Args:
        root: Parent of everything.
        camera: Placed in each picture.
        game: The fight that will be shown.
        size_px: Width and height of the picture.
        options: What lies over it.

    Attributes:
        hud: What lies over the picture: the list of keys and the pictures per second are shown through it.
    """

    def __init__(
        self,
        root: NodePath,
        camera: NodePath,
        game: LiveFight,
        size_px: tuple[int, int] = (800, 450),
        options: HudOptions | None = None,
    ) -> None:
        self._stage = Stage(root, game.boss)
        self._player = _card(root, (0.2, 0.3, 0.9, 1.0), 1.8)
        self._boss = _card(root, (0.8, 0.2, 0.1, 1.0), 3.2)
        self._rig = CameraRig(camera, game, size_px[0] / size_px[1])
        self._camera, self._options = camera, options
        self.hud = Hud(camera, game, size_px, options)
        self.show(game)

    def resize(self, game: LiveFight, size_px: tuple[int, int]) -> None:
        """Fit it to a window of another size."""
        self._rig.resize(size_px[0] / size_px[1])
        fps, is_help_shown = self.hud.fps, self.hud.is_help_shown
        self.hud.close()
        self.hud = Hud(self._camera, game, size_px, self._options)
        self.hud.fps, self.hud.is_help_shown = fps, is_help_shown
        self.show(game)

    def show(self, game: LiveFight) -> None:
        """Move everything to where it is now."""
        d: Record = game.duel
        self._player.setPos(d.p_x, d.p_y, d.p_z)
        self._boss.setPos(d.b_x, d.b_y, float(game.fight.floor))
        self._stage.show(self._rig.show(game), game.n_ticks)
        self.hud.show(game)


def _card(root: NodePath, colour: tuple[float, float, float, float], height: float) -> NodePath:
    maker = CardMaker("card")
    maker.setFrame(-0.4, 0.4, 0.0, height)
    card = root.attachNewNode(maker.generate())
    card.setColor(colour)
    card.setBillboardAxis()
    return card
