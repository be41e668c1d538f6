"""Choice of the renderer: OpenGL with hardware support, otherwise panda3d's software renderer.

Mesa also provides OpenGL without hardware (llvmpipe), but on two cores it has half the speed of panda3d's renderer.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from panda3d.core import GraphicsPipe, GraphicsPipeSelection, loadPrcFileData

from soulslab.arena.window.settings import Renderer
from soulslab.errors import DisplayError

_log = logging.getLogger(__name__)

_MODULES = {"software": "p3tinydisplay", "gpu": "pandagl"}
#: Parts of the names of OpenGL drivers that draw on the processor.
_PROCESSOR_DRIVERS = ("llvmpipe", "softpipe", "swrast", "software rasterizer", "gdi generic", "swiftshader")
_CONFIG = "\n".join(
    (
        "audio-library-name null",
        "sync-video 0",
        "notify-level-display fatal",  # our own errors report what is wrong
        "notify-level-x11display fatal",
        "notify-level-device fatal",  # a machine without pads
        "print-pipe-types 0",
        # The camera moves in every picture, so products of two transforms do not repeat and caching them is useless.
        "transform-cache 0",
    )
)


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

    Raises:
        DisplayError: There is no display, or the renderer does not work on it.
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
    try:
        asked = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=ASK_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def no_display(renderer: Renderer) -> DisplayError:
    """Return the error for a window that cannot be opened."""
    other = "; or draw without OpenGL: --renderer software" if renderer == "gpu" else ""
    return DisplayError(
        "there is no display to open a window on; start it from a desktop, set DISPLAY, or use a virtual display "
        f"(xvfb-run soulslab arena){other}"
    )
