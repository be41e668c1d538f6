"""Solids of the bosses' parts, in units of their builds."""

from __future__ import annotations

from itertools import pairwise

from soulslab.arena.window.figures.boss_builds import Figure
from soulslab.arena.window.figures.rig import Build
from soulslab.arena.window.figures.solid_mesh import Colour, Mesh

IRON: Colour = (0.42, 0.4, 0.43)
BRONZE: Colour = (0.74, 0.57, 0.32)
ROBE: Colour = (0.33, 0.24, 0.42)
DARK_ROBE: Colour = (0.24, 0.17, 0.31)
SILVER: Colour = (0.78, 0.8, 0.85)
WOOD: Colour = (0.42, 0.3, 0.2)
GROWTH: Colour = (0.12, 0.07, 0.12)
EMBER: Colour = (1.0, 0.45, 0.14)
FUR: Colour = (0.56, 0.66, 0.77)
DARK_FUR: Colour = (0.4, 0.48, 0.58)
ICE: Colour = (0.78, 0.93, 1.0)
FROST: Colour = (0.45, 0.85, 1.0)
BONE: Colour = (0.87, 0.9, 0.92)
LINEN: Colour = (0.7, 0.67, 0.64)
GREY_LINEN: Colour = (0.45, 0.42, 0.44)
PALE: Colour = (0.88, 0.85, 0.82)
VIOLET: Colour = (0.78, 0.45, 1.0)
GOLD: Colour = (0.8, 0.62, 0.32)
BLACK: Colour = (0.05, 0.05, 0.06)
UP = (0.0, 0.0, 1.0)

#: Colour of each kind of boss's glowing effects.
GLOW: dict[str, Colour] = {"judge": EMBER, "beast": FROST, "trickster": VIOLET}


def boss_meshes(figure: Figure) -> dict[str, Mesh]:
    """Return the solids of a boss's parts."""
    makers = {"judge": _judge, "beast": _beast, "trickster": _trickster}
    return makers[figure.kind](figure.build)


def growth_meshes(figure: Figure) -> dict[str, Mesh]:
    """Return the additional solids of a boss's second phase, by the part that they are attached to."""
    if figure.kind == "judge":
        return _growth(figure.build)
    if figure.kind == "beast":
        return _more_ice()
    return _masks()


def _limbs(build: Build, arm: tuple[float, Colour], leg: tuple[float, Colour], hand: Colour) -> dict[str, Mesh]:
    found = {}
    for side in ("right", "left"):
        thick, colour = arm
        found[f"{side}_upper_arm"] = Mesh().tube([(-0.02, 1.1 * thick), (build.upper_arm, 0.9 * thick)], colour)
        found[f"{side}_forearm"] = (
            Mesh()
            .tube([(0.0, 0.9 * thick), (0.35 * build.forearm, 1.05 * thick), (build.forearm, 0.7 * thick)], colour)
            .ball((0.0, build.forearm, 0.0), (0.9 * thick, 1.0 * thick, 0.9 * thick), hand, (5, 3))
        )
        thick, colour = leg
        found[f"{side}_thigh"] = Mesh().tube([(0.0, 1.15 * thick), (build.thigh, 0.9 * thick)], colour)
        found[f"{side}_shin"] = Mesh().tube(
            [(-0.02, 0.95 * thick), (0.3 * build.shin, thick), (build.shin, 0.6 * thick)], colour
        )
        found[f"{side}_foot"] = Mesh().box((0.0, 0.06, -0.045), (1.3 * thick, 0.3, 0.09), hand, (0.8, 0.6))
    return found


