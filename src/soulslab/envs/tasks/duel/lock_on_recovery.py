"""Recovery of a lost lock-on by its key."""

from __future__ import annotations

from soulslab.arena.records import Record
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.fighter_placing import LOCK_ON_KEY

#: Readings without a lock-on after which the key is pressed. A game that locks on again by itself does so earlier.
UNLOCKED_READINGS = 10


class LockOnRecovery:
    """Counts consecutive readings without a lock-on, and presses the lock-on key after every `UNLOCKED_READINGS`."""

    def __init__(self) -> None:
        self._has_key = False
        self._n_unlocked = 0

    def begin(self, game: DuelGame, *, is_due: bool = False) -> None:
        """Begin an episode.

        Args:
            game: The game; without a lock-on key in its profile, nothing is pressed.
            is_due: Whether to press the key after the first reading without a lock-on, because nothing has pressed it
                before.
        """
        self._has_key = LOCK_ON_KEY in game.profile.keys
        self._n_unlocked = UNLOCKED_READINGS - 1 if is_due else 0

    def update(self, state: Record) -> None:
        """Count a reading."""
        self._n_unlocked = 0 if state.lock_on else self._n_unlocked + 1

    @property
    def buttons(self) -> tuple[str, ...]:
        """Buttons to press with the next step."""
        is_due = self._has_key and self._n_unlocked and self._n_unlocked % UNLOCKED_READINGS == 0
        return (LOCK_ON_KEY,) if is_due else ()
