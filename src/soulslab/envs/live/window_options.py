"""Options of the window with the built-in fight, where an environment starts it."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

#: Seeds that were not given are drawn below this.
MAX_DRAWN_SEED = 2**31


class WindowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a window that an environment starts.

    Attributes:
        size_px: Its width and height, at least 64 x 64 and at most 1280 x 720.
        renderer: ``"software"``, ``"gpu"`` or ``"auto"``.
        launch_seed: Seed of its first fight, where it stands in for another game, which takes no seed from a reset;
            None draws one.
    """

    # The largest size is that of a private display.
    size_px: tuple[Annotated[int, Meta(ge=64, le=1280)], Annotated[int, Meta(ge=64, le=720)]] = (320, 180)
    renderer: Literal["auto", "gpu", "software"] = "software"
    launch_seed: Annotated[int, Meta(ge=0)] | None = None

    @property
    def first_seed(self) -> int:
        """`launch_seed`, or a random one: several games of one program would all fight the same fight."""
        return secrets.randbelow(MAX_DRAWN_SEED) if self.launch_seed is None else self.launch_seed

    def launch_options(self) -> dict[str, str]:
        """Return the options of the command that starts the window."""
        return {"size": f"{self.size_px[0]}x{self.size_px[1]}", "renderer": self.renderer}
