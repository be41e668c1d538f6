"""Episodes of a duel: the start, the count of health, and the end.

`InPlaceEpisode` repeats fights within one fight of the game, as SoulsGym does. `DemoEpisode` changes nothing in the
game, and plays whole fights.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import ResetLog

Verdict: TypeAlias = Literal["", "won", "lost"]


class EpisodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the episodes of an environment are like.

    Attributes:
        phase: ``"1"`` ends when the first phase's health is gone, ``"2"`` starts there, ``"full"`` is both.
        random_pose: Draw the player's start from the scenario's poses, up to 0.5 m beside them (in place only).
        max_retries: Tries after the first one, before a reset fails.
        hard_reset_minutes: Wall time after which the game is restarted before an episode; None for never.
    """

    phase: str = "full"
    random_pose: bool = False
    max_retries: int = 3
    hard_reset_minutes: float | None = None


class Episode(Protocol):
    """One kind of episode. It is made once for an environment; `begin` starts each."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """What has to be read with each step, beside the fields of a duel; of those that the game has."""
        ...

    @property
    def start_phase(self) -> int:
        """Phase in which the present episode began, for a game that does not tell its phase."""
        ...

    @property
    def start_pose(self) -> int:
        """Number of the player's start pose in the scenario; -1 for the fixed one, or where it is the game's choice."""
        ...

    @property
    def presses(self) -> tuple[str, ...]:
        """Buttons that the episode itself wants pressed with the next step, as to lock on again."""
        ...

    @property
    def log(self) -> ResetLog:
        """What the resets took so far."""
        ...

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Bring the game to the start of an episode.

        Args:
            game: The game; one that is lost (`SessionHolder.is_lost`) is brought back first.
            rng: Draws what is drawn.
            seed: Of the reset, where one was given.
            deadline: Wall time for all of it.

        Raises:
            SiphonError: It cannot be done, also after retries.
        """
        ...

    def account(self, game: DuelGame, state: Record, read: dict[str, object]) -> None:
        """After each look at the game: put the episode's own count of health into the state, top up, and so on.

        Args:
            game: The game.
            state: `DUEL_STATE` record as it was read; changed in place.
            read: The quantities of the same reading.
        """
        ...

    def verdict(self, state: Record) -> Verdict:
        """Tell whether the episode is over with this state."""
        ...

    def release(self, game: DuelGame) -> None:
        """Take back whatever was changed in the game for the episodes, before it is left to somebody else."""
        ...
