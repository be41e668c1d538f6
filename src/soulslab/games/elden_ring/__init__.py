"""Elden Ring: what is known of it is in ``profile.toml``, second-hand and not checked on a running game."""

from __future__ import annotations

from pathlib import Path

from soulslab.games.elden_ring.game import EldenRing

PROFILE_PATH = Path(__file__).parent / "profile.toml"

__all__ = ["PROFILE_PATH", "EldenRing"]
