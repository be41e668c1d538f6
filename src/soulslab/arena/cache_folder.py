"""The folder for results that are kept between runs of the program, and computed anew if they are missing."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of this user; it may not exist yet."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "soulslab"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "soulslab"
