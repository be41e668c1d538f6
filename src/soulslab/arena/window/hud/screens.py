"""Full-screen messages: the end of a fight, loading, and the change of phase."""

from __future__ import annotations

import numpy as np
from panda3d.core import NodePath, TransparencyAttrib

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.hud.layer import Label, Layer, rectangle, title
from soulslab.arena.window.stage.atmosphere import Rgb
from soulslab.arena.window.stage.baked_mesh import Mesh, texture_of

DIED: Rgb = (0.68, 0.09, 0.08)
WON: Rgb = (0.95, 0.80, 0.42)
_PALE: Rgb = (0.85, 0.82, 0.76)
#: End of a fight: ticks until its text appears, and until it is fully visible.
_WAIT_TICKS, _FADE_TICKS = 20, 50
_BANNER_TICKS, _BANNER_FADE_TICKS = 150, 30
_DARK = (0.02, 0.02, 0.025)


class Screens:
    """Full-screen messages.

    Args:
        layer: Parent layer.
        boss_name: Name shown while a fight loads.
    """

    def __init__(self, layer: Layer, boss_name: str) -> None:
        self._lost = _End(layer, "YOU DIED", DIED)
        self._won = _End(layer, "VICTORY", WON)
        self._banner = _Banner(layer)
        right = layer.right + 0.1
        self._loading = rectangle(layer.node, (-right, right, -1.1, 1.1), _DARK, _DARK)
        Label(self._loading, (0.0, 0.02), 1.6 * layer.text, _PALE, "centre").show(boss_name)
        Label(self._loading, (0.0, -1.5 * layer.text), layer.text, (0.5, 0.48, 0.45), "centre").show("loading")
        self._loading.hide()
        self._stage = ""

    def show(self, game: LiveFight) -> None:
        """Show the message of the game's present stage."""
        self._lost.show(game.stage_ticks if game.stage == "lost" else -1)
        self._won.show(game.stage_ticks if game.stage == "won" else -1)
        self._banner.show(game)
        if game.stage != self._stage:
            self._stage = game.stage
            if game.stage == "loading":
                self._loading.show()
            else:
                self._loading.hide()


class _End:
    """A text on a dark band that fades in."""

    def __init__(self, layer: Layer, text: str, colour: Rgb) -> None:
        self._node: NodePath = layer.node.attachNewNode(text)
        self._node.setTransparency(TransparencyAttrib.MAlpha)
        _band(self._node, layer.right + 0.1)
        self._title = title(self._node, text, colour, 0.30)
        self._node.hide()
        self._ticks = -1

    def show(self, ticks: int) -> None:
        """Show its state a number of ticks after the end; -1 hides it."""
        if ticks == self._ticks:
            return
        self._ticks = ticks
        share = min(max((ticks - _WAIT_TICKS) / _FADE_TICKS, 0.0), 1.0)
        if share == 0.0:
            self._node.hide()
            return
        self._node.show()
        self._node.setAlphaScale(share)
        self._title.setScale(1.0 + 0.0008 * ticks)


def _band(parent: NodePath, half_width: float) -> None:
    """Make a dark band with soft edges as one mesh: a software renderer would draw the overlap of two meshes twice."""
    across = np.abs(np.linspace(-1.0, 1.0, 64))
    image = np.zeros((64, 8, 4), np.uint8)
    image[..., 3] = np.rint(205 * np.clip((1.0 - across) / 0.55, 0.0, 1.0))[:, None]
    x, z = half_width, 0.34
    points = np.array([[[x, 0.0, -z], [-x, 0.0, -z]], [[x, 0.0, z], [-x, 0.0, z]]])
    uvs = np.array([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])
    mesh = Mesh()
    mesh.grid(points, np.ones((2, 2, 3)), uvs)
    mesh.node(parent, "band", texture_of(image, repeats=False, has_mipmaps=False)).setTwoSided(True)


class _Banner:
    """Banner of the change of phase."""

    def __init__(self, layer: Layer) -> None:
        self._title = title(layer.node, "SECOND PHASE", _PALE, 0.14)
        self._title.setZ(0.42)
        self._title.hide()
        self._phase = 0
        self._n_fights = 0
        self._since = 0

    def show(self, game: LiveFight) -> None:
        """Show it for some time after the change of phase."""
        phase = int(game.duel.phase)
        if game.n_fights != self._n_fights or phase < self._phase:
            self._n_fights, self._phase, self._since = game.n_fights, phase, game.n_ticks - _BANNER_TICKS
        elif phase > self._phase:
            self._phase, self._since = phase, game.n_ticks
        ticks = game.n_ticks - self._since
        if ticks >= _BANNER_TICKS or game.stage != "fighting":
            self._title.hide()
            return
        self._title.show()
        share = min(1.0, (ticks + 1) / _BANNER_FADE_TICKS, (_BANNER_TICKS - ticks) / _BANNER_FADE_TICKS)
        self._title.setAlphaScale(share)