def _judge(build: Build) -> dict[str, Mesh]:
    top = build.trunk - 0.06
    hips = Mesh().tube([(-0.45, 0.3), (-0.1, 0.2), (0.1, 0.17)], ROBE, way=UP, shape=(8, 0.8))
    hips.box((0.0, 0.19, -0.2), (0.16, 0.03, 0.6), BRONZE, (0.8, 1.0))
    hips.fade(-0.5, 0.1, 0.4)
    chest = Mesh().tube([(0.0, 0.16), (0.2, 0.2), (top, 0.17)], IRON, way=UP, shape=(8, 0.75))
    chest.box((0.0, 0.14, 0.2), (0.1, 0.05, 0.34), BRONZE, (1.8, 1.0))
    chest.tube([(0.0, 0.13), (0.1, 0.16)], ROBE, (0.0, -0.03, top - 0.03), UP, (8, 0.9))
    for side in (1.0, -1.0):
        for layer in range(3):
            out = build.shoulder_width + 0.035 * layer
            chest.box(
                (side * out, 0.0, top + 0.05 - 0.075 * layer),
                (0.2 - 0.02 * layer, 0.28, 0.07),
                BRONZE if layer == 0 else IRON,
                (0.75, 0.75),
            )
        chest.spike(
            (side * (build.shoulder_width + 0.02), 0.0, top + 0.08),
            (side * (build.shoulder_width + 0.09), -0.03, top + 0.25),
            0.035,
            BRONZE,
        )
    head = Mesh().tube([(-0.06, 0.09), (0.08, 0.115), (0.2, 0.09)], IRON, way=UP, shape=(7, 1.1))
    head.box((0.0, 0.1, 0.08), (0.15, 0.04, 0.022), EMBER)
    head.box((0.0, 0.11, 0.0), (0.07, 0.04, 0.14), BRONZE)
    for i, (x, y) in enumerate(
        ((-0.09, 0.03), (-0.05, 0.09), (0.0, 0.11), (0.05, 0.09), (0.09, 0.03), (0.06, -0.08), (-0.06, -0.08))
    ):
        head.spike((x, y, 0.16), (1.5 * x, 1.35 * y, 0.36 + 0.06 * (i == 2)), 0.025, BRONZE, (4, 1.0))
    limbs = _limbs(build, (0.075, ROBE), (0.09, IRON), IRON)
    for arm in ("right", "left"):
        limbs[f"{arm}_forearm"].tube([(0.03, 0.085), (0.24, 0.07)], BRONZE)
    cape = Mesh()
    rows = [(0.22, 0.0, 0.02), (0.3, -0.08, -0.4), (0.36, -0.15, -0.8), (0.42, -0.2, -1.22)]
    _drape(cape, rows, (ROBE, DARK_ROBE))
    return {"hips": hips, "chest": chest, "head": head, **limbs, "weapon": _halberd(build.weapon), "cape": cape}


def _halberd(length: float) -> Mesh:
    mesh = Mesh().tube([(-1.0, 0.022), (length - 0.3, 0.022)], WOOD, shape=(5, 1.0))
    mesh.tube([(-1.12, 0.0), (-1.0, 0.035)], BRONZE, shape=(5, 1.0))
    mesh.tube([(length - 0.52, 0.035), (length - 0.3, 0.04)], BRONZE, shape=(6, 1.0))
    mesh.spike((0.0, length - 0.34, 0.0), (0.0, length, 0.0), 0.045, SILVER, (4, 1.0))
    axe = [
        (length - 0.5, 0.03),
        (length - 0.6, 0.2),
        (length - 0.42, 0.3),
        (length - 0.22, 0.22),
        (length - 0.34, 0.03),
    ]
    for x in (0.012, -0.012):
        corners = [(x, y, z) for y, z in axe]
        mesh.polygon(corners if x < 0 else corners[::-1], SILVER, is_two_sided=True)
    mesh.spike((0.0, length - 0.42, -0.02), (0.0, length - 0.5, -0.22), 0.05, SILVER, (4, 1.0))
    return mesh


