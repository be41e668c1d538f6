"""Conversion of the pixels of an X server to the requested format, with as few copies as possible."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from soulslab.siphon.capture import FrameFormat


def convert(bgrx: NDArray[np.uint8], frame_format: FrameFormat) -> NDArray[np.uint8]:
    """Return a frame in a format as a new array: (H, W, 3) RGB or (H, W) grey, uint8.

    Grey is computed before scaling, because that leaves one of four channels; RGB after scaling, because that leaves
    fewer pixels. Both equal the result of OpenCV for the whole RGB image.

    `bgrx` is (H, W, 4) uint8; rows need not be contiguous, as in a part of a larger image.
    """
    size = (frame_format.width_px, frame_format.height_px)
    height, width = bgrx.shape[:2]
    if size in ((0, 0), (width, height)):
        return _colours(bgrx, frame_format.is_grey)
    is_smaller = size[0] <= width and size[1] <= height
    # INTER_AREA averages the pixels that fall into one, so it is used only to shrink.
    method = cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
    if frame_format.is_grey:
        return np.asarray(cv2.resize(_colours(bgrx, is_grey=True), size, interpolation=method), np.uint8)
    return _colours(np.asarray(cv2.resize(bgrx, size, interpolation=method), np.uint8), is_grey=False)


def _colours(bgrx: NDArray[np.uint8], is_grey: bool) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(bgrx, cv2.COLOR_BGRA2GRAY if is_grey else cv2.COLOR_BGRA2RGB), np.uint8)
