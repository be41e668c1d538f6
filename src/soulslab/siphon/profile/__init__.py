"""Profiles: the description of a game as data, with schema, loading and validation.

::

    profile = load_profile(Path("my_game.toml"))
    profile.attributes["player.hp"].range   # (0.0, 1500.0)
"""

from soulslab.siphon.profile.loading import load_profile
from soulslab.siphon.profile.schema import (
    NUMBER_CODES,
    Alternative,
    Attribute,
    Base,
    ClockFacts,
    ClockGrade,
    CodeOffset,
    Entity,
    ListPlace,
    NumberType,
    Process,
    Profile,
    Value,
    ValueType,
)

__all__ = [
    "NUMBER_CODES",
    "Alternative",
    "Attribute",
    "Base",
    "ClockFacts",
    "ClockGrade",
    "CodeOffset",
    "Entity",
    "ListPlace",
    "NumberType",
    "Process",
    "Profile",
    "Value",
    "ValueType",
    "load_profile",
]