def _growth(build: Build) -> dict[str, Mesh]:
    """Return the dark growth on the judge's left side, with glowing embers."""
    top = build.trunk - 0.06
    chest = Mesh().ball((-0.22, -0.06, 0.3), (0.22, 0.18, 0.26), GROWTH, (7, 4))
    chest.ball((-0.36, 0.02, top + 0.02), (0.19, 0.18, 0.2), GROWTH, (6, 4))
    for start, tip, width in (
        ((-0.38, -0.08, top), (-0.72, -0.4, top + 0.62), 0.08),
        ((-0.26, -0.14, 0.32), (-0.6, -0.72, 0.55), 0.07),
        ((-0.44, 0.02, top - 0.05), (-0.86, 0.06, top + 0.3), 0.065),
        ((-0.14, -0.14, top), (-0.16, -0.4, top + 0.5), 0.06),
    ):
        chest.spike(start, tip, width, GROWTH)
    for place in ((-0.3, 0.14, 0.3), (-0.42, 0.15, top + 0.02), (-0.2, 0.13, 0.44)):
        chest.ball(place, (0.04, 0.03, 0.04), EMBER, (5, 3))
    arm = Mesh().tube([(0.0, 0.15), (build.upper_arm, 0.11)], GROWTH)
    forearm = Mesh().tube([(0.0, 0.12), (build.forearm, 0.14)], GROWTH)
    for x in (-0.1, 0.0, 0.1):
        forearm.spike((x, build.forearm, 0.0), (1.6 * x, build.forearm + 0.28, -0.05), 0.035, GROWTH, (4, 1.0))
    forearm.ball((-0.08, 0.16, 0.08), (0.04, 0.08, 0.03), EMBER, (5, 3))
    return {"chest": chest, "left_upper_arm": arm, "left_forearm": forearm}


def _beast(build: Build) -> dict[str, Mesh]:
    hips = Mesh().ball((0.0, 0.0, 0.0), (0.36, 0.34, 0.34), DARK_FUR, (8, 5))
    chest = Mesh().ball((0.0, 0.02, 0.42), (0.5, 0.38, 0.46), FUR, (9, 6))
    chest.ball((0.0, -0.02, 0.12), (0.4, 0.36, 0.3), DARK_FUR, (8, 4))
    for side in (1.0, -1.0):
        chest.ball((side * build.shoulder_width, 0.0, build.trunk - 0.14), (0.22, 0.22, 0.2), FUR, (7, 4))
        chest.spike((side * 0.44, -0.12, build.trunk - 0.08), (side * 0.62, -0.34, build.trunk + 0.2), 0.1, ICE)
    for x, z, size in ((0.0, 0.75, 0.42), (0.18, 0.55, 0.3), (-0.18, 0.55, 0.3), (0.0, 0.4, 0.36), (0.0, 0.1, 0.26)):
        chest.spike((x, -0.28, z), (1.4 * x, -0.28 - size, z + 0.5 * size), 0.1, ICE, (5, 1.0))
    head = Mesh().ball((0.0, 0.1, 0.04), (0.19, 0.24, 0.2), FUR, (7, 5))
    head.box((0.0, 0.3, -0.03), (0.2, 0.24, 0.15), DARK_FUR, (0.8, 0.8))
    head.box((0.0, 0.26, -0.13), (0.17, 0.26, 0.05), BONE, (1.0, 0.9))
    for side in (1.0, -1.0):
        head.spike((side * 0.06, 0.38, -0.1), (side * 0.07, 0.42, -0.24), 0.025, BONE, (4, 1.0))
        head.ball((side * 0.1, 0.24, 0.09), (0.035, 0.04, 0.03), FROST, (5, 3))
        head.tube(
            [(0.0, 0.07), (0.2, 0.06), (0.34, 0.045)],
            BONE,
            (side * 0.14, 0.04, 0.14),
            (side * 0.9, -0.1, 0.35),
            (5, 1.0),
        )
        head.spike((side * 0.43, 0.01, 0.26), (side * 0.5, 0.3, 0.45), 0.045, BONE)
    limbs = _limbs(build, (0.15, FUR), (0.17, DARK_FUR), DARK_FUR)
    for arm in ("right", "left"):
        for x in (-0.09, 0.0, 0.09):
            limbs[f"{arm}_forearm"].spike(
                (x, build.forearm + 0.1, 0.03), (1.2 * x, build.forearm + 0.26, -0.04), 0.03, ICE, (4, 1.0)
            )
            limbs[f"{arm}_foot"].spike((x, 0.2, -0.06), (1.3 * x, 0.34, -0.08), 0.035, ICE, (4, 1.0))
        limbs[f"{arm}_forearm"].spike((0.0, 0.1, -0.1), (0.0, -0.12, -0.36), 0.07, ICE)
    mace = Mesh().tube([(-0.25, 0.035), (build.weapon - 0.3, 0.05)], WOOD, shape=(6, 1.0))
    middle = build.weapon - 0.2
    mace.ball((0.0, middle, 0.0), (0.19, 0.2, 0.19), (0.5, 0.7, 0.82), (7, 5))
    for x, y, z in (
        (1, 0, 0),
        (-1, 0, 0),
        (0, 0, 1),
        (0, 0, -1),
        (0.6, 0.6, 0.6),
        (-0.6, 0.6, -0.6),
        (0.6, -0.5, -0.6),
        (-0.6, -0.5, 0.6),
    ):
        mace.spike(
            (0.15 * x, middle + 0.15 * y, 0.15 * z), (0.34 * x, middle + 0.34 * y, 0.34 * z), 0.06, ICE, (4, 1.0)
        )
    mace.spike((0.0, middle + 0.15, 0.0), (0.0, build.weapon + 0.04, 0.0), 0.07, ICE, (4, 1.0))
    tail = Mesh().tube([(0.0, 0.13), (0.4, 0.1), (0.9, 0.05), (1.1, 0.0)], FUR, way=(0.0, -0.35, -1.0))
    for share in (0.35, 0.6, 0.85):
        tail.spike(
            (0.0, -0.33 * share, -0.94 * share), (0.0, -0.33 * share - 0.24, -0.94 * share + 0.05), 0.05, ICE, (4, 1.0)
        )
    return {"hips": hips, "chest": chest, "head": head, **limbs, "weapon": mace, "cape": tail}


