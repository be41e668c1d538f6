"""Entrances: how a game is brought to a fight in which an episode can begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import ResetLog, run_states
from soulslab.envs.tasks.duel.respawn import is_over, load_state, respawn


class FightRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fight that an episode requests from an entrance.

    Attributes:
        deadline: Limit of wall time for the whole reset.
        needs_another: Whether a new fight is needed, even if one is in progress.
        may_kill: Whether the entrance may kill the player to leave a fight, if it could also restart the game.
        is_fresh: Whether the game was started after the last reset.
        n_tries: Failed tries of this reset.
        restart: Restarts the game and prepares it for a reset.
        log: Counts fights that were left.
    """

    deadline: Deadline
    needs_another: bool
    may_kill: bool
    is_fresh: bool
    n_tries: int
    restart: Callable[[], None]
    log: ResetLog


class Entrance(Protocol):
    """Brings the game to a fight in which an episode can begin."""

    def enter(self, game: DuelGame, request: FightRequest) -> bool:
        """Bring the game to a fight.

        Args:
            game: The game, in any state.
            request: The fight that is needed.

        Returns:
            Whether it is another fight than before.

        Raises:
            ResetFailedError: A state was not reached; another try may succeed.
            SiphonError: The game cannot be stepped, read or written.
        """
        ...

    def leave(self, game: DuelGame) -> None:
        """Undo changes of the game that would outlast the fight.

        Raises:
            SiphonError: See `Session.write`.
        """
        ...


class RespawnEntrance:
    """Entrance of a game that begins fights by itself (`Entrance`).

    A new fight begins after a press of the restart key, after the end of the last fight, after the player's death, or
    after a restart of the game.
    """

    def enter(self, game: DuelGame, request: FightRequest) -> bool:
        """See `Entrance.enter`."""
        if not (request.needs_another or is_over(game)):
            return False
        if respawn(game, request.deadline, may_kill=request.may_kill):
            request.log.n_respawns += 1
            return True
        if not request.is_fresh:
            request.restart()
        run_states(game, (load_state(game),), request.deadline)
        return True

    def leave(self, game: DuelGame) -> None:
        """See `Entrance.leave`; there is nothing to undo."""
