"""Doom, as Debian ships it: Chocolate Doom with Freedoom's game data. What is known of it is in ``profile.toml``."""

from __future__ import annotations

from pathlib import Path

PROFILE_PATH = Path(__file__).parent / "profile.toml"

#: Game data that has maps 1 to 32 instead of episodes with nine maps each.
PHASE_2_IWADS = ("freedoom2", "doom2", "tnt", "plutonia")
N_EPISODES = 4
N_MAPS = 9
N_PHASE_2_MAPS = 32
N_SKILLS = 5


def n_maps(iwad: str) -> int:
    """Return how many maps an episode has, or all of phase 2."""
    return N_PHASE_2_MAPS if iwad in PHASE_2_IWADS else N_MAPS


def launch_options(iwad: str, episode: int, level: int, skill: int) -> dict[str, str]:
    """Return the options of the profile's command that start a level: ``-warp`` takes one number in phase 2."""
    first = level if iwad in PHASE_2_IWADS else episode
    return {"iwad": iwad, "episode": str(first), "map": str(level), "skill": str(skill)}
