"""Shapes of the effects: solids, in units of 1 m unless stated otherwise, and ribbons, which change for each picture.

Ribbons are trails of blades, waves on the ground, and the judge's tendril. The tendril grows from the judge's arm in
the second phase: raised in the wind-up, then thrown out and pulled in. Its line is a pure function of the attack, as
the poses are; it ends at the tip that `strikes.tip_at` returns.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from panda3d.core import GeomNode, NodePath, OmniBoundingVolume, TransparencyAttrib

from soulslab.arena.blow import Blow, ease
from soulslab.arena.window.figures.solid_mesh import VERTEX, Colour, Floats, Mesh, geometry, pack
from soulslab.arena.window.figures.strikes import Strike, tip_at

#: Seed of the random shapes, so that they are the same in every run.
SEED = 7


def glowing(parent: NodePath, name: str, mesh: Mesh, *, is_clear: bool = True) -> NodePath:
    """Attach a self-illuminated mesh; with ``is_clear`` a colour scale can set its opacity."""
    node = mesh.node(name)
    node.setBounds(OmniBoundingVolume())
    node.setFinal(True)
    path = parent.attachNewNode(node)
    path.setLightOff(1)
    if is_clear:
        path.setTransparency(TransparencyAttrib.MAlpha)
        path.setDepthWrite(False)
        path.setBin("fixed", 12)
    return path


def dagger(glow: Colour) -> Mesh:
    """Return a thrown dagger that flies along y, with a tail of light."""
    mesh = Mesh().tube([(-0.1, 0.02), (0.02, 0.03)], (0.2, 0.2, 0.24), shape=(4, 1.0))
    mesh.tube([(0.02, 0.06), (0.5, 0.0)], (0.95, 0.97, 1.0), shape=(4, 0.4))
    mesh.tube([(-0.9, 0.0), (-0.12, 0.05)], glow, shape=(4, 1.0))
    return mesh


def sparks(colour: Colour, n_rays: int = 14) -> Mesh:
    """Return rays from a centre, to be scaled as they expand."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(n_rays):
        way = rng.normal(size=3)
        x, y, z = (float(c) for c in way / np.linalg.norm(way))
        near, far = 0.35 + 0.3 * float(rng.random()), 0.8 + 0.4 * float(rng.random())
        mesh.spike((near * x, near * y, near * z), (far * x, far * y, far * z), 0.03, colour, (3, 1.0))
    return mesh


def star() -> Mesh:
    """Return a glint with four points in the plane of x and z, white so that it can be tinted."""
    mesh = Mesh()
    for long, wide, turn in ((1.0, 0.08, 0.0), (0.7, 0.06, math.pi / 2)):
        c, s = math.cos(turn), math.sin(turn)
        corners = [(-wide, 0.0), (0.0, -long), (wide, 0.0), (0.0, long)]
        mesh.polygon([(x * c - z * s, 0.0, x * s + z * c) for x, z in corners], (1.0, 1.0, 1.0), is_two_sided=True)
    return mesh


def dust() -> Mesh:
    """Return low dust clouds in a circle of 1 m, grey so that they can be tinted."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for i in range(6):
        turn, out = i * math.pi / 3, 0.25 + 0.4 * float(rng.random())
        size = 0.16 + 0.12 * float(rng.random())
        mesh.ball(
            (out * math.cos(turn), out * math.sin(turn), 0.1), (size, size, 0.7 * size), (0.75, 0.72, 0.68), (5, 3)
        )
    return mesh


def spikes(colour: Colour) -> Mesh:
    """Return a ring of spikes within a radius of 1 and a height of 1, to be scaled as they rise from the ground."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for i in range(18):
        turn = i * 2.399963  # the golden angle distributes them evenly
        out = 0.45 + 0.42 * math.sqrt(i / 17)
        height = 0.5 + 0.5 * float(rng.random())
        x, y = math.cos(turn), math.sin(turn)
        start, tip = (out * x, out * y, -0.05), ((out + 0.1) * x, (out + 0.1) * y, height)
        mesh.spike(start, tip, 0.045, colour, (4, 1.0))
    return mesh


def breath(colour: Colour, half_rad: float) -> Mesh:
    """Return shards that fly along y within a sector of radius 1."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(70):
        turn = half_rad * (2.0 * float(rng.random()) - 1.0)
        out = math.sqrt(float(rng.random())) * 0.9
        x, y = -math.sin(turn), math.cos(turn)
        height = (2.0 * float(rng.random()) - 1.0) * 0.12 * out
        start, tip = (out * x, out * y, height), ((out + 0.1) * x, (out + 0.1) * y, height)
        mesh.spike(start, tip, 0.004 + 0.008 * out, colour, (3, 1.0))
    return mesh


def embers(colour: Colour) -> Mesh:
    """Return specks around a body of radius 1 and height 1."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(16):
        turn, out, height = (float(c) for c in rng.random(3))
        x, y = (0.5 + 0.6 * out) * math.cos(2 * math.pi * turn), (0.5 + 0.6 * out) * math.sin(2 * math.pi * turn)
        mesh.spike((x, y, height), (x, y, height + 0.05), 0.02, colour, (3, 1.0))
    return mesh


N_POINTS: Final = 18
#: Position of its end at the end of the wind-up, in units of the body's scale: high and behind the shoulder.
REARED: Final = np.array((-0.55, -0.95, 2.15))
#: Share of the wind-up after which it is visible, and share of the recovery until which it is.
GROWS_FROM, GONE_AFTER = 0.2, 0.5
#: Half its width at the root and at the tip, in m.
ROOT_M, TIP_M = 0.22, 0.04
_CORE_SHARE = 0.25


class Ribbon:
    """A translucent band between two lines of ``n_points`` points."""

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

    def show(self, lines: tuple[Floats, Floats], colour: Colour, alphas: tuple[Floats, Floats]) -> None:
        """Show the band between two lines, (n_points, 3) each in m, with the opacity (n_points,) along each line."""
        places = self._vertices["place"]
        colours = self._vertices["colour"]
        for side in (0, 1):
            places[side::2] = lines[side]
            colours[side::2] = pack(np.broadcast_to(np.array(colour), (self.n_points, 3)), alphas[side])
        array = self._node.modifyGeom(0).modifyVertexData().modifyArray(0)
        memoryview(array).cast("B")[:] = self._vertices.tobytes()
        self.path.show()


def tendril_line(strike: Strike, blow: Blow, root: Floats) -> Floats | None:
    """Return the line of the tendril, (`N_POINTS`, 3) in the figure's axes and units, or None if it is not visible."""
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
    """The node of the tendril: two crossed bands, so that it is visible from every side, and a glowing core."""

    def __init__(self, parent: NodePath, skin: Colour, core: Colour) -> None:
        looks = ((skin, 1.0), (skin, 1.0), (core, _CORE_SHARE), (core, _CORE_SHARE))
        self._bands = tuple((Ribbon(parent, N_POINTS), colour, size) for colour, size in looks)

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
