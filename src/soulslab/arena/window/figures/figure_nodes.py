"""Nodes of the figures: the knight, the boss, and their shadows. Their solids are in ``*_mesh.toml``.

A figure is one solid whose parts are positioned by the rig. panda3d transforms the vertices. With the software renderer
this takes half the time of one node per part, and less than transforming them with numpy.

A shadow is planar: it shows the nodes of a figure, flattened onto the floor along the direction of the light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from panda3d.core import GeomNode, LMatrix4f, NodePath, OmniBoundingVolume, UserVertexTransform

from soulslab.arena.blow import ease
from soulslab.arena.boss_file import Boss
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.picture import looks
from soulslab.arena.records import THROWN, Record
from soulslab.arena.window.figures.boss_poses import boss_pose, figure_of
from soulslab.arena.window.figures.knight_poses import KNIGHT, knight_pose, knock_back_of
from soulslab.arena.window.figures.pose import Pose
from soulslab.arena.window.figures.rig import PARTS, Build, Part, Place, place_parts
from soulslab.arena.window.figures.solid_mesh import Colour, Joints, Mesh, geometry
from soulslab.config.loading import read_toml

#: Name of the colour of each boss's glowing effects.
GLOW: Final[Mapping[looks.Body, str]] = {"halberd": "ember", "beast": "frost", "daggers": "violet"}
_METHODS: Final[Mapping[str, Callable[..., Mesh]]] = {
    method.__name__: method
    for method in (Mesh.box, Mesh.ball, Mesh.tube, Mesh.spike, Mesh.polygon, Mesh.squeeze, Mesh.fade)
}
#: Arguments whose x is negated for the other side.
_PLACES = ("centre", "start", "tip", "way")

#: After a hit, a figure has another colour for this long, by these factors.
FLASH_TICKS = 5
BOSS_FLASH = (1.6, 1.45, 1.25, 1.0)
KNIGHT_FLASH = (1.9, 0.75, 0.7, 1.0)
#: Share of the move of the phase change after which the growth has its full size.
GROWN_SHARE = 0.7
#: Ticks in which the knight turns to the direction of a roll, and in which it turns back.
TURN_TICKS = 4
#: Distance above the floor in m, which avoids z-fighting.
LIFT_M = 0.012
#: Remaining height of the flattened figure. It is not 0, because panda3d inverts the matrix.
FLATNESS = 1e-4


def boss_colour(name: str) -> Colour:
    """Return a colour of the bosses."""
    red, green, blue = _read("boss_mesh.toml")["colours"][name]
    return red, green, blue


@cache
def _read(file: str) -> dict[str, Any]:
    return read_toml(Path(__file__).parent / file)


def _meshes(file: str, figure: str) -> dict[str, Mesh]:
    """Return the solids of a figure's parts, in units of its build."""
    colours = _read(file)["colours"]
    found = {}
    for name, rows in _read(file)[figure].items():
        for part in (name,) if name in PARTS else (f"right_{name}", f"left_{name}"):
            found[part] = mesh = Mesh()
            for row in rows:
                _add(mesh, row, colours)
    return found


def _add(mesh: Mesh, row: Mapping[str, Any], colours: Mapping[str, list[float]]) -> None:
    arguments = {name: value for name, value in row.items() if name not in ("solid", "is_mirrored")}
    if isinstance(row.get("colour"), str):
        arguments["colour"] = colours[row["colour"]]
    add = _METHODS[row["solid"]]
    add(mesh, **arguments)
    if row.get("is_mirrored", False):
        for name in _PLACES:
            if name in arguments:
                x, y, z = arguments[name]
                arguments[name] = (-x, y, z)
        add(mesh, **arguments)


class Body:
    """The node of a figure, with additional solids that `show_growth` makes visible.

    The axes of its parent are those of the world. ``root`` is the node at the figure's feet that faces its direction,
    the parent of all its nodes.
    """

    def __init__(
        self, parent: NodePath, build: Build, meshes: Mapping[str, Mesh], grown: Mapping[str, Mesh] | None = None
    ) -> None:
        self.build = build
        self.root = parent.attachNewNode("figure")
        self._parts, _ = self._attach("body", meshes)
        self._growing, self._grown = self._attach("growth", grown or {})
        self._growth = 0.0
        self._grown.hide()

    def set_position(self, place: tuple[float, float, float], facing: tuple[float, float]) -> None:
        """Set the figure's position, and its facing as a direction on the ground."""
        self.root.setPosHpr(*place, math.degrees(math.atan2(-facing[0], facing[1])), 0.0, 0.0)

    def show_growth(self, share: float) -> None:
        """Set the size of the additional solids, as a share of 0 (hidden) to 1, from the next `show` on."""
        if (share > 0.0) != (self._growth > 0.0):
            (self._grown.show if share > 0.0 else self._grown.hide)()
        self._growth = share

    def show(self, pose: Pose) -> None:
        """Set the pose."""
        places, stretch = place_parts(self.build, pose)
        for number, joint in self._parts:
            joint.setMatrix(_matrix(places[number], stretch if number == Part.WEAPON else 1.0))
        if self._growth > 0.0:
            for number, joint in self._growing:
                joint.setMatrix(LMatrix4f.scaleMat(self._growth) * _matrix(places[number], 1.0))

    def _attach(self, name: str, meshes: Mapping[str, Mesh]) -> tuple[list[tuple[int, UserVertexTransform]], NodePath]:
        """Attach solids as one node; return the transforms of the parts with their numbers, and the node."""
        numbers = [number for number, part in enumerate(PARTS) if part in meshes]
        solids = [meshes[PARTS[number]].solid(self.build.scale_m) for number in numbers]
        node = GeomNode(name)
        joints = Joints([len(vertices) for vertices, _ in solids])
        if solids:
            starts = np.cumsum([0, *(len(vertices) for vertices, _ in solids[:-1])])
            triangles = [triangles + start for (_, triangles), start in zip(solids, starts, strict=True)]
            vertices = np.concatenate([vertices for vertices, _ in solids])
            node.addGeom(geometry(vertices, np.concatenate(triangles), joints=joints, is_dynamic=True))
        # The bounds of a flattened shadow would cull parts of it, and both fighters are nearly always visible.
        node.setBounds(OmniBoundingVolume())
        node.setFinal(True)
        return list(zip(numbers, joints.transforms, strict=True)), self.root.attachNewNode(node)


