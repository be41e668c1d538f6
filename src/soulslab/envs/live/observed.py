"""Episodes of a fight that a person or another program plays: it is observed, and nothing is changed."""

from __future__ import annotations

import time

import numpy as np

from soulslab.arena.live_fight import STAGES
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.live.demo import DemoEpisode
from soulslab.envs.live.duel_game import DuelGame
from soulslab.errors import SiphonError
from soulslab.siphon.session import LOADING

POLL_S = 0.02
_VITALS = ("player.hp", "boss.hp", "game.stage")


class ObservedEpisode(DemoEpisode):
    """One fight as the player of the game has it (`soulslab.envs.live.episode.Episode`).

    An episode begins with the next look at a fight that goes on, wherever in the fight that is. Seeds have no effect.
    """

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Wait until the player and the boss fight.

        Raises:
            WaitTimeoutError: They do not before the deadline.
            SiphonError: The game cannot be observed.
        """
        del rng, seed
        self._stage = ""
        if game.holder.is_lost:
            game.holder.reopen()
        while True:
            cause: SiphonError | None = None
            try:
                seen = game.read(*(name for name in _VITALS if game.has(name)))
            except LOADING as error:
                cause, seen = error, {}
            if seen and self._is_fight(seen):
                return
            deadline.check("a fight to be played", cause, f"it is {seen}")
            time.sleep(POLL_S)

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`: nothing was changed."""

    def _is_fight(self, seen: dict[str, float]) -> bool:
        stage = seen.get("game.stage")
        is_going_on = stage is None or STAGES[int(stage)] == "fighting"
        return is_going_on and seen["player.hp"] > 0.0 and seen["boss.hp"] > self._goal_hp
