"""The interface of the episodes of a duel, which begin a fight, count its health and detect its end.

`InPlaceEpisode` repeats fights within one fight of the game, as SoulsGym does. `DemoEpisode` does not change the game
and plays complete fights.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetLog

Outcome: TypeAlias = Literal["", "won", "lost"]
"""Result of an episode; "" while it continues."""


class EpisodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the episodes of an environment.

    Attributes:
        phase: ``"1"`` ends when the health of the first phase is used up, ``"2"`` starts there, ``"full"`` is both.
        random_pose: Whether to draw the player's start pose from those of the scenario, displaced by up to 0.5 m along
            x and y (in place only).
        max_retries: Number of tries after the first one before a reset fails.
        hard_reset_minutes: Wall time after which the game is restarted before an episode; None for never.
    """

    phase: str = "full"
    random_pose: bool = False
    max_retries: int = 3
    hard_reset_minutes: float | None = None


class Episode(Protocol):
    """One kind of episode. An environment creates one object, and calls `begin` for each episode.

    Attributes:
        log: Counts of the resets.
        quantities: Quantities that are read with each step if the game has them, in addition to those of a duel.
        start_phase: Phase in which episodes begin, for a game whose phase cannot be read.
        start_pose: Index of the player's start pose among the random ones; -1 for the fixed pose, or if the game
            chooses it.
    """

    log: ResetLog
    quantities: tuple[str, ...]
    start_phase: int
    start_pose: int

    @property
    def extra_buttons(self) -> tuple[str, ...]:
        """Buttons to press in the next step in addition to those of the action, for example to lock on again."""
        ...

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Bring the game to the start of an episode.

        Args:
            game: The game; a lost game (`SessionHolder.is_lost`) is recovered first.
            rng: Random generator of the environment.
            seed: Seed of the reset; None if none was given.
            deadline: Limit of wall time for the whole reset.

        Raises:
            SiphonError: The start failed, also after retries.
        """
        ...

    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """Process a reading of the game: update the count of health, and refill the health of the game.

        Args:
            game: The game.
            state: `DUEL_STATE` record of the reading; its health is replaced by the counted health.
            read: Quantities of the same reading.
        """
        ...

    def outcome(self, state: Record) -> Outcome:
        """Return whether and how the episode has ended with this state."""
        ...

    def release(self, game: DuelGame) -> None:
        """Undo the changes that the episodes made to the game, before the environment is closed."""
        ...
