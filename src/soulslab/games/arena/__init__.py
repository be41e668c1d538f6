"""The built-in fight as a game (`soulslab arena`), and as a stand-in for any other game with a ``[duel]`` table.

The stand-in uses the memory layout of that game's profile, so code for the real game, including its unchanged profile,
runs against the built-in fight.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from soulslab.siphon.profile import ClockFacts, Profile, load_profile

PROFILE_PATH = Path(__file__).parent / "profile.toml"
#: Key that pauses a stand-in; no supported game uses it.
PAUSE_KEY = "F10"


def stand_in(path: Path) -> Profile:
    """Return the profile of a game, changed so that the built-in fight is started instead of the game.

    The memory layout, names and keys of the profile are kept. Raises `ProfileError` if the profile is malformed.
    """
    profile, own = load_profile(path), load_profile(PROFILE_PATH)
    process = msgspec.structs.replace(
        profile.process,
        # In the real game Esc opens the menu, so it must not pause the stand-in.
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
