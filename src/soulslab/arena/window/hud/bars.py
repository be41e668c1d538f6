"""Bars of health and stamina, with recent losses in a different colour."""

from __future__ import annotations

import msgspec
from panda3d.core import NodePath

from soulslab.arena.window.hud.layer import Frame, add_rectangle, rectangle
from soulslab.arena.window.stage.atmosphere import Rgb
from soulslab.arena.window.stage.baked_mesh import Mesh

#: A loss is shown for this long after the last hit; then it shrinks.
HOLD_TICKS = 45
DRAIN_PER_TICK = 0.012

_TRAIL: Rgb = (0.86, 0.70, 0.26)
_BACK, _RIM = (0.05, 0.04, 0.04), (0.42, 0.38, 0.30)


class Trail:
    """Recent loss of a bar. It is computed from game ticks and does not depend on the frame rate.

    Attributes:
        share: End of the lost part, as a share of the bar.
        lost: Loss of the hits that are still shown at full length.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self.lost = 0.0
        self._value = 0.0
        self._tick = 0
        self._held_until = 0

    def begin(self, value: float, full: float, tick: int) -> None:
        """Start a fight without a loss."""
        self.share, self.lost, self._value = value / full, 0.0, value
        self._tick = self._held_until = tick

    def show(self, value: float, full: float, tick: int) -> None:
        """Update the value.

        Args:
            value: Present value of the bar.
            full: Its maximum.
            tick: Present tick of the game.
        """
        if value < self._value:
            self.lost += self._value - value
            self._held_until = tick + HOLD_TICKS
        draining = tick - max(self._held_until, self._tick)
        if draining > 0:
            self.share -= DRAIN_PER_TICK * draining
            self.lost = 0.0
        self.share = max(self.share, value / full)
        self._value, self._tick = value, tick


class BarStyle(msgspec.Struct, frozen=True):
    """Position and colour of a bar."""

    frame: Frame
    colour: Rgb
    has_trail: bool = True


class Bar:
    """A bar; its geometry changes only when its value changes.

    Args:
        parent: Node on the layer.
        style: Position and colour.
        rim: Width of its border.
    """

    def __init__(self, parent: NodePath, style: BarStyle, rim: float) -> None:
        left, right, low, high = style.frame
        back = Mesh()
        add_rectangle(back, (left - rim, right + rim, low - rim, high + rim), _RIM, _RIM)
        add_rectangle(back, style.frame, _BACK, _BACK)
        path = back.node(parent, "bar back")
        path.setTwoSided(True)
        self._left, self._width = left, right - left
        self._trail = self._stripe(parent, style.frame, _TRAIL) if style.has_trail else None
        self._fill = self._stripe(parent, style.frame, style.colour)
        self._shown = (-1.0, -1.0)

    def _stripe(self, parent: NodePath, frame: Frame, colour: Rgb) -> NodePath:
        _, _, low, high = frame
        red, green, blue = colour
        dark = (red * 0.62, green * 0.62, blue * 0.62)
        stripe = rectangle(parent, (0.0, 1.0, low, high), dark, colour)
        stripe.setX(self._left)
        return stripe

    def show(self, share: float, trail: float = 0.0) -> None:
        """Show a value and its recent loss, as shares of the bar."""
        if (share, trail) == self._shown:
            return
        self._shown = (share, trail)
        _stretch(self._fill, share * self._width)
        if self._trail is not None:
            _stretch(self._trail, trail * self._width if trail > share else 0.0)


def _stretch(stripe: NodePath, width: float) -> None:
    if width <= 0.0:
        stripe.hide()
    else:
        stripe.show()
        stripe.setSx(width)
