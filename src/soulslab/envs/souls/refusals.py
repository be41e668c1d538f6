"""What no retry helps against: another boss, or another character, than the file is about, or no real game at all."""

from __future__ import annotations

from pathlib import PurePath

from soulslab.errors import EnvironmentUsageError
from soulslab.games.boss_facts import BossFacts


def refuse_another_boss(facts: BossFacts, max_hp: int) -> None:
    """Raise `EnvironmentUsageError` if another boss is there than the file is about, by its full health."""
    if facts.max_hp not in (None, max_hp):
        raise EnvironmentUsageError(
            f"{facts.name} has a full health of {max_hp} in the game, and {facts.max_hp} in its file: that is "
            f"another boss, or a later journey through the game; to fight this one give boss= the path of a copy "
            f"of the file with max_hp = {max_hp} (docs/bosses.md)"
        )


def refuse_another_player(facts: BossFacts, max_hp: int) -> None:
    """Raise `EnvironmentUsageError` if another character plays than the file is for, before it goes all the way."""
    if facts.player_max_hp not in (None, max_hp):
        raise EnvironmentUsageError(
            f"the player has a full health of {max_hp} in the game, and {facts.player_max_hp} in the file of "
            f"{facts.name}: load the character that agents were trained with, or give boss= the path of a copy of the "
            f"file with player_max_hp = {max_hp} (docs/bosses.md)"
        )


def refuse_stand_in(executable: str) -> None:
    """Raise `EnvironmentUsageError` for the window of the built-in fight, which has no title, no load and no fog.

    Args:
        executable: Path of the program that runs; a game is never Python.
    """
    if PurePath(executable).name.startswith("python"):
        raise EnvironmentUsageError(
            "this is no real game, but a window that stands in for it (soulslab arena --mask): give stand_in=True too"
        )
