"""The panda3d window, opened with the parts of panda3d that the game needs, and the choice of its renderer.

The renderer is OpenGL with hardware support, otherwise panda3d's software renderer. Mesa also provides OpenGL without
hardware (llvmpipe), but on two cores it has half the speed of panda3d's renderer.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from panda3d.core import (
    ButtonThrower,
    Camera,
    DataGraphTraverser,
    EventQueue,
    Filename,
    FrameBufferProperties,
    GraphicsEngine,
    GraphicsPipe,
    GraphicsPipeSelection,
    InputDevice,
    InputDeviceManager,
    InputDeviceNode,
    MouseAndKeyboard,
    NodePath,
    WindowProperties,
    loadPrcFileData,
)

from soulslab.arena.window.controls import ButtonEvent, PadState
from soulslab.arena.window.settings import PAD_PREFIX, Renderer, WindowSettings
from soulslab.arena.window.xinput import XInputPad
from soulslab.errors import DisplayError, WindowError

_log = logging.getLogger(__name__)

_MODULES = {"software": "p3tinydisplay", "gpu": "pandagl"}
#: Parts of the names of OpenGL drivers that draw on the processor.
_PROCESSOR_DRIVERS = ("llvmpipe", "softpipe", "swrast", "software rasterizer", "gdi generic", "swiftshader")
#: Our own errors report missing displays; a machine may have no pads. The camera moves in every picture, so products of
#: two transforms do not repeat and caching them is useless.
_CONFIG = """
audio-library-name null
sync-video 0
notify-level-display fatal
notify-level-x11display fatal
notify-level-device fatal
print-pipe-types 0
transform-cache 0
"""

#: A driver that does not report its name within this time is not used.
ASK_DEADLINE_S = 10.0
_ASK = """
from panda3d.core import *
loadPrcFileData("", "load-display pandagl\\naudio-library-name null\\nnotify-level fatal")
engine, pipe = GraphicsEngine.getGlobalPtr(), GraphicsPipeSelection.getGlobalPtr().makeDefaultPipe()
flags = GraphicsPipe.BFRefuseWindow | GraphicsPipe.BFFbPropsOptional
probe = engine.makeOutput(pipe, "probe", 0, FrameBufferProperties(), WindowProperties.size(1, 1), flags)
engine.renderFrame()
facts = probe.getGsg()
print(facts.getDriverVendor(), facts.getDriverRenderer(), flush=True)
engine.removeAllWindows()
"""


def open_pipe(renderer: Renderer) -> GraphicsPipe:
    """Return panda3d's pipe to the display.

    Raises `DisplayError` if there is no display, or the renderer does not work on it.
    """
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        raise no_display(renderer)  # panda3d would use the first display that exists, even another user's
    loadPrcFileData("soulslab", _CONFIG)
    chosen = renderer
    if chosen == "auto":
        driver = driver_of_display()
        chosen = "gpu" if is_hardware(driver) else "software"
        _log.info("renderer %s: the OpenGL driver is %s", chosen, driver or "missing")
    pipe = GraphicsPipeSelection.getGlobalPtr().makeModulePipe(_MODULES[chosen])
    if pipe is None or not pipe.isValid():
        raise no_display(renderer)
    return pipe


def is_hardware(driver: str) -> bool:
    """Return whether a driver with this name uses hardware; "" stands for no driver."""
    return bool(driver.strip()) and not any(name in driver.casefold() for name in _PROCESSOR_DRIVERS)


def driver_of_display() -> str:
    """Return the OpenGL vendor and renderer of the display; "" if it has no OpenGL."""
    # A separate process asks: two renderers of panda3d in one process conflict, as each has a copy of its X11 part.
    # Its output is a file: a program that it starts, as under Wine, may keep a pipe open for longer than it runs.
    with tempfile.TemporaryFile() as output:
        try:
            command = [sys.executable, "-c", _ASK]
            asked = subprocess.run(  # noqa: S603 - our own program
                command, stdout=output, stderr=subprocess.DEVNULL, timeout=ASK_DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return ""
        output.seek(0)
        return output.read().decode(errors="replace").strip() if asked.returncode == 0 else ""


def no_display(renderer: Renderer) -> DisplayError:
    """Return the error for a window that cannot be opened."""
    other = "; or draw without OpenGL: --renderer software" if renderer == "gpu" else ""
    return DisplayError(
        "there is no display to open a window on; start it from a desktop, set DISPLAY, or use a virtual display "
        f"(xvfb-run soulslab arena){other}"
    )


#: Prefix of the events that report the position of a key, regardless of the character that it types.
_PLACE_PREFIX = "raw-"
_WINDOW_EVENT = "window-event"


class Window:
    """A window with a scene, and its input events.

    ``has_focus`` is set while the window has the keyboard focus. Raises `DisplayError` if there is no display.
    """

    def __init__(self, settings: WindowSettings) -> None:
        self._engine = GraphicsEngine.getGlobalPtr()
        self._size_px = settings.size_px
        properties = WindowProperties()
        properties.setSize(*settings.size_px)
        properties.setOrigin(0, 0)
        properties.setTitle(settings.title)
        buffers = FrameBufferProperties()
        buffers.setRgbColor(True)
        buffers.setDepthBits(16)
        buffers.setBackBuffers(1)
        pipe = open_pipe(settings.renderer)
        window: Any = self._engine.makeOutput(pipe, "arena", 0, buffers, properties, GraphicsPipe.BFRequireWindow)
        if window is None:
            raise no_display(settings.renderer)
        self._window = window
        self._pipe = pipe
        self.root = NodePath("root")
        self.camera = self.root.attachNewNode(Camera("camera"))
        self._window.setClearColor((0.5, 0.55, 0.6, 1.0))
        self._window.makeDisplayRegion().setCamera(self.camera)
        self._window.setWindowEvent(_WINDOW_EVENT)
        self._input = _Input(window)
        self.has_focus = False
        self.size_px = (0, 0)
        self._engine.openWindows()
        # panda3d 1.10.16 corrupts the heap when it frees tinydisplay's state, so this reference keeps it alive.
        window.getGsg().ref()
        self._follow()
        if settings.is_fullscreen:
            self.toggle_fullscreen()

    @property
    def is_open(self) -> bool:
        """Whether the window has not been closed.

        panda3d does not detect that another program destroys the window (XDestroyWindow), which desktops do not do:
        it treats the window as minimised, and the game continues. A session does detect it (`WindowGoneError`).
        """
        return not self._window.isClosed()

    @property
    def driver(self) -> str:
        """Vendor and renderer that the driver reports."""
        facts: Any = self._window.getGsg()
        return f"{facts.getDriverVendor()} {facts.getDriverRenderer()}".strip()

    def events(self) -> list[ButtonEvent]:
        """Return the input events since the last call, without drawing."""
        # panda3d processes X events only in a frame; one without an active window draws nothing and takes 3 us.
        self._window.setActive(False)
        self._engine.renderFrame()
        self._window.setActive(True)
        found, has_changed = self._input.poll()
        if has_changed:
            self._follow()
        return found

    def pads(self) -> list[PadState]:
        """Return the positions of the sticks and triggers of each pad."""
        return self._input.pads()

    def draw(self) -> None:
        """Draw the scene."""
        self._engine.renderFrame()
        self._engine.flipFrame()

    def toggle_fullscreen(self) -> None:
        """Enter or leave full screen."""
        properties = WindowProperties()
        is_full = self._window.getProperties().getFullscreen()
        properties.setFullscreen(not is_full)
        screen_px = (self._pipe.getDisplayWidth(), self._pipe.getDisplayHeight())
        properties.setSize(*(self._size_px if is_full else screen_px))
        properties.setOrigin(0, 0)
        self._window.requestProperties(properties)

    def save_screenshot(self, folder: Path) -> Path:
        """Save the present picture to a folder, with the time as its name; return its path.

        Raises `WindowError` if it cannot be written.
        """
        path = folder / f"arena_{datetime.now():%Y-%m-%d_%H-%M-%S-%f}.png"
        if not self._window.saveScreenshot(Filename.fromOsSpecific(str(path))):
            raise WindowError(f"the screenshot cannot be written to {path}; start the game in a writable folder")
        return path

    def close(self) -> None:
        """Close the window; a second call does nothing."""
        self._engine.removeAllWindows()

    def _follow(self) -> None:
        """Update size and focus from the window's properties."""
        properties = self._window.getProperties()
        self.has_focus = properties.getForeground()
        self.size_px = (properties.getXSize(), properties.getYSize())
        if all(self.size_px):
            self.camera.node().getLens().setAspectRatio(self.size_px[0] / self.size_px[1])