def _more_ice() -> dict[str, Mesh]:
    chest = Mesh()
    for x, z, size in (
        (0.24, 0.8, 0.6),
        (-0.24, 0.8, 0.6),
        (0.0, 0.92, 0.55),
        (0.32, 0.3, 0.42),
        (-0.32, 0.3, 0.42),
        (0.0, 0.25, 0.5),
    ):
        chest.spike((x, -0.2, z), (1.6 * x, -0.2 - size, z + 0.6 * size), 0.12, FROST, (4, 1.0))
    head = Mesh()
    for side in (1.0, -1.0):
        head.spike((side * 0.1, 0.0, 0.18), (side * 0.16, -0.25, 0.5), 0.06, FROST, (4, 1.0))
        head.ball((side * 0.1, 0.25, 0.09), (0.05, 0.05, 0.045), ICE, (5, 3))
    arms = {
        f"{side}_forearm": Mesh().spike((0.0, 0.25, 0.12), (0.0, 0.0, 0.42), 0.1, FROST, (4, 1.0))
        for side in ("right", "left")
    }
    return {"chest": chest, "head": head, **arms}


def _trickster(build: Build) -> dict[str, Mesh]:
    top = build.trunk - 0.06
    hips = Mesh().tube([(-0.2, 0.19), (0.0, 0.13), (0.1, 0.11)], GREY_LINEN, way=UP, shape=(7, 0.8))
    for x, y, length in (
        (0.12, 0.06, 0.5),
        (-0.12, 0.06, 0.42),
        (0.13, -0.1, 0.62),
        (-0.13, -0.1, 0.7),
        (0.0, -0.14, 0.8),
    ):
        hips.polygon([(x - 0.08, y, -0.05), (x, 1.6 * y, -length), (x + 0.08, y, -0.05)], LINEN, is_two_sided=True)
    hips.box((0.0, 0.0, 0.06), (0.27, 0.22, 0.05), GOLD)
    hips.fade(-0.8, 0.0, 0.3)
    chest = Mesh().tube([(0.0, 0.11), (0.2, 0.14), (top, 0.12)], LINEN, way=UP, shape=(7, 0.72))
    chest.polygon(
        [(-0.14, 0.1, 0.36), (0.02, 0.12, 0.02), (0.07, 0.12, 0.02), (-0.06, 0.1, 0.38)], GOLD, is_two_sided=True
    )
    chest.tube([(0.0, 0.2), (0.1, 0.08)], GREY_LINEN, (0.0, -0.01, top - 0.05), UP, (7, 0.75))
    for side in (1.0, -1.0):
        chest.ball((side * build.shoulder_width, 0.0, top - 0.04), (0.085, 0.085, 0.075), GREY_LINEN, (6, 3))
    head = Mesh().ball((0.0, 0.03, 0.08), (0.1, 0.12, 0.15), GREY_LINEN, (7, 5))
    # A white mask with slits for the eyes, and a hood with a long tip.
    mask = [
        (-0.075, 0.12, 0.16),
        (-0.06, 0.15, 0.02),
        (0.0, 0.165, -0.08),
        (0.06, 0.15, 0.02),
        (0.075, 0.12, 0.16),
        (0.0, 0.15, 0.2),
    ]
    head.polygon([(x, y + 0.01, z) for x, y, z in mask], PALE, is_two_sided=True)
    for side in (1.0, -1.0):
        head.box((side * 0.035, 0.165, 0.08), (0.04, 0.03, 0.015), VIOLET)
    head.tube(
        [(0.0, 0.13), (0.16, 0.11), (0.4, 0.05), (0.62, 0.0)], LINEN, (0.0, 0.05, 0.12), (0.0, -0.85, 0.35), (6, 1.0)
    )
    limbs = _limbs(build, (0.05, LINEN), (0.065, GREY_LINEN), PALE)
    for arm in ("right", "left"):
        limbs[f"{arm}_forearm"].tube([(0.02, 0.06), (0.2, 0.1)], LINEN, shape=(6, 0.8))
    cape = Mesh()
    _drape(
        cape, [(0.14, 0.0, 0.02), (0.2, -0.08, -0.35), (0.17, -0.15, -0.75), (0.05, -0.2, -1.1)], (LINEN, GREY_LINEN)
    )
    blade = _blade(build.weapon)
    return {"hips": hips, "chest": chest, "head": head, **limbs, "weapon": blade, "offhand": _blade(0.72), "cape": cape}


