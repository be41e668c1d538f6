"""Solids of the figures' parts, from ``knight_mesh.toml`` and ``boss_mesh.toml``, in units of the figures' builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from soulslab.arena.picture.looks import Body
from soulslab.arena.window.figures.rig import PARTS
from soulslab.arena.window.figures.solid_mesh import Colour, Mesh
from soulslab.config.loading import read_toml

#: Name of the colour of each boss's glowing effects.
GLOW: Final[Mapping[Body, str]] = {"halberd": "ember", "beast": "frost", "daggers": "violet"}
_METHODS: Final[Mapping[str, Callable[..., Mesh]]] = {
    "box": Mesh.box,
    "ball": Mesh.ball,
    "tube": Mesh.tube,
    "spike": Mesh.spike,
    "polygon": Mesh.polygon,
    "squeeze": Mesh.squeeze,
    "fade": Mesh.fade,
}
#: Arguments whose x is negated for the other side.
_PLACES = ("centre", "start", "tip", "way")


def knight_meshes() -> dict[str, Mesh]:
    """Return the solids of the knight's parts."""
    return _meshes("knight_mesh.toml", "knight")


def boss_meshes(body: Body) -> dict[str, Mesh]:
    """Return the solids of a boss's parts."""
    return _meshes("boss_mesh.toml", body)


def growth_meshes(body: Body) -> dict[str, Mesh]:
    """Return the additional solids of a boss's second phase, by the part that they are attached to."""
    return _meshes("boss_mesh.toml", f"{body}_growth")


def boss_colour(name: str) -> Colour:
    """Return a colour of the bosses."""
    red, green, blue = _read("boss_mesh.toml")["colours"][name]
    return red, green, blue


@cache
def _read(file: str) -> dict[str, Any]:
    return read_toml(Path(__file__).parent / file)


def _meshes(file: str, figure: str) -> dict[str, Mesh]:
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