class _Input:
    """Input of keyboard, mouse and pads."""

    def __init__(self, window: Any) -> None:
        self._data = NodePath("data")
        keyboard = self._data.attachNewNode(MouseAndKeyboard(window, 0, "keyboard"))
        keyboard.attachNewNode(ButtonThrower("buttons"))
        self._devices = InputDeviceManager.getGlobalPtr()
        self._pads: dict[Any, NodePath] = {}
        self._xinput = XInputPad() if sys.platform == "win32" else None
        self._xinput_pads: list[PadState] = []
        self._traverser = DataGraphTraverser()
        self._queue = EventQueue.getGlobalEventQueue()

    def poll(self) -> tuple[list[ButtonEvent], bool]:
        """Return the button events, and whether the properties of the window changed."""
        self._devices.update()
        self._find_pads()
        self._traverser.traverse(self._data.node())
        found, has_changed = [], False
        while not self._queue.isQueueEmpty():
            name = self._queue.dequeueEvent().getName()
            if name == _WINDOW_EVENT:
                has_changed = True
            elif name.startswith((_PLACE_PREFIX, PAD_PREFIX, "mouse", "wheel")):
                name = name.removeprefix(_PLACE_PREFIX)
                is_release = name.endswith("-up") and name != "-up"
                found.append(ButtonEvent(name.removesuffix("-up") if is_release else name, not is_release))
        if self._xinput is not None:
            events, self._xinput_pads = ([], []) if self._pads else self._xinput.poll()
            found += events
        return found, has_changed

    def pads(self) -> list[PadState]:
        """Return the positions of the axes of the pads."""
        axis = InputDevice.Axis
        found = [
            PadState(
                right=pad.findAxis(axis.left_x).value,
                forward=pad.findAxis(axis.left_y).value,
                left_trigger=pad.findAxis(axis.left_trigger).value,
                right_trigger=pad.findAxis(axis.right_trigger).value,
            )
            for pad in self._pads
        ]
        return found + self._xinput_pads

    def _find_pads(self) -> None:
        """Open pads that were plugged in and close pads that were removed."""
        here = set(self._devices.getDevices(InputDevice.DeviceClass.gamepad))
        for pad in here - self._pads.keys():
            node = self._data.attachNewNode(InputDeviceNode(pad, pad.name))
            thrower = ButtonThrower("pad")
            thrower.setPrefix(PAD_PREFIX)
            node.attachNewNode(thrower)
            self._pads[pad] = node
        for pad in self._pads.keys() - here:
            self._pads.pop(pad).removeNode()
