"""What draws: OpenGL where hardware does it, panda3d's software renderer elsewhere.

Mesa draws OpenGL without hardware too (llvmpipe), but on two cores at half the speed of panda3d's software renderer.
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
#: What Mesa and Windows call OpenGL that a processor draws.
_PROCESSOR_DRIVERS = ("llvmpipe", "softpipe", "swrast", "software rasterizer", "gdi generic", "swiftshader")
_CONFIG = "\n".join(
    (
        "audio-library-name null",
        "sync-video 0",
        "notify-level-display fatal",  # what goes wrong is told by an error of ours
        "notify-level-x11display fatal",
        "notify-level-device fatal",  # a machine without pads
        "print-pipe-types 0",
        # The camera moves in every picture, so that no product of two places comes again to be looked up.
        "transform-cache 0",
    )
)


#: A driver that takes longer to say its name is not taken.
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
    """Return panda3d's way to the screen.

    Raises:
        DisplayError: There is no display to open a window on, or it cannot draw so.
    """
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        raise no_display(renderer)  # panda3d would take the first display that there is, whoever's it may be
    loadPrcFileData("soulslab", _CONFIG)
    chosen = renderer
    if chosen == "auto":
        driver = driver_of_display()
        chosen = "gpu" if is_hardware(driver) else "software"
        _log.info("renderer %s: OpenGL is drawn by %s", chosen, driver or "nothing here")
    pipe = GraphicsPipeSelection.getGlobalPtr().makeModulePipe(_MODULES[chosen])
    if pipe is None or not pipe.isValid():
        raise no_display(renderer)
    return pipe


def is_hardware(driver: str) -> bool:
    """Tell whether a driver of this name draws with hardware; "" is none at all."""
    return bool(driver.strip()) and not any(name in driver.casefold() for name in _PROCESSOR_DRIVERS)


def driver_of_display() -> str:
    """Return the vendor and the renderer that OpenGL names on the display; "" if it cannot draw there."""
    # Another process asks: panda3d's renderers each hold their own copy of its X11 part and get into each other's way.
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
        "there is no display to open a window on; start it from a desktop, or set DISPLAY, or give it a display that "
        f"nobody sees (xvfb-run soulslab arena){other}"
    )
