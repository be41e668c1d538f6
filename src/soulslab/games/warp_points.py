"""Warp points of a game, bonfires or sites of grace, by their names in the game."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from soulslab.games.facts import FactFile, Id, read_game_facts, unknown


class WarpPoints(FactFile, frozen=True, kw_only=True):
    """The file ``warp_points.toml`` of a game.

    Attributes:
        points: Ids by name. The ids are those that the game stores as the last rest point; they are not event flags.
    """

    points: Annotated[dict[str, Id], Meta(min_length=1)]

    def id_of(self, name: str) -> int:
        """Return the id of a warp point.

        Raises:
            ConfigError: The name is unknown; the message suggests a similar one.
        """
        if name not in self.points:
            raise unknown("warp point", name, self.points)
        return self.points[name]

    def name_of(self, number: int) -> str:
        """Return the name of the warp point with an id; ``#`` and the id if the id is unknown."""
        return next((name for name, one in self.points.items() if one == number), f"#{number}")


def load_warp_points(game: str) -> WarpPoints:
    """Read the warp points of a game.

    Raises:
        ConfigError: The game has no such file, or the file is malformed.
    """
    return read_game_facts(game, "warp_points", WarpPoints)
