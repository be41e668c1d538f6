"""Getting a fresh fight: by the restart key, by the end of the present one, or by a restart of the game."""

from __future__ import annotations

from collections.abc import Iterator

from soulslab.arena.live_fight import STAGES
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.reset import ResetState, Seen

#: Game time that the game may take to heed the restart key, to show the end of a fight, and to load.
ASK_LIMIT_S = 5.0
END_LIMIT_S = 30.0
LOAD_LIMIT_S = 60.0

RESTART_KEY = "restart"
#: A fight that can be looked into has these, and a game that loads may not.
FIGHT = ("game.stage", "fight.number", "fight.tick", "player.hp", "boss.hp")


def stage_of(seen: Seen) -> str:
    """Return what the game is at, as far as can be told."""
    if "game.stage" in seen:
        return STAGES[int(seen["game.stage"])]
    if not seen:
        return "loading"
    if seen.get("player.hp", 1.0) <= 0.0:
        return "lost"
    return "won" if seen.get("boss.hp", 1.0) <= 0.0 else "fighting"


def ask_states(game: DuelGame, number: int | None) -> Iterator[ResetState]:
    """Yield the states to a fresh fight by the restart key.

    Args:
        game: The game; its profile has the key.
        number: ``fight.number`` of the present fight, where that is known.
    """
    yield ResetState(
        name="ask",
        waits_for="the game to load another fight after the restart key",
        is_reached=lambda seen: stage_of(seen) == "loading" or _has_passed(seen, number),
        quantities=FIGHT,
        limit_s=ASK_LIMIT_S,
        press=(RESTART_KEY,),
    )
    yield load_state(game)


def end_states(game: DuelGame) -> Iterator[ResetState]:
    """Yield the states to a fresh fight where the present one is over and the game goes on by itself."""
    yield ResetState(
        name="end",
        waits_for="the game to load another fight after the end of this one",
        is_reached=lambda seen: stage_of(seen) == "loading",
        quantities=FIGHT,
        limit_s=END_LIMIT_S,
    )
    yield load_state(game)


def load_state(game: DuelGame) -> ResetState:
    """Return the state in which a fight can be fought; in lockstep, at its very first tick."""
    is_exact = game.has("fight.tick") and game.session.info.clock_grade == "lockstep"

    def is_there(seen: Seen) -> bool:
        return stage_of(seen) == "fighting" and (not is_exact or seen["fight.tick"] == 0)

    return ResetState(
        name="load",
        waits_for="a fight to begin" if not is_exact else "the first tick of a fight",
        is_reached=is_there,
        quantities=FIGHT,
        limit_s=LOAD_LIMIT_S,
    )


def fight_number(game: DuelGame) -> int | None:
    """Return the number of the present fight; None where the game does not count them."""
    return int(game.read("fight.number")["fight.number"]) if game.has("fight.number") else None


def _has_passed(seen: Seen, number: int | None) -> bool:
    return number is not None and seen.get("fight.number", number) != number
