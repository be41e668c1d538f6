"""Profiles of a game whose stand-in window begins the fight of a seed, as the built-in fight does.

The memory layout is that of the game. The number of the fight, its tick, the seed of the next one and the stage are in
one more object, and one more key begins the next fight. Health and stamina, which the game rounds, are floats at the
same places, so that observations are those of the simulator.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from soulslab.games import profile_path
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.profile import Profile, load_profile

QUANTITIES = ("fight.number", "fight.tick", "fight.next_seed", "game.tick", "game.stage")
ROUNDED = ("player.hp", "player.sp", "boss.hp")
RESTART_KEY = "F9"


def seeded_profile(game: str) -> Profile:
    """Return the profile of a shipped game with the attributes and the key of seeded fights."""
    profile, own = load_profile(profile_path(Path(game))), load_profile(PROFILE_PATH)
    added = {
        f"seeded.{name}": msgspec.structs.replace(own.attributes[own.duel["attributes"][name]], base="seeded")
        for name in QUANTITIES
    }
    bound = profile.duel["attributes"]
    exact = {bound[name]: msgspec.structs.replace(profile.attributes[bound[name]], type="f32") for name in ROUNDED}
    bound = bound | {name: f"seeded.{name}" for name in QUANTITIES}
    return msgspec.structs.replace(
        profile,
        bases={**profile.bases, "seeded": own.bases["game"]},
        attributes={**profile.attributes, **exact, **added},
        keys={**profile.keys, "restart": RESTART_KEY},
        duel={**profile.duel, "attributes": bound},
    )
