"""Rendering with the software renderer, without a display."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from panda3d.core import (
    Camera,
    FrameBufferProperties,
    GraphicsEngine,
    GraphicsPipe,
    GraphicsPipeSelection,
    NodePath,
    WindowProperties,
)


class Offscreen:
    """Renders a scene.

    Attributes:
        root: Parent of the scene.
        camera: Camera of the scene.
    """

    def __init__(self, width_px: int, height_px: int) -> None:
        self._engine = GraphicsEngine.getGlobalPtr()
        pipe = GraphicsPipeSelection.getGlobalPtr().makePipe("TinyOffscreenGraphicsPipe", "p3tinydisplay")
        buffers = FrameBufferProperties()
        buffers.setRgbColor(True)
        buffers.setDepthBits(16)
        size = WindowProperties.size(width_px, height_px)
        self._buffer = self._engine.makeOutput(pipe, "offscreen", 0, buffers, size, GraphicsPipe.BFRefuseWindow)
        self.root = NodePath("root")
        self.camera = self.root.attachNewNode(Camera("camera"))
        self._buffer.makeDisplayRegion().setCamera(self.camera)

    def picture(self) -> NDArray[np.uint8]:
        """Render and return the picture, (H, W, 3) RGB."""
        self._engine.renderFrame()
        shot = self._buffer.getScreenshot()
        data = np.frombuffer(bytes(shot.getRamImageAs("RGB")), np.uint8)
        return data.reshape(shot.getYSize(), shot.getXSize(), 3)[::-1]

    def close(self) -> None:
        """Close the window."""
        # panda3d 1.10.16 corrupts the heap when it frees buffers of tinydisplay; they are freed with the process.
        self._buffer.getGsg().ref()
        self._engine.removeWindow(self._buffer)
