"""A lock-on that stays lost, and the key that asks for it again."""

from __future__ import annotations

from soulslab.arena.records import Record
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.fighter_placing import LOCK_ON_KEY

#: The key is pressed after so many looks without: a game that finds its lock again does it sooner.
UNLOCKED_LOOKS = 10


class LostLock:
    """Counts the looks without a lock-on."""

    def __init__(self) -> None:
        self._has_key = False
        self._n_looks = 0

    def begin(self, game: DuelGame, *, is_due: bool = False) -> None:
        """Begin an episode.

        Args:
            game: The game; where it has no key for it, nothing is pressed.
            is_due: Nobody has asked for the lock yet, so the first look without one is enough.
        """
        self._has_key = LOCK_ON_KEY in game.profile.keys
        self._n_looks = UNLOCKED_LOOKS - 1 if is_due else 0

    def see(self, state: Record) -> None:
        """Take in a look."""
        self._n_looks = 0 if state.lock_on else self._n_looks + 1

    @property
    def presses(self) -> tuple[str, ...]:
        """Buttons to press with the next step."""
        is_due = self._has_key and self._n_looks and self._n_looks % UNLOCKED_LOOKS == 0
        return (LOCK_ON_KEY,) if is_due else ()
