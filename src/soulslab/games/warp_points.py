"""Where a game can be told to warp to: bonfires and sites of grace, by the names that players know them by."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from soulslab.games.facts import FactFile, Id, facts_of, unknown


class WarpPoints(FactFile, frozen=True, kw_only=True):
    """The file ``warp_points.toml`` of a game.

    Attributes:
        points: Id of each, by its name; unlike flags, the ids are those that the game keeps as the last one rested at.
    """

    points: Annotated[dict[str, Id], Meta(min_length=1)]

    def id_of(self, name: str) -> int:
        """Return the id of a warp point.

        Raises:
            ConfigError: There is none of that name (did you mean ...).
        """
        if name not in self.points:
            raise unknown("warp point", name, self.points)
        return self.points[name]

    def name_of(self, number: int) -> str:
        """Return the name of the warp point with an id; ``#`` and the id if none has it."""
        return next((name for name, one in self.points.items() if one == number), f"#{number}")


def load_warp_points(game: str) -> WarpPoints:
    """Read the warp points of a game.

    Raises:
        ConfigError: It has none, or the file is malformed.
    """
    return facts_of(game, "warp_points", WarpPoints)