def _blade(length: float) -> Mesh:
    """Return a curved blade, its edge along z."""
    mesh = Mesh()
    outline = [(0.06, -0.03, 0.03), (0.45, -0.055, 0.035), (0.78, -0.02, 0.06), (1.0, 0.0, 0.0)]
    for (y0, low0, high0), (y1, low1, high1) in pairwise(outline):
        for x in (0.014, -0.014):
            corners = [
                (0.0, y0 * length, low0),
                (x, y0 * length, high0),
                (x, y1 * length, high1),
                (0.0, y1 * length, low1),
            ]
            if y1 == 1.0:
                corners = corners[:3]
                corners[2] = (0.0, length, 0.0)
                corners = [corners[0], corners[1], corners[2]]
            mesh.polygon(corners if x > 0 else corners[::-1], SILVER, is_two_sided=True)
    mesh.box((0.0, 0.05, 0.0), (0.05, 0.03, 0.18), GOLD)
    return mesh.tube([(-0.14, 0.022), (0.04, 0.022)], BLACK, shape=(5, 1.0))


def _masks() -> dict[str, Mesh]:
    """Return masks that float around the trickster's shoulders."""
    chest = Mesh()
    for x, y, z in ((-0.5, -0.1, 0.55), (0.5, -0.1, 0.55), (0.0, -0.35, 0.85)):
        face = [
            (-0.07, 0.0, 0.1),
            (-0.055, 0.03, -0.03),
            (0.0, 0.04, -0.12),
            (0.055, 0.03, -0.03),
            (0.07, 0.0, 0.1),
            (0.0, 0.02, 0.13),
        ]
        chest.polygon([(x + px, y + py, z + pz) for px, py, pz in face], PALE, is_two_sided=True)
        for side in (1.0, -1.0):
            chest.box((x + side * 0.03, y + 0.05, z + 0.02), (0.035, 0.02, 0.015), VIOLET)
    return {"chest": chest}


def _drape(mesh: Mesh, rows: list[tuple[float, float, float]], colours: tuple[Colour, Colour]) -> None:
    """Add cloth as rows of (half width, ahead, height), with a fold along its middle."""
    for (w0, y0, z0), (w1, y1, z1) in pairwise(rows):
        mesh.polygon(
            [(-w0, y0, z0), (0.0, y0 - 0.06, z0), (0.0, y1 - 0.06, z1), (-w1, y1, z1)], colours[0], is_two_sided=True
        )
        mesh.polygon(
            [(0.0, y0 - 0.06, z0), (w0, y0, z0), (w1, y1, z1), (0.0, y1 - 0.06, z1)], colours[1], is_two_sided=True
        )
    mesh.fade(rows[-1][2], rows[0][2], 0.35)
