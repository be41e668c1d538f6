"""Dark Souls III. The facts are in ``profile.toml``, from public sources and not checked on a running game."""

from __future__ import annotations

from pathlib import Path

from soulslab.games.dark_souls_3.game import DarkSouls3

PROFILE_PATH = Path(__file__).parent / "profile.toml"

__all__ = ["PROFILE_PATH", "DarkSouls3"]
