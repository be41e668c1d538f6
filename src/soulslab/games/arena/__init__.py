"""The built-in fight as a game (`soulslab arena`), and as a stand-in for any other game that has a ``[duel]`` table.

As a stand-in it lays its memory out as that game's profile says, so that whatever is written for the real game (its
profile, unchanged) runs against the built-in fight.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from soulslab.siphon.profile import ClockFacts, Profile, load_profile

PROFILE_PATH = Path(__file__).parent / "profile.toml"
#: Pauses a stand-in; no game of the kind has a use for it.
PAUSE_KEY = "F10"


def stand_in(path: Path) -> Profile:
    """Return the profile of a game, but that the built-in fight is started in its place.

    Args:
        path: The game's own profile; its memory, names and keys stay as they are.

    Raises:
        ProfileError: The profile is malformed.
    """
    profile, own = load_profile(path), load_profile(PROFILE_PATH)
    process = msgspec.structs.replace(
        profile.process,
        # Esc opens the menu of the game that it stands in for, and whoever presses it there pauses nothing.
        command=(*own.process.command, "--mask", str(path.resolve()), "--key", f"pause={PAUSE_KEY}"),
        environment=own.process.environment,
        directory="",
        options=own.process.options,
    )
    bound = (profile.duel or {}).get("attributes", {})
    clock: ClockFacts = msgspec.structs.replace(
        own.clock,
        tick_attribute=bound.get("game.tick", ""),
        speed_attribute=bound.get("game.speed", ""),
        game_time_attribute="",
    )
    return msgspec.structs.replace(profile, process=process, clock=clock)
