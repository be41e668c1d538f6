"""Pictures of the game's window: one Protocol, one file per way of getting them, one fake."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray


class FrameFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a frame is to look like.

    Attributes:
        width_px: Its width; 0 for the window's own.
        height_px: Its height; 0 for the window's own. Either both are 0 or none.
        is_grey: One channel instead of RGB.
    """

    width_px: int = 0
    height_px: int = 0
    is_grey: bool = False


NATIVE = FrameFormat()
"""RGB, as large as the window."""


class Capture(Protocol):
    """What takes pictures of one window.

    Attributes:
        backend: How: ``framebuffer``, ``shm``, ``composite``, ``fake``.
    """

    backend: str

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the window's inside. Raises `WindowGoneError`."""
        ...

    def grab(self, frame_format: FrameFormat) -> NDArray[np.uint8]:
        """Take a picture of the window as it is now.

        Args:
            frame_format: Its size and colours.

        Returns:
            (H, W, 3) RGB or (H, W) grey, uint8; an array of its own.

        Raises:
            WindowGoneError: The window was closed or unmapped. No picture is ever made up.
        """
        ...

    def close(self) -> None:
        """Let go of the window; a second call does nothing."""
        ...
