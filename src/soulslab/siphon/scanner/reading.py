"""Memory in which a scan looks for values."""

from __future__ import annotations

from soulslab.siphon.memory import Memory, Region


def writable_regions(memory: Memory, *, with_stacks: bool = False) -> list[Region]:
    """Return the regions that may hold a game's values: readable and writable ones.

    Values on the stack of the main thread exist only for moments; `with_stacks` includes it.
    """
    return [
        region
        for region in memory.regions()
        if region.is_readable
        and region.is_writable
        and (with_stacks or region.path != "[stack]")
        # Memory of a graphics card and similar: slow, and reading may have side effects.
        and (not region.path.startswith("/dev/") or region.path.startswith(("/dev/shm/", "/dev/zero")))  # noqa: S108
    ]
