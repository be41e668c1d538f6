"""The window: panda3d's, opened with as little of panda3d as a game of this size needs."""

from __future__ import annotations

import msgspec
from panda3d.core import (
    ButtonThrower,
    Camera,
    DataGraphTraverser,
    EventQueue,
    FrameBufferProperties,
    GraphicsEngine,
    GraphicsPipe,
    GraphicsPipeSelection,
    MouseAndKeyboard,
    NodePath,
    WindowProperties,
    loadPrcFileData,
)

from soulslab.arena.window.settings import WindowSettings
from soulslab.errors import DisplayError

_PIPES = {"software": "p3tinydisplay", "gpu": "pandagl"}
_SETTINGS = "audio-library-name null\nsync-video 0\nnotify-level-display error\nprint-pipe-types 0\n"


class ButtonEvent(msgspec.Struct, frozen=True):
    """A key or pad button that went down or up, by panda3d's name."""

    name: str
    is_press: bool


class Window:
    """A window with a scene, and the events of its keys.

    Attributes:
        root: Parent of everything that is drawn.
        camera: What it is seen through.
    """

    def __init__(self, settings: WindowSettings) -> None:
        renderer = "software" if settings.renderer == "auto" else settings.renderer
        loadPrcFileData("", f"load-display {_PIPES[renderer]}\n{_SETTINGS}")
        self._engine = GraphicsEngine.getGlobalPtr()
        pipe = GraphicsPipeSelection.getGlobalPtr().makeDefaultPipe()
        if pipe is None:
            raise DisplayError("there is no display to open a window on; start it in a desktop, or set DISPLAY")
        properties = WindowProperties()
        properties.setSize(*settings.size_px)
        properties.setOrigin(0, 0)
        properties.setTitle(settings.title)
        buffers = FrameBufferProperties()
        buffers.setRgbColor(True)
        buffers.setDepthBits(16)
        buffers.setBackBuffers(1)
        self._window = self._engine.makeOutput(pipe, "arena", 0, buffers, properties, GraphicsPipe.BFRequireWindow)
        self.root = NodePath("root")
        self.camera = self.root.attachNewNode(Camera("camera"))
        self.camera.node().getLens().setAspectRatio(settings.size_px[0] / settings.size_px[1])
        self._window.setClearColor((0.5, 0.55, 0.6, 1.0))
        self._window.makeDisplayRegion().setCamera(self.camera)
        data = NodePath("data")
        keyboard = data.attachNewNode(MouseAndKeyboard(self._window, 0, "keyboard"))
        keyboard.attachNewNode(ButtonThrower("buttons"))
        self._data = data.node()
        self._traverser = DataGraphTraverser()
        self._queue = EventQueue.getGlobalEventQueue()
        self._engine.openWindows()

    def events(self) -> list[ButtonEvent]:
        """Take in what the keys did since the last call."""
        self._engine.openWindows()
        self._traverser.traverse(self._data)
        found = []
        while not self._queue.isQueueEmpty():
            name = self._queue.dequeueEvent().getName()
            if name.endswith("-repeat"):
                continue
            found.append(ButtonEvent(name.removesuffix("-up"), not name.endswith("-up")))
        return found

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return bool(self._window.isValid())

    def draw(self) -> None:
        """Draw the scene."""
        self._engine.renderFrame()
        self._engine.flipFrame()

    def close(self) -> None:
        """Close it."""
        self._engine.removeAllWindows()
