"""Elden Ring. The facts are in ``profile.toml``, from public sources and not checked on a running game."""

from __future__ import annotations

from pathlib import Path

from soulslab.games.elden_ring.game import EldenRing

PROFILE_PATH = Path(__file__).parent / "profile.toml"

__all__ = ["PROFILE_PATH", "EldenRing"]
