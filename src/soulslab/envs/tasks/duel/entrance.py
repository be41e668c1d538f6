"""How a game gets to a fresh fight: what episodes ask for, and the way of a game that begins its fights by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import ResetLog, reach
from soulslab.envs.tasks.duel.respawn import is_over, load_state, respawn


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode wants of an entrance.

    Attributes:
        deadline: Wall time for all of the reset.
        needs_another: A fight that is going on will not do.
        may_kill: The player may be killed to leave it, where a restart of the game is another way.
        is_fresh: The game has been started since the last reset.
        n_tries: Tries of this reset that have failed before this one.
        restart: Restarts the game's process and takes hold of it.
        log: Counts fights that are left.
    """

    deadline: Deadline
    needs_another: bool
    may_kill: bool
    is_fresh: bool
    n_tries: int
    restart: Callable[[], None]
    log: ResetLog


class Entrance(Protocol):
    """Gets the game to a fight that an episode can begin in."""

    def enter(self, game: DuelGame, visit: Visit) -> bool:
        """Get the game to a fight; tell whether it is another one than before.

        Args:
            game: The game, at whatever it is.
            visit: What is wanted.

        Raises:
            ResetFailedError: The game did not come round; another try may help.
            SiphonError: The game cannot be played, read or written.
        """
        ...

    def leave(self, game: DuelGame) -> None:
        """Take back whatever was changed in the game and would outlast the fight. Raises as `Session.write`."""
        ...


class RespawnEntrance:
    """The way of a game that begins a fight by itself (`Entrance`).

    It goes by the restart key, by the end of a fight that is over, by the player's death, or by a restart of the game.
    """

    def enter(self, game: DuelGame, visit: Visit) -> bool:
        """See `Entrance.enter`."""
        if not (visit.needs_another or is_over(game)):
            return False
        if respawn(game, visit.deadline, may_kill=visit.may_kill):
            visit.log.n_respawns += 1
            return True
        if not visit.is_fresh:
            visit.restart()
        reach(game, (load_state(game),), visit.deadline)
        return True

    def leave(self, game: DuelGame) -> None:
        """See `Entrance.leave`: there is nothing."""
