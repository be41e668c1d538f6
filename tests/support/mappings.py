"""Files that are mapped into this process."""

from __future__ import annotations

from pathlib import Path


def mapped_bytes(path: Path) -> int:
    """Return the number of bytes of a file, or of a deleted file of this name, that this process has mapped (Linux)."""
    n_bytes = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, *_, name = line.split(maxsplit=5)
        if name.removesuffix(" (deleted)") == str(path):
            start, end = (int(address, 16) for address in addresses.split("-"))
            n_bytes += end - start
    return n_bytes
