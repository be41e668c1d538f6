"""The profile of the small Windows game (``windows_game.c``), for sessions on Windows itself."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from soulslab.siphon.profile import Profile, load_profile
from soulslab.siphon.session import SessionOptions

_OF_WINE = load_profile(Path(__file__).with_name("windows_game.toml"))
_SPEED = _OF_WINE.attributes["speed"]
PROFILE: Profile = msgspec.structs.replace(
    _OF_WINE,
    process=msgspec.structs.replace(_OF_WINE.process, command=("{program}", "{loop}"), environment={}),
    # Those of the version of the game, without alternatives, and one that cannot be written, as the contract requires.
    attributes={
        **{name: one for name, one in _OF_WINE.attributes.items() if name != "weather"},
        "speed": msgspec.structs.replace(_SPEED, offsets=_SPEED.alternatives[0].offsets, alternatives=()),
        "ticks": msgspec.structs.replace(_OF_WINE.attributes["ticks"], is_writable=False),
    },
)


def start_options(loop: str = "sleep", *, clock: str = "") -> SessionOptions:
    """Return the options of a session that starts the game."""
    program = os.environ["WINDOWS_GAME"]
    return SessionOptions(launch="always", clock=clock, options={"program": program, "loop": loop})
