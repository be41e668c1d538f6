"""Doom as packaged in Debian: Chocolate Doom with the game data of Freedoom. The facts are in ``profile.toml``."""

from __future__ import annotations

from pathlib import Path

PROFILE_PATH = Path(__file__).parent / "profile.toml"

#: Game data with maps 1 to 32 instead of episodes with nine maps each.
PHASE_2_IWADS = ("freedoom2", "doom2", "tnt", "plutonia")
N_EPISODES = 4
N_MAPS = 9
N_PHASE_2_MAPS = 32
N_SKILLS = 5


def n_maps(iwad: str) -> int:
    """Return the number of maps of an episode, or of all of phase 2."""
    return N_PHASE_2_MAPS if iwad in PHASE_2_IWADS else N_MAPS


def launch_options(iwad: str, episode: int, level: int, skill: int) -> dict[str, str]:
    """Return the command options of the profile that start a level; in phase 2, ``-warp`` takes one number."""
    first = level if iwad in PHASE_2_IWADS else episode
    return {"iwad": iwad, "episode": str(first), "map": str(level), "skill": str(skill)}
