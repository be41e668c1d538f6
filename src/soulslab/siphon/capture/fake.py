"""Pictures of a game that is a function: for tests."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from soulslab.errors import WindowGoneError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.capture.pixels import convert


class FakeCapture:
    """Pictures that a function paints (`soulslab.siphon.capture.Capture`).

    Args:
        paint: Returns the picture as it is now: (H, W, 3) RGB, uint8; raises WindowGoneError if there is none.
        size_px: Returns its width and height without painting it, likewise; None paints it.

    Attributes:
        backend: ``fake``.
    """

    backend = "fake"

    def __init__(
        self, paint: Callable[[], NDArray[np.uint8]], size_px: Callable[[], tuple[int, int]] | None = None
    ) -> None:
        self._paint: Callable[[], NDArray[np.uint8]] | None = paint
        self._size_px = size_px

    @property
    def size_px(self) -> tuple[int, int]:
        """See `Capture.size_px`."""
        if self._size_px is None or self._paint is None:
            height, width = self._painted().shape[:2]
            return width, height
        return self._size_px()

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """See `Capture.grab`."""
        bgrx = np.asarray(cv2.cvtColor(self._painted(), cv2.COLOR_RGB2BGRA), np.uint8)
        return convert(bgrx, frame_format)

    def close(self) -> None:
        """See `Capture.close`."""
        self._paint = None

    def _painted(self) -> NDArray[np.uint8]:
        if self._paint is None:
            raise WindowGoneError("this capture was closed")
        return self._paint()
