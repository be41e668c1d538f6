"""The layer of the overlay, a plane in front of the lens, and its elements.

The unit is half the picture's height: z is from -1 (bottom) to 1, x from -aspect to aspect. The layer is attached to
the camera, so that a picture needs only one render pass.
"""

from __future__ import annotations

import math
from functools import cache

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
    """The layer.

    Args:
        camera: Camera that it is attached to.
        size_px: Width and height of the picture.

    Attributes:
        node: Parent node of the elements.
        right: x of the right edge; the left edge is its negative.
        text: Line height of normal text.
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
    """A line of text whose layout is computed only when it changes.

    Args:
        parent: Node on the layer.
        place: x and z of its baseline.
        size: Line height.
        colour: Colour of the text.
        align: ``left``, ``right`` or ``centre`` of that position.
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
        """Set the text."""
        if text != self.text:
            self.text = text
            self._node.setText(text)


def title(parent: NodePath, text: str, colour: Rgb, height: float) -> NodePath:
    """Make a line of large, widely spaced letters at the centre of the layer.

    Args:
        parent: Node on the layer.
        text: Text in capital letters.
        colour: Colour of the letters.
        height: Line height; a text that is wider than the picture is scaled down.
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
