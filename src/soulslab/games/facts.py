"""Facts of a game outside its profile: TOML files beside it, each read into a struct and validated.

A mistake raises `ConfigError` with the file and the place: ``poses.fog_wall.position_m[2]``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from soulslab.config.checking import check
from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, did_you_mean

GAMES = Path(__file__).parent

Text = Annotated[str, Meta(min_length=1)]
Id = Annotated[int, Meta(ge=-1, le=2**32 - 1)]
"""Number that identifies an object in a game; -1 means that there is no object."""


class FactFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields that every file of facts has.

    Attributes:
        format: Version of the file format.
        source: Public sources of the facts.
    """

    format: Literal[1] = 1
    source: Text


T = TypeVar("T", bound=FactFile)


def read_facts(path: Path, kind: type[T]) -> T:
    """Read a file of facts.

    Args:
        path: The file.
        kind: Struct type of the file's content.

    Raises:
        ConfigError: The file cannot be read or is malformed; ``error.path`` is the place of the mistake.
    """

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=path)

    return check(read_toml(path), kind, error)


def read_game_facts(game: str, file: str, kind: type[T]) -> T:
    """Read a file of facts of a built-in game.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        file: File name without suffix: ``warp_points``.
        kind: Struct type of the file's content.

    Raises:
        ConfigError: The game is unknown, or does not have the file, or the file is malformed.
    """
    path = GAMES / game / f"{file}.toml"
    if path.is_file():
        return read_facts(path, kind)
    known = sorted(other.parent.name for other in GAMES.glob(f"*/{file}.toml"))
    raise ConfigError(f"{game!r} has no {file}{did_you_mean(game, known)}", source=path)


def unknown(what: str, name: str, known: Collection[str]) -> ConfigError:
    """Return the error for an unknown name, with a suggestion."""
    return ConfigError(f"unknown {what} {name!r}{did_you_mean(name, known)}")
