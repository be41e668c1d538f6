"""The pixels of a private display, read from the file that its server draws into."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from soulslab.errors import DisplayError

# <X11/XWDFile.h>: 25 big-endian 32-bit numbers; these are the places of those that matter.
HEADER = struct.Struct(">25I")
HEADER_SIZE, VERSION, HEIGHT, WIDTH = 0, 1, 5, 4
BYTE_ORDER, BITS_PER_PIXEL, BYTES_PER_LINE, N_COLOURS = 7, 11, 12, 19
XWD_VERSION = 7
COLOUR_BYTES = 12


class Framebuffer:
    """A mapped XWD file of Xvfb (``-fbdir``), 32 bits per pixel.

    Args:
        path: The file.

    Raises:
        DisplayError: It is not of this format.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = HEADER.unpack_from(mapped)
        known = (header[VERSION], header[BYTE_ORDER], header[BITS_PER_PIXEL]) == (XWD_VERSION, 0, 32)
        start, stride = header[HEADER_SIZE] + header[N_COLOURS] * COLOUR_BYTES, header[BYTES_PER_LINE]
        if not known or start + header[HEIGHT] * stride > len(mapped):
            mapped.close()
            raise DisplayError(f"{path} is no XWD file of 32 little-endian bits per pixel; is this Xvfb's own?")
        rows = np.frombuffer(mapped, np.uint8, header[HEIGHT] * stride, start)
        pixels = rows.reshape(header[HEIGHT], stride // 4, 4)
        self._pixels: NDArray[np.uint8] | None = pixels[:, : header[WIDTH]]

    def read(self, left_px: int, top_px: int, width_px: int, height_px: int) -> NDArray[np.uint8]:
        """Return a part of the screen: (H, W, 4) uint8, BGRX, the file itself, so it changes with the screen."""
        if self._pixels is None:
            raise DisplayError("the framebuffer of the private display was closed")
        return self._pixels[top_px : top_px + height_px, left_px : left_px + width_px]

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        # The map goes with the last array over it.
        self._pixels = None
