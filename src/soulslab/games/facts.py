"""Facts of a game that belong to no profile: TOML files beside it, each read into a struct and checked.

A mistake is a `ConfigError` that names its file and its place: ``poses.fog_wall.position_m[2]``.
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
"""What games number things by; -1 is none."""


class FactFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every file of facts has.

    Attributes:
        format: Version of the file's format.
        source: Where its facts come from.
    """

    format: Literal[1] = 1
    source: Text


T = TypeVar("T", bound=FactFile)


def read_facts(path: Path, kind: type[T]) -> T:
    """Read a file of facts.

    Args:
        path: The file.
        kind: What it holds.

    Raises:
        ConfigError: It cannot be read or is malformed; ``error.path`` says where.
    """

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=path)

    return check(read_toml(path), kind, error)


def facts_of(game: str, file: str, kind: type[T]) -> T:
    """Read a file of facts of a game that comes with soulslab.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        file: Its name without the ending: ``warp_points``.
        kind: What it holds.

    Raises:
        ConfigError: There is no such game, or it has no such file, or that is malformed.
    """
    path = GAMES / game / f"{file}.toml"
    if path.is_file():
        return read_facts(path, kind)
    known = sorted(other.parent.name for other in GAMES.glob(f"*/{file}.toml"))
    raise ConfigError(f"{game!r} has no {file}{did_you_mean(game, known)}", source=path)


def unknown(what: str, name: str, known: Collection[str]) -> ConfigError:
    """Return the error for a name that a file does not have."""
    return ConfigError(f"there is no {what} {name!r}{did_you_mean(name, known)}")
