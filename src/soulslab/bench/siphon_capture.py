"""How long a picture of a window takes: each way of taking one, two sizes, as RGB and as an agent's 84x84 grey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

import msgspec
import numpy as np
import xcffib.xproto
from numpy.typing import NDArray

from soulslab.bench.result import Result, Row
from soulslab.bench.timing import interleaved, ms_per_call
from soulslab.errors import SiphonError
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.capture.window_capture import WindowCapture, open_capture
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window
from soulslab.siphon.process.x11 import XConnection

SIZES_PX = ((640, 400), (1280, 720))
GREY = FrameFormat(84, 84, is_grey=True)
COVER_PX = 100
#: Rows of a picture that fit into one request to the server.
PART_BYTES = 200_000
FRAMEBUFFER = "framebuffer of a private display"
SHM = "MIT-SHM"
COVERED = "XComposite, the window is covered"
WIRE = "GetImage over the socket (xcffib alone)"


class CaptureBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        n_frames: Pictures per measurement.
        n_rounds: Measurements of each way; the table shows their median.
    """

    n_frames: int = 50
    n_rounds: int = 9

    @classmethod
    def quick(cls) -> CaptureBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_frames=10, n_rounds=3)


def measure_capture(settings: CaptureBenchSettings) -> Result:
    """Measure the time per picture of each way, and of the usual one for comparison."""
    rows = [row for size_px in SIZES_PX for row in _measure(size_px, settings)]
    return Result(title=f"Pictures of a window, ms per frame, median of {settings.n_rounds}", rows=rows)


def _measure(size_px: tuple[int, int], settings: CaptureBenchSettings) -> list[Row]:
    """Return the rows of one size of window."""
    with ExitStack() as stack:
        shown = {name: stack.enter_context(_shown_window(size_px, name)) for name in (FRAMEBUFFER, SHM, COVERED)}
        actions: dict[tuple[str, str], Callable[[], object]] = {}
        for name, (capture, _) in shown.items():
            actions[name, "RGB"] = partial(capture.grab, NATIVE)
            actions[name, "grey"] = partial(capture.grab, GREY)
        actions[WIRE, "RGB"] = partial(_get_image, shown[SHM][1], size_px)
        timed = {key: partial(ms_per_call, action, settings.n_frames) for key, action in actions.items()}
        measured = {key: median(found) for key, found in interleaved(timed, settings.n_rounds).items()}
    return [
        {
            "window": f"{size_px[0]}x{size_px[1]}",
            "way": name,
            "RGB (ms)": measured[name, "RGB"],
            "84x84 grey (ms)": measured.get((name, "grey")),
            "RGB, of the socket's time": measured[name, "RGB"] / measured[WIRE, "RGB"],
        }
        for name in (*shown, WIRE)
    ]


@contextmanager
def _shown_window(size_px: tuple[int, int], way: str) -> Iterator[tuple[WindowCapture, Window]]:
    """Show a window with known pixels on a display of its own, open the capture for a way and check what it sees."""
    with ExitStack() as stack:
        display = stack.enter_context(PrivateDisplay((1280, 720)))
        painter, watcher = XConnection(display.name), XConnection(display.name)
        stack.callback(painter.close)
        stack.callback(watcher.close)
        pixels = np.random.default_rng(0).integers(0, 256, (size_px[1], size_px[0], 3), dtype=np.uint8)
        window = Window(watcher, _open_window(painter, size_px))
        capture = open_capture(window, display if way == FRAMEBUFFER else None)
        stack.callback(capture.close)
        _paint(painter, window.id, pixels)
        if way == COVERED:
            _open_window(painter, (COVER_PX, COVER_PX))
        if not np.array_equal(capture.grab(NATIVE), pixels):
            raise SiphonError(f"{way}: the picture is not what was painted")
        yield capture, window


def _open_window(painter: XConnection, size_px: tuple[int, int]) -> int:
    """Open a window in the corner of the screen, over those that are there."""
    with painter.using("open a window"):
        window = int(painter.raw.generate_id())
        kind, visual = xcffib.xproto.WindowClass.InputOutput, xcffib.CopyFromParent
        place = (0, 0, *size_px, 0)
        painter.core.CreateWindow(
            painter.root_depth, window, painter.root, *place, kind, visual, 0, [], is_checked=True
        ).check()
        painter.core.MapWindow(window, is_checked=True).check()
    return window


def _paint(painter: XConnection, window: int, pixels: NDArray[np.uint8]) -> None:
    """Put a picture into a window."""
    height, width = pixels.shape[:2]
    bgrx = np.zeros((height, width, 4), np.uint8)
    bgrx[..., :3] = pixels[..., ::-1]
    n_rows = PART_BYTES // (width * 4)
    with painter.using("paint", window):
        context = painter.raw.generate_id()
        painter.core.CreateGC(context, window, 0, [], is_checked=True).check()
        for top in range(0, height, n_rows):
            data = bgrx[top : top + n_rows].tobytes()
            place = (width, len(data) // (width * 4), 0, top, 0, painter.root_depth, len(data), data)
            image_format = xcffib.xproto.ImageFormat.ZPixmap
            painter.core.PutImage(image_format, window, context, *place, is_checked=True).check()


def _get_image(window: Window, size_px: tuple[int, int]) -> NDArray[np.uint8]:
    """Take a picture as a plain X client does."""
    with window.x.using("take a picture", window.id):
        image_format = xcffib.xproto.ImageFormat.ZPixmap
        reply = window.x.core.GetImage(image_format, window.id, 0, 0, *size_px, 0xFFFFFFFF).reply()
        return np.frombuffer(bytes(reply.data.raw), np.uint8)