def _matrix(place: Place, stretch: float) -> LMatrix4f:
    (rx, ry, rz), (ax, ay, az), (ux, uy, uz), (x, y, z) = place
    return LMatrix4f(
        *(rx, ry, rz, 0.0), *(stretch * ax, stretch * ay, stretch * az, 0.0), *(ux, uy, uz, 0.0), *(x, y, z, 1.0)
    )


class BossFigure:
    """A boss below a node in the axes of the world."""

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        self._figure = figure_of(boss)
        kind = self._figure.body
        grown = _meshes("boss_mesh.toml", f"{kind}_growth")
        self._body = Body(parent, self._figure.build, _meshes("boss_mesh.toml", kind), grown)
        self.root = self._body.root

    def show(self, game: LiveFight, d: Record, f: Record) -> None:
        """Show the present pose of a game, given plain copies of its records."""
        self._body.set_position((float(d.b_x), float(d.b_y), float(f.floor)), (float(d.b_fx), float(d.b_fy)))
        self._body.show_growth(_growth(d, f))
        self._body.show(boss_pose(self._figure, d, f, game.stage, game.stage_ticks))
        if game.stage == "fighting" and is_hit(d, f):
            self.root.setColorScale(BOSS_FLASH)
        else:
            self.root.clearColorScale()


def is_hit(d: Record, f: Record) -> bool:
    """Return whether the boss was hit within the last ticks."""
    if d.b_mode == THROWN:
        return 0 <= d.b_ticks - f.riposte_hit < FLASH_TICKS
    a = f.animations[d.p_anim]
    return bool(d.p_has_hit and 0 <= d.p_ticks - a.active_from < FLASH_TICKS)


def _growth(d: Record, f: Record) -> float:
    """Return the size of the growth of the second phase, 0 to 1."""
    if d.phase == 2:
        return 1.0
    if d.b_move >= 0 and d.b_move == f.phase_two_move:
        return min(float(d.b_ticks) / (GROWN_SHARE * float(f.moves[d.b_move].duration)), 1.0)
    return 0.0


class KnightFigure:
    """The player's knight below a node in the axes of the world."""

    def __init__(self, parent: NodePath) -> None:
        self._body = Body(parent, KNIGHT, _meshes("knight_mesh.toml", "knight"))
        self.root = self._body.root

    def show(self, game: LiveFight, d: Record, f: Record) -> None:
        """Show the present pose of a game, given plain copies of its records."""
        self._body.set_position((float(d.p_x), float(d.p_y), float(d.p_z)), _facing(d, f))
        self._body.show(knight_pose(d, f, game.stage, game.stage_ticks))
        if game.stage == "fighting" and d.p_ticks < FLASH_TICKS and knock_back_of(d, f) is not None:
            self.root.setColorScale(KNIGHT_FLASH)
        else:
            self.root.clearColorScale()


def _facing(d: Record, f: Record) -> tuple[float, float]:
    """Return the facing of the figure: in a roll, the direction of the roll."""
    fx, fy = float(d.p_fx), float(d.p_fy)
    if d.p_anim != f.rolling:
        return fx, fy
    turn = math.atan2(fx * d.p_dy - fy * d.p_dx, fx * d.p_dx + fy * d.p_dy)
    a = f.animations[d.p_anim]
    left = (int(a.duration) - int(d.p_ticks)) / max(int(a.duration) - int(a.advance_to), 1)
    turn *= ease(int(d.p_ticks) / TURN_TICKS) * ease(left)
    c, s = math.cos(turn), math.sin(turn)
    return fx * c - fy * s, fx * s + fy * c


class Shadow:
    """The shadow of a figure on the floor, in the direction of the light (z below 0).

    It is a second instance of the figure's nodes, so it needs no update for a picture. Its colour is opaque, because
    overlapping parts would darken each other.
    """

    def __init__(
        self,
        parent: NodePath,
        figure_root: NodePath,
        light: tuple[float, float, float],
        floor_m: float,
        colour: Colour,
    ) -> None:
        x, y, z = light
        slant_x, slant_y = -x / z, -y / z
        self.root = parent.attachNewNode("shadow")
        # A point at height z is projected to the intersection of the floor and the ray of light through it.
        height = floor_m + LIFT_M - FLATNESS * floor_m
        self.root.setMat(
            LMatrix4f(
                *(1.0, 0.0, 0.0, 0.0),
                *(0.0, 1.0, 0.0, 0.0),
                *(slant_x, slant_y, FLATNESS, 0.0),
                *(-slant_x * floor_m, -slant_y * floor_m, height, 1.0),
            )
        )
        figure_root.instanceTo(self.root)
        self.root.setColor(*colour, 1.0, 2)
        self.root.setColorScaleOff(2)
        self.root.setLightOff(2)
        self.root.setBin("fixed", -10)
