"""The layer of the overlay, a plane in front of the lens, and its elements: rectangles, text and bars.

The unit is half the picture's height: z is from -1 (bottom) to 1, x from -aspect to aspect. The layer is attached to
the camera, so that a picture needs only one render pass.
"""

from __future__ import annotations

import math
from functools import cache

import msgspec
import numpy as np
from panda3d.core import DynamicTextFont, NodePath, TextNode, TextProperties, TransparencyAttrib

from soulslab.arena.window.stage.atmosphere import Rgb
from soulslab.arena.window.stage.baked_mesh import Mesh
from soulslab.arena.window.stage.camera import OPENING_RAD

#: Line height of the smallest readable text, in pixels.
_LEAST_TEXT_PX = 10.5
_TEXT = 0.062
_ALIGN = {"left": TextNode.ALeft, "right": TextNode.ARight, "centre": TextNode.ACenter}


class Layer:
    """The layer: x of its right edge, the line height of normal text, and the size of a pixel."""

    def __init__(self, camera: NodePath, size_px: tuple[int, int]) -> None:
        self.right = size_px[0] / size_px[1]
        self.text = max(_TEXT, _LEAST_TEXT_PX / (size_px[1] / 2))
        self.px = 2.0 / size_px[1]
        self.node: NodePath = camera.attachNewNode("hud")
        self.node.setPos(0.0, 1.0, 0.0)
        self.node.setScale(math.tan(OPENING_RAD / 2))
        self.node.setBin("fixed", 100)
        self.node.setDepthTest(False)
        self.node.setDepthWrite(False)
        self.node.setLightOff()
        self.node.setFogOff()

    def close(self) -> None:
        """Remove the layer from the camera."""
        self.node.removeNode()


Frame = tuple[float, float, float, float]
"""Left, right, bottom, top."""


def add_rectangle(mesh: Mesh, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> None:
    """Add a rectangle with a vertical colour gradient."""
    left, right, low, high = frame
    points = np.array([[[left, 0.0, low], [right, 0.0, low]], [[left, 0.0, high], [right, 0.0, high]]])
    colours = np.array([[bottom, bottom], [top, top]])
    mesh.grid(points[:, ::-1], colours)


def rectangle(parent: NodePath, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> NodePath:
    """Make a rectangle as a separate node; a colour with an alpha below 1 is translucent."""
    mesh = Mesh()
    add_rectangle(mesh, frame, bottom, top)
    path = mesh.node(parent, "rectangle")
    path.setTwoSided(True)
    if len(bottom) == 4:
        path.setTransparency(TransparencyAttrib.MAlpha)
    return path


class Label:
    """A line of text at x and z of its baseline, whose layout is computed only when it changes."""

    def __init__(
        self, parent: NodePath, place: tuple[float, float], size: float, colour: Rgb, align: str = "left"
    ) -> None:
        self._node = TextNode("label")
        self._node.setTextColor(*colour, 1.0)
        self._node.setShadow(0.05, 0.05)
        self._node.setShadowColor(0.0, 0.0, 0.0, 0.85)
        self._node.setAlign(_ALIGN[align])
        self.path: NodePath = parent.attachNewNode(self._node)
        self.path.setScale(size)
        self.path.setPos(place[0], 0.0, place[1])
        self.text = ""

    def show(self, text: str) -> None:
        """Set the text."""
        if text != self.text:
            self.text = text
            self._node.setText(text)


def title(parent: NodePath, text: str, colour: Rgb, height: float) -> NodePath:
    """Make a line of large, widely spaced letters at the centre of the layer.

    ``height`` is the line height; a text that is wider than the picture is scaled down.
    """
    node = TextNode(text)
    node.setFont(_title_font())
    # The built-in font has no hair spaces, so whole spaces separate the letters.
    node.setText("    ".join(" ".join(word) for word in text.split(" ")))
    node.setTextColor(*colour, 1.0)
    node.setAlign(TextNode.ACenter)
    path = parent.attachNewNode(node.generate())
    # The size is set on an inner node, so that the caller can scale and move the returned one.
    holder = parent.attachNewNode(text)
    path.reparentTo(holder)
    path.setScale(height)
    path.setZ(-0.34 * height)
    holder.setTransparency(TransparencyAttrib.MAlpha)
    return holder


@cache
def _title_font() -> DynamicTextFont:
    """Return the built-in font at a resolution for large text."""
    font = TextProperties.getDefaultFont().makeCopy()
    font.setPixelsPerUnit(72)
    font.setPageSize(512, 512)
    return font


#: A loss is shown for this long after the last hit; then it shrinks.
HOLD_TICKS = 45
DRAIN_PER_TICK = 0.012

_TRAIL: Rgb = (0.86, 0.70, 0.26)
_BACK, _RIM = (0.05, 0.04, 0.04), (0.42, 0.38, 0.30)


class Trail:
    """Recent loss of a bar. It is computed from game ticks and does not depend on the frame rate.

    ``share`` is the end of the lost part, as a share of the bar; ``lost`` is the loss that is still shown at full
    length.
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
        """Update the value of the bar, with its maximum, at a tick of the game."""
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
    """A bar; its geometry changes only when its value changes."""

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
