"""What is seen of a fight."""

from __future__ import annotations

from panda3d.core import CardMaker, NodePath

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.state import Record


class Scene:
    """The fight in a window.

    Args:
        root: Parent of everything.
        camera: Placed in each picture.
        game: The fight that will be shown.
    """

    def __init__(self, root: NodePath, camera: NodePath, game: LiveFight) -> None:
        self._camera = camera
        self._player = _card(root, (0.2, 0.3, 0.9, 1.0), 1.8)
        self._boss = _card(root, (0.8, 0.2, 0.1, 1.0), 3.2)
        self.show(game)

    def show(self, game: LiveFight) -> None:
        """Move everything to where it is now."""
        d: Record = game.duel
        floor = float(game.fight.floor)
        self._player.setPos(d.p_x, d.p_y, d.p_z)
        self._boss.setPos(d.b_x, d.b_y, floor)
        self._camera.setPos(d.p_x - 5 * d.c_fx, d.p_y - 5 * d.c_fy, d.p_z + 2.4)
        self._camera.lookAt(d.b_x, d.b_y, floor + 1.2)


def _card(root: NodePath, colour: tuple[float, float, float, float], height: float) -> NodePath:
    maker = CardMaker("card")
    maker.setFrame(-0.4, 0.4, 0.0, height)
    card = root.attachNewNode(maker.generate())
    card.setColor(colour)
    card.setBillboardAxis()
    return card
