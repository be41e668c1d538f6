"""Event flags of a game: what it remembers of a world, by number."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.games.facts import FactFile, Id, facts_of, unknown


class EventFlags(FactFile, frozen=True, kw_only=True):
    """The file ``event_flags.toml`` of a game.

    Attributes:
        defeated: Flag that is set when a boss has been beaten, by the boss's name.
        rested: Flag that is set when a bonfire or a site of grace has been found, by its name.
    """

    defeated: Annotated[dict[str, Id], Meta(min_length=1)]
    rested: dict[str, Id] = msgspec.field(default_factory=dict)

    def defeat_of(self, boss: str) -> int:
        """Return the flag of a boss's defeat.

        Raises:
            ConfigError: It is not known (did you mean ...).
        """
        if boss not in self.defeated:
            raise unknown("flag for the defeat of", boss, self.defeated)
        return self.defeated[boss]


def load_event_flags(game: str) -> EventFlags:
    """Read the event flags of a game.

    Raises:
        ConfigError: None are known of it, or the file is malformed.
    """
    return facts_of(game, "event_flags", EventFlags)
