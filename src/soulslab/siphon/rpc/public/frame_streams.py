"""Frame streams at a fixed rate, until the client disconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from soulslab.errors import SiphonError
from soulslab.siphon.rpc.access import LimitedCalls
from soulslab.siphon.rpc.public import siphon_service_pb2 as messages
from soulslab.siphon.session import Frame

DEFAULT_QUALITY = 85
MAX_STREAMS = 8


class FrameStreams:
    """All frame streams of a server, each of at most `rate_hz` frames per second.

    A client that stops a stalled stream (as pysiphon does) leaves it open until its connection ends, and each stream
    occupies a thread. Therefore their number is limited to `MAX_STREAMS`; one more ends the stream that has been
    stalled longest.
    """

    def __init__(self, capture: Callable[[], Frame], rate_hz: float) -> None:
        self._capture = capture
        self._period_s = 1.0 / rate_hz
        self._open = LimitedCalls(MAX_STREAMS)

    def __len__(self) -> int:
        return len(self._open)

    def frames(
        self, request: messages.StreamFramesRequest, context: Any, gone: threading.Event
    ) -> Iterator[messages.FrameData]:
        """Yield frames until `gone` is set. Raises `SiphonError` if the request is not valid, or the window is gone."""
        kind, quality = _checked(request)
        with self._open.entered(context) as mark_active:
            due_s, number = time.perf_counter(), 0
            while not gone.wait(max(0.0, due_s - time.perf_counter())):
                number += 1
                yield _frame_data(self._capture(), kind, quality, number)
                mark_active()
                # Late frames are skipped.
                due_s = max(due_s + self._period_s, time.perf_counter())


def bgra_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a frame as raw BGRA, row by row from the top."""
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2BGRA).tobytes()


def _checked(request: messages.StreamFramesRequest) -> tuple[str, int]:
    kind, quality = request.format or "jpeg", request.quality or DEFAULT_QUALITY
    if kind not in ("jpeg", "raw"):
        raise SiphonError(f"the format is {kind[:64]!r}; it is 'jpeg' or 'raw'")
    if not 1 <= quality <= 100:
        raise SiphonError(f"the quality is {quality}; it is 1 to 100, or 0 for {DEFAULT_QUALITY}")
    return kind, quality


def _frame_data(frame: Frame, kind: str, quality: int, number: int) -> messages.FrameData:
    height, width = frame.pixels.shape[:2]
    data = bgra_of(frame.pixels) if kind == "raw" else _jpeg_of(frame.pixels, quality)
    return messages.FrameData(
        data=data,
        timestamp_us=int(frame.wall_time_s * 1e6),
        width=width,
        height=height,
        frame_number=number % 2**31,
        format=kind,
    )


def _jpeg_of(pixels: NDArray[np.uint8], quality: int) -> bytes:
    pixels = np.ascontiguousarray(pixels)
    return bytes(simplejpeg.encode_jpeg(pixels, quality=quality, colorspace="RGB", colorsubsampling="420"))
