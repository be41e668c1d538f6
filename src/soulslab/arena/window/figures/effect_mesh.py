"""Solids of the effects, in units of 1 m unless stated otherwise."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import NodePath, OmniBoundingVolume, TransparencyAttrib

from soulslab.arena.window.figures.solid_mesh import Colour, Mesh

#: Seed of the random shapes, so that they are the same in every run.
SEED = 7


def glowing(parent: NodePath, name: str, mesh: Mesh, *, is_clear: bool = True) -> NodePath:
    """Attach a self-illuminated mesh, hidden at first; with ``is_clear`` a colour scale can set its opacity."""
    node = mesh.node(name)
    node.setBounds(OmniBoundingVolume())
    node.setFinal(True)
    path = parent.attachNewNode(node)
    path.setLightOff(1)
    if is_clear:
        path.setTransparency(TransparencyAttrib.MAlpha)
        path.setDepthWrite(False)
        path.setBin("fixed", 12)
    path.hide()
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
