"""Solids of the knight's parts, in units of 1 m."""

from __future__ import annotations

from itertools import pairwise

from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.solid_mesh import Colour, Mesh

STEEL: Colour = (0.66, 0.69, 0.75)
DARK_STEEL: Colour = (0.36, 0.38, 0.45)
CLOTH: Colour = (0.62, 0.11, 0.13)
DARK_CLOTH: Colour = (0.4, 0.07, 0.1)
LEATHER: Colour = (0.34, 0.24, 0.17)
BLADE: Colour = (0.86, 0.89, 0.95)
GOLD: Colour = (0.82, 0.66, 0.32)
BLUE: Colour = (0.2, 0.27, 0.5)
BLACK: Colour = (0.06, 0.06, 0.08)


def knight_meshes(build: Build) -> dict[str, Mesh]:
    """Return the solids of the knight's parts."""
    return {
        "hips": _hips(),
        "chest": _chest(build),
        "head": _head(),
        **_limbs(build),
        "weapon": _sword(build.weapon),
        "offhand": _shield(),
        "cape": _cape(),
    }


def _hips() -> Mesh:
    mesh = Mesh().tube([(-0.1, 0.15), (0.1, 0.165)], DARK_STEEL, way=(0.0, 0.0, 1.0), shape=(8, 0.75))
    mesh.box((0.0, 0.0, 0.06), (0.34, 0.26, 0.05), LEATHER)
    # Tassets, and a tabard over them.
    for side in (1.0, -1.0):
        mesh.box((side * 0.14, 0.06, -0.1), (0.15, 0.17, 0.26), STEEL, (0.85, 0.8))
        mesh.box((side * 0.13, -0.07, -0.08), (0.15, 0.12, 0.22), DARK_STEEL, (0.85, 0.8))
    mesh.box((0.0, 0.13, -0.18), (0.16, 0.03, 0.42), CLOTH, (0.8, 1.0))
    return mesh.fade(-0.4, 0.1, 0.25)


def _chest(build: Build) -> Mesh:
    top = build.trunk - 0.06
    mesh = Mesh().tube(
        [(0.0, 0.15), (0.16, 0.185), (0.3, 0.2), (top, 0.14)], STEEL, way=(0.0, 0.0, 1.0), shape=(8, 0.72)
    )
    mesh.box((0.0, 0.135, 0.2), (0.12, 0.03, 0.3), CLOTH, (1.2, 1.0))
    mesh.tube([(0.0, 0.13), (0.07, 0.1)], DARK_STEEL, (0.0, 0.0, top), (0.0, 0.0, 1.0), (8, 0.9))
    for side in (1.0, -1.0):
        shoulder = side * build.shoulder_width
        mesh.ball((shoulder, 0.0, top - 0.02), (0.12, 0.12, 0.1), STEEL, (7, 4))
        mesh.ball((shoulder + side * 0.03, 0.0, top - 0.08), (0.1, 0.11, 0.07), DARK_STEEL, (6, 4))
        mesh.box((shoulder - side * 0.03, 0.0, top + 0.07), (0.03, 0.18, 0.08), GOLD, (1.0, 0.7))
    return mesh


def _head() -> Mesh:
    mesh = Mesh().tube(
        [(-0.05, 0.1), (0.06, 0.125), (0.16, 0.12), (0.24, 0.07), (0.27, 0.0)],
        STEEL,
        way=(0.0, 0.0, 1.0),
        shape=(8, 1.12),
    )
    mesh.box((0.0, 0.115, 0.1), (0.15, 0.05, 0.025), BLACK)
    mesh.box((0.0, 0.128, 0.05), (0.03, 0.04, 0.14), GOLD)
    mesh.box((0.0, 0.11, 0.02), (0.12, 0.06, 0.1), DARK_STEEL, (1.2, 1.1))
    # The plume bends backwards from the crown.
    mesh.tube(
        [(0.0, 0.035), (0.12, 0.06), (0.3, 0.045), (0.42, 0.0)], CLOTH, (0.0, 0.02, 0.24), (0.0, -0.75, 0.5), (5, 1.3)
    )
    return mesh


