"""Capture of the game's window: one Protocol, one module per backend, one fake."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray


class FrameFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Format of a frame: one grey channel, or RGB; width and height are both 0 for the window's own."""

    width_px: int = 0
    height_px: int = 0
    is_grey: bool = False


NATIVE = FrameFormat()
"""RGB, as large as the window."""


class Capture(Protocol):
    """Captures one window.

    `backend` is ``framebuffer``, ``shm`` or ``composite`` (X11), ``wgc``, ``dxgi`` or ``gdi`` (Windows), or ``fake``.
    """

    backend: str

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the window's inner area. Raises `WindowGoneError`."""

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """Capture the window as it is now: (H, W, 3) RGB or (H, W) grey, uint8; a new array.

        Raises `WindowGoneError` if the window was closed or unmapped; no frame is made up.
        """

    def close(self) -> None:
        """Release the window; a second call does nothing."""
