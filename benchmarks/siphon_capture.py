"""Time to capture a frame of a window with each method, for two sizes, as RGB and as 84x84 greyscale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

import msgspec
import numpy as np
import xcffib.xproto
from numpy.typing import NDArray

from benchmarks.result import Result, Row
from benchmarks.timing import interleaved, ms_per_call
from soulslab.errors import SiphonError
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.capture.window_capture import WindowCapture
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window
from soulslab.siphon.process.x11 import XConnection

SIZES_PX = ((640, 400), (1280, 720))
GREY = FrameFormat(84, 84, is_grey=True)
COVER_PX = 100
#: Maximum size of the pixels in one request to the X server.
PART_BYTES = 200_000
FRAMEBUFFER = "framebuffer of a private display"
SHM = "MIT-SHM"
COVERED = "XComposite, the window is covered"
WIRE = "GetImage over the socket (xcffib alone)"


class CaptureBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_frames: Frames per measurement.
        n_rounds: Number of measurements; the table contains their median.
    """

    n_frames: int = 50
    n_rounds: int = 9

    @classmethod
    def quick(cls) -> CaptureBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_frames=10, n_rounds=3)


def measure_capture(settings: CaptureBenchSettings) -> Result:
    """Measure the time per frame of each method, and of GetImage for comparison."""
    rows = [row for size_px in SIZES_PX for row in _measure(size_px, settings)]
    return Result(title=f"Pictures of a window, ms per frame, median of {settings.n_rounds}", rows=rows)


def _measure(size_px: tuple[int, int], settings: CaptureBenchSettings) -> list[Row]:
    """Return the rows for one window size."""
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
    """Show a window with known pixels on a private display, open a capture method, and check its frame."""
    with ExitStack() as stack:
        display = stack.enter_context(PrivateDisplay((1280, 720)))
        painter, watcher = XConnection(display.name), XConnection(display.name)
        stack.callback(painter.close)
        stack.callback(watcher.close)
        pixels = np.random.default_rng(0).integers(0, 256, (size_px[1], size_px[0], 3), dtype=np.uint8)
        window = Window(watcher, _open_window(painter, size_px))
        capture = WindowCapture(window, display if way == FRAMEBUFFER else None)
        stack.callback(capture.close)
        _paint(painter, window.id, pixels)
        if way == COVERED:
            _open_window(painter, (COVER_PX, COVER_PX))
        if not np.array_equal(capture.grab(NATIVE), pixels):
            raise SiphonError(f"{way}: the frame differs from the painted pixels")
        yield capture, window


def _open_window(painter: XConnection, size_px: tuple[int, int]) -> int:
    """Open a window in the corner of the screen, above the other windows."""
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
    """Paint pixels into a window."""
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
    """Capture a frame as a plain X client does."""
    with window.x.using("take a picture", window.id):
        image_format = xcffib.xproto.ImageFormat.ZPixmap
        reply = window.x.core.GetImage(image_format, window.id, 0, 0, *size_px, 0xFFFFFFFF).reply()
        return np.frombuffer(bytes(reply.data.raw), np.uint8)
