"""Memory in which a scan looks for values."""

from __future__ import annotations

from soulslab.siphon.memory import Memory, Region


def writable_regions(memory: Memory) -> list[Region]:
    """Return the regions that may hold a game's values: readable and writable ones."""
    return [
        region
        for region in memory.regions()
        if region.is_readable
        and region.is_writable
        and region.path != "[stack]"  # its values exist only for moments
        # Memory of a graphics card and similar: slow, and reading may have side effects.
        and (not region.path.startswith("/dev/") or region.path.startswith(("/dev/shm/", "/dev/zero")))  # noqa: S108
    ]
