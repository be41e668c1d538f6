"""Options of the window with the built-in fight, where an environment starts it."""

from __future__ import annotations

import secrets
from typing import Any

from soulslab.envs.live.origin import OriginOptions
from soulslab.errors import EnvironmentUsageError, did_you_mean

RENDERERS = ("auto", "gpu", "software")
#: Largest width and height of the window: those of a private display.
MAX_SIZE_PX = (1280, 720)
#: The least that the window takes.
MIN_SIZE_PX = (64, 64)
#: Seeds that nobody asked for are drawn below this.
MAX_DRAWN_SEED = 2**31


class WindowOptions(OriginOptions, frozen=True, kw_only=True):
    """Options of a window that an environment starts, beside those of `OriginOptions`.

    Attributes:
        size_px: Its width and height.
        renderer: ``"software"``, ``"gpu"`` or ``"auto"``.
        launch_seed: Of its first fight, where it stands in for another game, which takes no seed from a reset; None
            draws one.
    """

    size_px: tuple[int, int] = (320, 180)
    renderer: str = "software"
    launch_seed: int | None = None

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        super().check()
        if self.renderer not in RENDERERS:
            hint = did_you_mean(str(self.renderer), RENDERERS)
            raise EnvironmentUsageError(f"renderer: unknown kind {self.renderer!r}{hint}")
        if not _is_size(self.size_px):
            raise EnvironmentUsageError(
                f"size_px must be a width and a height, from {MIN_SIZE_PX} to {MAX_SIZE_PX}, not {self.size_px!r}"
            )
        if self.launch_seed is not None and (not _is_whole(self.launch_seed) or self.launch_seed < 0):
            raise EnvironmentUsageError(f"launch_seed must be a whole number from 0 or None, not {self.launch_seed!r}")

    @property
    def first_seed(self) -> int:
        """`launch_seed`, or another one each time: several games of one program would all fight the same fight."""
        return secrets.randbelow(MAX_DRAWN_SEED) if self.launch_seed is None else self.launch_seed

    def window_options(self) -> dict[str, str]:
        """Return what says how it looks, as options of the command that starts it."""
        return {"size": f"{self.size_px[0]}x{self.size_px[1]}", "renderer": self.renderer}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(size: Any) -> bool:
    if not isinstance(size, tuple | list) or len(size) != 2:
        return False
    limits = zip(size, MIN_SIZE_PX, MAX_SIZE_PX, strict=True)
    return all(_is_whole(value) and low <= value <= high for value, low, high in limits)
