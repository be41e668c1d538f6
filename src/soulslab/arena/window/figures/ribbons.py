"""Ribbons, whose shape is rewritten for each picture: trails of blades, waves on the ground, and the judge's tendril.

The tendril grows from the judge's arm in the second phase: raised in the wind-up, then thrown out and pulled in. Its
line is a pure function of the attack, as the poses are; it ends at the tip that `strikes.tip_at` returns.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from panda3d.core import GeomNode, NodePath, OmniBoundingVolume, TransparencyAttrib

from soulslab.arena.blow import Blow, ease
from soulslab.arena.window.figures.solid_mesh import VERTEX, Colour, Floats, geometry, pack
from soulslab.arena.window.figures.strikes import Strike, tip_at

N_POINTS: Final = 18
#: Position of its end at the end of the wind-up, in units of the body's scale: high and behind the shoulder.
REARED: Final = np.array((-0.55, -0.95, 2.15))
#: Share of the wind-up after which it is visible, and share of the recovery until which it is.
GROWS_FROM, GONE_AFTER = 0.2, 0.5
#: Half its width at the root and at the tip, in m.
ROOT_M, TIP_M = 0.22, 0.04
_CORE_SHARE = 0.25


class Ribbon:
    """A translucent band between two lines of points.

    Args:
        parent: Parent node.
        n_points: Number of points of each line.
    """

    def __init__(self, parent: NodePath, n_points: int) -> None:
        self.n_points = n_points
        self._vertices = np.zeros(2 * n_points, VERTEX)
        self._vertices["normal"] = (0.0, 0.0, 1.0)
        triangles = []
        for i in range(n_points - 1):
            a, b = 2 * i, 2 * i + 1
            triangles += [(a, b, b + 2), (a, b + 2, a + 2)]
        self._node = GeomNode("ribbon")
        self._node.addGeom(geometry(self._vertices, np.array(triangles), is_dynamic=True))
        self._node.setBounds(OmniBoundingVolume())
        self._node.setFinal(True)
        self.path = parent.attachNewNode(self._node)
        self.path.setLightOff(1)
        self.path.setTwoSided(True)
        self.path.setDepthWrite(False)
        self.path.setTransparency(TransparencyAttrib.MAlpha)
        self.path.setBin("fixed", 10)
        self.path.hide()

    def show(self, lines: tuple[Floats, Floats], colour: Colour, alphas: tuple[Floats, Floats]) -> None:
        """Show the band.

        Args:
            lines: Two lines of points, (n_points, 3) each, in m.
            colour: Colour of the band.
            alphas: Opacity along each line, (n_points,) each, 0 to 1.
        """
        places = self._vertices["place"]
        colours = self._vertices["colour"]
        for side in (0, 1):
            places[side::2] = lines[side]
            colours[side::2] = pack(np.broadcast_to(np.array(colour), (self.n_points, 3)), alphas[side])
        array = self._node.modifyGeom(0).modifyVertexData().modifyArray(0)
        memoryview(array).cast("B")[:] = self._vertices.tobytes()
        self.path.show()

    def hide(self) -> None:
        """Hide the band."""
        self.path.hide()


def tendril_line(strike: Strike, blow: Blow, root: Floats) -> Floats | None:
    """Return the line of the tendril, (`N_POINTS`, 3) in the figure's axes and units, or None if it is not visible.

    Args:
        strike: The strike of the attack.
        blow: The present part of the move.
        root: Root of the tendril, (3,).
    """
    if blow.stage == "wind-up":
        grown = ease((blow.share - GROWS_FROM) / (1.0 - GROWS_FROM))
        tip = root + (REARED - root) * grown
        return _bent(root, tip, 0.5 * grown, 5.0 * blow.share) if grown > 0.0 else None
    out = 1.0 if blow.stage == "active" else 1.0 - ease(blow.share / GONE_AFTER)
    if out <= 0.0:
        return None
    angle, distance, height = tip_at(strike, blow.share if blow.stage == "active" else 1.0)
    tip = np.array((-math.sin(angle) * distance, math.cos(angle) * distance, height))
    return _bent(root, root + (tip - root) * out, 0.3 + 0.2 * (1.0 - out), 4.0 * blow.share)


def _bent(root: Floats, tip: Floats, rise: float, phase: float) -> Floats:
    """Return a line from root to tip that rises between them, with windings that increase with its length."""
    share = np.linspace(0.0, 1.0, N_POINTS)[:, None]
    way = tip - root
    aside = np.array((way[1], -way[0], 0.0)) / max(float(np.hypot(way[0], way[1])), 1e-6)
    belly = np.sin(math.pi * share)
    winding = 0.035 * float(np.linalg.norm(way)) * np.sin(3.0 * math.pi * share - phase)
    line: Floats = root + way * share + belly * (np.array((0.0, 0.0, rise)) + winding * aside)
    return line


class Tendril:
    """The node of the tendril: two crossed bands, so that it is visible from every side, and a glowing core.

    Args:
        parent: Parent node; its axes are those of the world.
        skin: Colour of the tendril.
        core: Colour of its core.
    """

    def __init__(self, parent: NodePath, skin: Colour, core: Colour) -> None:
        self._bands = tuple((Ribbon(parent, N_POINTS), colour, size) for colour, size in _bands(skin, core))

    def show(self, line: Floats) -> None:
        """Show the tendril along a line, (`N_POINTS`, 3) in m."""
        along = np.gradient(line, axis=0)
        flat = np.hypot(along[:, 0], along[:, 1])[:, None] + 1e-6
        aside = np.stack([along[:, 1], -along[:, 0], np.zeros(N_POINTS)], axis=1) / flat
        above = np.cross(aside, along)
        above /= np.linalg.norm(above, axis=1, keepdims=True) + 1e-6
        half = np.linspace(ROOT_M, TIP_M, N_POINTS)[:, None]
        solid = np.ones(N_POINTS)
        for i, (ribbon, colour, size) in enumerate(self._bands):
            out = (above if i % 2 else aside) * half * size
            ribbon.show((line - out, line + out), colour, (solid, solid))

    def hide(self) -> None:
        """Hide the tendril."""
        for ribbon, _, _ in self._bands:
            ribbon.hide()


def _bands(skin: Colour, core: Colour) -> tuple[tuple[Colour, float], ...]:
    """Return colour and width of each band, horizontal and vertical ones in turn."""
    return (skin, 1.0), (skin, 1.0), (core, _CORE_SHARE), (core, _CORE_SHARE)
