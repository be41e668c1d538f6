"""The layer that all of it lies on, flat before the lens.

Its units are halves of the picture's height: z from -1 (bottom) to 1, x from -aspect to aspect. It hangs on the camera,
so that a picture is one pass of the renderer.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from panda3d.core import DynamicTextFont, NodePath, TextNode, TextProperties, TransparencyAttrib

from soulslab.arena.window.stage.camera import OPENING_RAD
from soulslab.arena.window.stage.mesh import Mesh
from soulslab.arena.window.stage.mood import Rgb

#: The smallest text that can be read, in pixels from line to line.
_LEAST_TEXT_PX = 10.5
_TEXT = 0.062
_ALIGN = {"left": TextNode.ALeft, "right": TextNode.ARight, "centre": TextNode.ACenter}


class Layer:
    """The layer.

    Args:
        camera: It hangs on.
        size_px: Width and height of the picture.

    Attributes:
        node: Parent of whatever lies on it.
        right: x of the right edge; the left edge is its negative.
        text: Size of text.
    """

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
        """Take it off the camera."""
        self.node.removeNode()


Frame = tuple[float, float, float, float]
"""Left, right, bottom, top."""


def add_rectangle(mesh: Mesh, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> None:
    """Add a rectangle that goes from one colour at its bottom to another at its top."""
    left, right, low, high = frame
    points = np.array([[[left, 0.0, low], [right, 0.0, low]], [[left, 0.0, high], [right, 0.0, high]]])
    colours = np.array([[bottom, bottom], [top, top]])
    mesh.grid(points[:, ::-1], colours)


def rectangle(parent: NodePath, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> NodePath:
    """Make a rectangle of its own; colours with a fourth part below 1 let through."""
    mesh = Mesh()
    add_rectangle(mesh, frame, bottom, top)
    path = mesh.node(parent, "rectangle")
    path.setTwoSided(True)
    if len(bottom) == 4:
        path.setTransparency(TransparencyAttrib.MAlpha)
    return path


class Label:
    """A line of text that is only laid out when it changes.

    Args:
        parent: On the layer.
        place: x and z of its baseline.
        size: From line to line.
        colour: Of the text.
        align: ``left``, ``right`` or ``centre`` of the place.
    """

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
        """Show a text."""
        if text != self.text:
            self.text = text
            self._node.setText(text)


def title(parent: NodePath, text: str, colour: Rgb, height: float) -> NodePath:
    """Make a line in large, wide-set letters, in the middle of the layer.

    Args:
        parent: On the layer.
        text: Capitals.
        colour: Of the letters.
        height: From line to line; wider text than the picture is made smaller.
    """
    node = TextNode(text)
    node.setFont(_title_font())
    # Hair spaces would be finer, but the built-in font has none.
    node.setText("    ".join(" ".join(word) for word in text.split(" ")))
    node.setTextColor(*colour, 1.0)
    node.setAlign(TextNode.ACenter)
    path = parent.attachNewNode(node.generate())
    # A node between takes the size, so that the caller may scale and move what it gets.
    holder = parent.attachNewNode(text)
    path.reparentTo(holder)
    path.setScale(height)
    path.setZ(-0.34 * height)
    holder.setTransparency(TransparencyAttrib.MAlpha)
    return holder


@cache
def _title_font() -> DynamicTextFont:
    """Return the built-in font in a size that is sharp where it is large."""
    font = TextProperties.getDefaultFont().makeCopy()
    font.setPixelsPerUnit(72)
    font.setPageSize(512, 512)
    return font
