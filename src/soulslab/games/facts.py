"""Facts of a game outside its profile: TOML files beside it, each read into a struct and validated.

A mistake raises `ConfigError` with the file and the place: ``poses.fog_wall.position_m[2]``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from soulslab.config.loading import load_settings
from soulslab.errors import ConfigError, did_you_mean

GAMES = Path(__file__).parent

Text = Annotated[str, Meta(min_length=1)]
Id = Annotated[int, Meta(ge=-1, le=2**32 - 1)]
"""Number that identifies an object in a game; -1 means no object."""


class FactFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields that every file of facts has: the version of its format, and its public sources."""

    format: Literal[1] = 1
    source: Text


F = TypeVar("F", bound=FactFile)
T = TypeVar("T")


def read_game_facts(game: str, file: str, kind: type[F]) -> F:
    """Read the file ``{file}.toml`` of a built-in game; raises `ConfigError` also if the game is unknown."""
    path = GAMES / game / f"{file}.toml"
    if path.is_file():
        return load_settings(kind, path)
    known = sorted(other.parent.name for other in GAMES.glob(f"*/{file}.toml"))
    raise ConfigError(f"{game!r} has no {file}{did_you_mean(game, known)}", source=path)


def unknown(what: str, name: str, known: Collection[str]) -> ConfigError:
    """Return the error for an unknown name, with a suggestion."""
    return ConfigError(f"unknown {what} {name!r}{did_you_mean(name, known)}")


def find_fact(what: str, name: str, facts: Mapping[str, T]) -> T:
    """Return the fact with a name; raises `ConfigError` if there is none."""
    if name not in facts:
        raise unknown(what, name, facts)
    return facts[name]


class WarpPoints(FactFile, frozen=True, kw_only=True):
    """The file ``warp_points.toml``: bonfires or sites of grace, by their names in the game.

    The game stores their ids as the last rest point; they are not event flags.
    """

    points: Annotated[dict[str, Id], Meta(min_length=1)]

    def id_of(self, name: str) -> int:
        """Return the id of a warp point; raises `ConfigError` if the name is unknown."""
        return find_fact("warp point", name, self.points)

    def name_of(self, number: int) -> str:
        """Return the name of the warp point with an id; ``#`` and the id if the id is unknown."""
        return next((name for name, one in self.points.items() if one == number), f"#{number}")


@cache  # environments need them at each start
def load_warp_points(game: str) -> WarpPoints:
    """Read the warp points of a game; raises the errors of `read_game_facts`."""
    return read_game_facts(game, "warp_points", WarpPoints)


class EventFlags(FactFile, frozen=True, kw_only=True):
    """The file ``event_flags.toml``: numbers of event flags.

    They are set when a boss is defeated, and when a bonfire or site of grace is found.
    """

    defeated: Annotated[dict[str, Id], Meta(min_length=1)]
    rested: dict[str, Id] = msgspec.field(default_factory=dict)

    def defeat_of(self, boss: str) -> int:
        """Return the number of the flag for the defeat of a boss; raises `ConfigError` if there is none."""
        return find_fact("flag for the defeat of", boss, self.defeated)


@cache
def load_event_flags(game: str) -> EventFlags:
    """Read the event flags of a game; raises the errors of `read_game_facts`."""
    return read_game_facts(game, "event_flags", EventFlags)