def _limbs(build: Build) -> dict[str, Mesh]:
    found = {}
    for side in ("right", "left"):
        arm = Mesh().tube([(0.0, 0.075), (build.upper_arm, 0.06)], DARK_STEEL)
        found[f"{side}_upper_arm"] = arm.ball((0.0, build.upper_arm, 0.0), (0.07, 0.07, 0.07), STEEL, (6, 3))
        forearm = Mesh().tube([(0.03, 0.062), (0.2, 0.07), (build.forearm - 0.05, 0.05)], STEEL)
        found[f"{side}_forearm"] = forearm.box((0.0, build.forearm, 0.0), (0.09, 0.11, 0.1), LEATHER)
        thigh = Mesh().tube([(0.0, 0.1), (build.thigh, 0.075)], DARK_STEEL)
        found[f"{side}_thigh"] = thigh.ball((0.0, build.thigh, 0.02), (0.085, 0.085, 0.09), STEEL, (6, 3))
        found[f"{side}_shin"] = Mesh().tube([(0.0, 0.08), (0.15, 0.088), (build.shin, 0.055)], STEEL)
        foot = Mesh().box((0.0, 0.05, -0.05), (0.11, 0.28, 0.08), DARK_STEEL, (0.8, 0.6))
        found[f"{side}_foot"] = foot
    return found


def _sword(length: float) -> Mesh:
    mesh = Mesh()
    # The cross-section is a flat rhombus: the edge along z, thin across.
    mesh.tube([(0.1, 0.062), (length - 0.18, 0.05), (length, 0.0)], BLADE, (0.0, 0.0, 0.0), shape=(4, 1.0))
    mesh.squeeze(0.28)
    mesh.box((0.0, 0.08, 0.0), (0.05, 0.045, 0.3), GOLD)
    mesh.tube([(-0.18, 0.02), (0.08, 0.02)], LEATHER, shape=(5, 1.0))
    return mesh.ball((0.0, -0.2, 0.0), (0.035, 0.035, 0.035), GOLD, (5, 3))


def _shield() -> Mesh:
    """Return a kite shield whose front faces "ahead"."""
    mesh = Mesh()
    front = [(-0.27, 0.06, 0.3), (0.27, 0.06, 0.3), (0.3, 0.05, 0.05), (0.16, 0.06, -0.34), (0.0, 0.07, -0.5)]
    front += [(-0.16, 0.06, -0.34), (-0.3, 0.05, 0.05)]
    boss = (0.0, 0.14, 0.02)
    for first, second in zip(front, front[1:] + front[:1], strict=True):
        mesh.polygon([boss, second, first], BLUE)
        mesh.polygon([(0.0, 0.03, 0.0), first, second], LEATHER)
    mesh.box((0.0, 0.12, -0.06), (0.05, 0.05, 0.7), GOLD, (1.0, 1.0))
    return mesh.box((0.0, 0.12, 0.1), (0.46, 0.04, 0.05), GOLD)


def _cape() -> Mesh:
    """Return a cape that hangs from its origin, slightly spread."""
    mesh = Mesh()
    rows = [(0.2, 0.0, 0.0), (0.25, -0.1, -0.3), (0.3, -0.16, -0.62), (0.34, -0.2, -0.95)]
    for (w0, y0, z0), (w1, y1, z1) in pairwise(rows):
        for x0, x1, bulge, colour in ((-1.0, 0.0, 0.05, CLOTH), (0.0, 1.0, 0.05, DARK_CLOTH)):
            left, right = (bulge * (x0 == 0.0), bulge * (x1 == 0.0))
            corners = [
                (x0 * w0, y0 - left, z0),
                (x1 * w0, y0 - right, z0),
                (x1 * w1, y1 - right, z1),
                (x0 * w1, y1 - left, z1),
            ]
            mesh.polygon(corners, colour, is_two_sided=True)
    return mesh.fade(-1.0, 0.0, 0.35)
