"""Getting a fresh fight: by the restart key, by the end of the present one, or by a restart of the game."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from soulslab.arena.live_fight import STAGES
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.reset_states import ResetState, Seen, reach
from soulslab.siphon.session import LOADING

#: Seeds are drawn below this.
SEEDS = 2**63
#: Game time that the game may take to heed the restart key, to show the end of a fight, and to load.
ASK_LIMIT_S = 5.0
DEATH_LIMIT_S = 10.0
END_LIMIT_S = 30.0
LOAD_LIMIT_S = 60.0
#: The end of a fight is shown for seconds, and no game loads in less than this.
END_POLL_S = 0.1

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


def seed_fight(game: DuelGame, rng: np.random.Generator, seed: int | None, is_fresh: bool) -> bool:
    """Seed the game's next fight; tell whether that was done.

    Args:
        game: The game.
        rng: Draws a seed for the first fight after a start of the game, so that no two games fight the same.
        seed: Of the reset, where one was given.
        is_fresh: The game has just been started.
    """
    if not game.has("fight.next_seed") or (seed is None and not is_fresh):
        return False
    game.write({"fight.next_seed": int(rng.integers(SEEDS)) if seed is None else int(seed)})
    return True


def respawn(game: DuelGame, deadline: Deadline, *, may_kill: bool) -> bool:
    """Get to the start of another fight without a restart of the game; tell whether there is a way.

    Args:
        game: The game.
        deadline: For all of it.
        may_kill: The player may be killed for it.

    Raises:
        ResetFailedError: The game did not come round.
    """
    if RESTART_KEY in game.profile.keys:
        reach(game, ask_states(game, _fight_number(game)), deadline)
    elif is_over(game):
        reach(game, end_states(game), deadline)
    elif may_kill and is_writable(game, "player.hp"):
        reach(game, (_death_state(game), *end_states(game)), deadline)
    else:
        return False
    return True


def is_over(game: DuelGame) -> bool:
    """Tell whether no fight is going on: it is over, or the next one loads."""
    try:
        return stage_of(game.read(*(name for name in FIGHT if game.has(name)))) != "fighting"
    except LOADING:
        return True


def is_writable(game: DuelGame, quantity: str) -> bool:
    """Tell whether a quantity is known of the game and may be written."""
    return game.has(quantity) and game.profile.attributes[game.binding.attributes[quantity]].is_writable


def _death_state(game: DuelGame) -> ResetState:
    def kill(_: Seen) -> None:
        values: dict[str, object] = {"player.hp": 0.0}
        if is_writable(game, "player.no_death"):
            values["player.no_death"] = False
        game.write(values)

    return ResetState(
        name="die",
        waits_for="the player's death, with a health of 0 written",
        is_reached=lambda seen: stage_of(seen) != "fighting",
        quantities=FIGHT,
        limit_s=DEATH_LIMIT_S,
        act=kill,
    )


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
        poll_s=END_POLL_S,
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


def _fight_number(game: DuelGame) -> int | None:
    """Return the number of the present fight; None where the game does not count them."""
    return int(game.read("fight.number")["fight.number"]) if game.has("fight.number") else None


def _has_passed(seen: Seen, number: int | None) -> bool:
    return number is not None and seen.get("fight.number", number) != number
