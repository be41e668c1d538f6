"""Fires in front of the wall, which flicker with the game's ticks."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.state import TICKS_PER_S
from soulslab.arena.window.stage.ground import Place
from soulslab.arena.window.stage.mesh import Mesh
from soulslab.arena.window.stage.mood import Mood

_FLAME_Z_M = 1.22


class Flames:
    """The flames; their bowls are part of the wall.

    Args:
        parent: Node at the floor's centre.
        place: Positions of the fires.
        mood: Colours.
    """

    def __init__(self, parent: NodePath, place: Place, mood: Mood) -> None:
        self._flames: list[NodePath] = []
        for x, y in place.braziers():
            flame = _flame(mood).node(parent, "flame")
            flame.setTwoSided(True)
            flame.setPos(x, y, _FLAME_Z_M)
            self._flames.append(flame)

    def show(self, n_ticks: int, hidden: Collection[int]) -> None:
        """Animate the flames.

        Args:
            n_ticks: Ticks of the game.
            hidden: Numbers of the flames that obstruct the view.
        """
        beat = n_ticks / TICKS_PER_S * math.tau
        for i, flame in enumerate(self._flames):
            if i in hidden:
                flame.hide()
                continue
            flame.show()
            tall = 1.0 + 0.14 * math.sin(2.3 * beat + 2 * i) + 0.08 * math.sin(5.1 * beat + i)
            flame.setHprScale(9.0 * math.sin(1.7 * beat + i), 0.0, 0.0, 2.0 - tall, 2.0 - tall, tall)


def add_bowl(mesh: Mesh, x: float, y: float, mood: Mood) -> None:
    """Add the bowl of a fire on its post."""
    iron, glowing = np.full(3, 0.12), np.array(mood.fire)
    for half, low, high, colours in (
        (0.08, 0.0, 1.1, (iron, iron, iron)),
        (0.32, 1.02, 1.25, (glowing, iron * 1.5, iron * 2.5)),
    ):
        mesh.box(np.array([x - half, y - half, low]), np.array([x + half, y + half, high]), colours)


def _flame(mood: Mood) -> Mesh:
    """Build crossed tongues of flame with a hot core."""
    mesh = Mesh()
    fire = np.array(mood.fire)
    # Each tongue is a list of (half width, height).
    shape = np.array([[0.20, 0.0], [0.27, 0.22], [0.20, 0.5], [0.09, 0.78], [0.0, 1.05]])
    for turn in (0.2, 0.2 + math.pi / 3, 0.2 + 2 * math.pi / 3):
        way = np.array([math.cos(turn), math.sin(turn)])
        for size, colour in ((1.0, fire), (0.62, 0.35 * fire + 0.65)):
            half, z = shape[:, :1] * size, shape[:, 1:] * size
            # The hotter tongue is in front of the other one on both sides.
            for out in (0.0,) if size == 1.0 else (-0.015, 0.015):
                off = out * np.array([-way[1], way[0]])
                sides = np.stack([np.c_[-half * way + off, z], np.c_[half * way + off, z]])
                fade = np.linspace(1.0, 0.72, len(shape))[None, :, None]
                mesh.grid(sides, fade * colour * np.ones((2, len(shape), 1)))
    return mesh
