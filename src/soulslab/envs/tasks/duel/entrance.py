"""Entrances: how a game is brought to a fight in which an episode can begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np

from soulslab.arena.live_fight import STAGES, Stage
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetLog, ResetState, run_states
from soulslab.siphon.session import LOADING

#: Upper bound of drawn seeds.
MAX_SEED = 2**63
#: Limits of game time: until the restart key takes effect, until the player is dead, until the end of a fight has been
#: shown, and until the next fight has loaded.
RESTART_KEY_LIMIT_S = 5.0
DEATH_LIMIT_S = 10.0
END_LIMIT_S = 30.0
LOAD_LIMIT_S = 60.0
#: Game time between two readings at the end of a fight, which is shown for seconds. No game loads faster than this.
END_POLL_S = 0.1
RESTART_KEY = "restart"
#: Quantities that show the stage of the game. Some of them cannot be read while the game loads.
STAGE_QUANTITIES = ("game.stage", "fight.number", "fight.tick", "player.hp", "boss.hp")


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
        """Bring the game, which may be in any state, to a fight; return whether it is another fight than before.

        Raises:
            ResetFailedError: A state was not reached; another try may succeed.
            SiphonError: The game cannot be stepped, read or written.
        """
        ...

    def leave(self, game: DuelGame) -> None:
        """Undo changes of the game that would outlast the fight. Raises as `Session.write`."""
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


def reported_stage(values: QuantityValues) -> Stage:
    """Return the stage that the game reports; "fighting" if it reports none."""
    return STAGES[int(values["game.stage"])] if "game.stage" in values else "fighting"


def stage_of(values: QuantityValues) -> Stage:
    """Return the stage of the game: the reported one, or else one that follows from the health of both."""
    if "game.stage" in values:
        return reported_stage(values)
    if not values:
        return "loading"
    if values.get("player.hp", 1.0) <= 0.0:
        return "lost"
    return "won" if values.get("boss.hp", 1.0) <= 0.0 else "fighting"


def seed_fight(game: DuelGame, rng: np.random.Generator, seed: int | None, is_fresh: bool) -> bool:
    """Write the seed of the next fight, if the game accepts one and needs it; return whether it was written.

    Without a seed of the reset, the first fight after a start of the game gets a drawn one, so that no two games play
    the same fight.
    """
    if not game.has("fight.next_seed") or not (is_fresh or seed is not None):
        return False
    game.write({"fight.next_seed": int(seed) if seed is not None else int(rng.integers(MAX_SEED))})
    return True


def respawn(game: DuelGame, deadline: Deadline, *, may_kill: bool) -> bool:
    """Bring the game to a new fight; return False if that needs a restart of the game.

    With `may_kill`, the player may be killed to leave a fight.
    """
    if RESTART_KEY in game.profile.keys:
        states = [_restart_key_state(game)]
    elif is_over(game):
        states = [END_STATE]
    elif may_kill and game.is_writable("player.hp"):
        states = [_death_state(game), END_STATE]
    else:
        return False
    run_states(game, (*states, load_state(game)), deadline)
    return True


def is_over(game: DuelGame) -> bool:
    """Return whether no fight is in progress: the last one has ended, or the next one loads."""
    try:
        return stage_of(game.read(*(name for name in STAGE_QUANTITIES if game.has(name)))) != "fighting"
    except LOADING:
        return True


def _death_state(game: DuelGame) -> ResetState:
    def kill(_: QuantityValues) -> None:
        values: QuantityValues = {"player.hp": 0.0}
        if game.is_writable("player.no_death"):
            values["player.no_death"] = False
        game.write(values)

    return ResetState(
        name="die",
        waits_for="the player's death, with a health of 0 written",
        is_reached=lambda values: stage_of(values) != "fighting",
        quantities=STAGE_QUANTITIES,
        limit_s=DEATH_LIMIT_S,
        action=kill,
    )


def _restart_key_state(game: DuelGame) -> ResetState:
    """Return the state in which another fight loads; its number shows that, in a game that counts fights."""
    number = int(game.read("fight.number")["fight.number"]) if game.has("fight.number") else None
    return ResetState(
        name="ask",
        waits_for="the game to load another fight after the restart key",
        is_reached=lambda values: (
            stage_of(values) == "loading" or (number is not None and values.get("fight.number", number) != number)
        ),
        quantities=STAGE_QUANTITIES,
        limit_s=RESTART_KEY_LIMIT_S,
        buttons=(RESTART_KEY,),
    )


#: State in which the game loads the next fight by itself, after the end of the current one.
END_STATE = ResetState(
    name="end",
    waits_for="the game to load another fight after the end of this one",
    is_reached=lambda values: stage_of(values) == "loading",
    quantities=STAGE_QUANTITIES,
    limit_s=END_LIMIT_S,
    poll_s=END_POLL_S,
)


def load_state(game: DuelGame) -> ResetState:
    """Return the state in which a fight is in progress; in lockstep, its first tick."""
    is_exact = game.has("fight.tick") and game.session.info.clock_grade == "lockstep"

    def is_loaded(values: QuantityValues) -> bool:
        return stage_of(values) == "fighting" and (not is_exact or values["fight.tick"] == 0)

    return ResetState(
        name="load",
        waits_for="the first tick of a fight" if is_exact else "a fight to begin",
        is_reached=is_loaded,
        quantities=STAGE_QUANTITIES,
        limit_s=LOAD_LIMIT_S,
    )
