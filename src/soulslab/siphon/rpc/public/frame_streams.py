"""Frame streams at a fixed rate, until the client disconnects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from soulslab.errors import SiphonError
from soulslab.siphon.rpc.access import LimitedCalls
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2
from soulslab.siphon.rpc.public.call_handlers import gone_event
from soulslab.siphon.session import Frame

DEFAULT_QUALITY = 85
MAX_STREAMS = 8


def stream_frames(
    request: pb2.StreamFramesRequest,
    capture: Callable[[], Frame],
    rate_hz: float,
    streams: LimitedCalls,
    context: Any,
) -> Iterator[pb2.FrameData]:
    """Yield frames at a rate until the call ends. Raises `SiphonError` for an invalid request or if the window is gone.

    A client that stops a stalled stream (as pysiphon does) leaves it open until its connection ends, and each stream
    occupies a thread. Therefore `streams` limits their number; one more ends the stream that has been stalled longest.
    """
    gone = gone_event(context)
    kind, quality = _checked(request)
    with streams.entered(context) as mark_active:
        due_s, number = time.perf_counter(), 0
        while not gone.wait(max(0.0, due_s - time.perf_counter())):
            number += 1
            yield _frame_data(capture(), kind, quality, number)
            mark_active()
            # Late frames are skipped.
            due_s = max(due_s + 1.0 / rate_hz, time.perf_counter())


def bgra_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a frame as raw BGRA, row by row from the top."""
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2BGRA).tobytes()


def _checked(request: pb2.StreamFramesRequest) -> tuple[str, int]:
    kind, quality = request.format or "jpeg", request.quality or DEFAULT_QUALITY
    if kind not in ("jpeg", "raw"):
        raise SiphonError(f"the format is {kind[:64]!r}; it is 'jpeg' or 'raw'")
    if not 1 <= quality <= 100:
        raise SiphonError(f"the quality is {quality}; it is 1 to 100, or 0 for {DEFAULT_QUALITY}")
    return kind, quality


def _frame_data(frame: Frame, kind: str, quality: int, number: int) -> pb2.FrameData:
    pixels = np.ascontiguousarray(frame.pixels)
    height, width = pixels.shape[:2]
    if kind == "raw":
        data = bgra_of(pixels)
    else:
        data = bytes(simplejpeg.encode_jpeg(pixels, quality=quality, colorspace="RGB", colorsubsampling="420"))
    return pb2.FrameData(
        data=data,
        timestamp_us=int(frame.wall_time_s * 1e6),
        width=width,
        height=height,
        frame_number=number % 2**31,
        format=kind,
    )
