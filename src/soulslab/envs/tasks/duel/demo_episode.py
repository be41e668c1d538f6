"""Episodes that do not change the game: complete fights, from their beginning through both phases to their end."""

from __future__ import annotations

import time

import numpy as np

from soulslab.arena.live_fight import Stage
from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import Entrance, FightRequest, RespawnEntrance
from soulslab.envs.tasks.duel.episode import EpisodeSettings, Outcome
from soulslab.envs.tasks.duel.lock_on_recovery import LockOnRecovery
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetLog, ResetRunner
from soulslab.envs.tasks.duel.respawn import reported_stage, seed_fight, stage_of
from soulslab.errors import SiphonError
from soulslab.siphon.session import LOADING


class DemoEpisode:
    """Episodes that are complete, unchanged fights of the game (`soulslab.envs.tasks.duel.episode.Episode`).

    The entrance begins a new fight for each episode. By default this is done with the restart key. Without such a key,
    a fight that has ended is followed by the next one, and an unfinished fight is left by a restart of the game.

    With a seed, and a game that accepts one (``fight.next_seed``), the fight is the same each time; in lockstep an
    episode begins at its first tick. The first fight after a start of the game always gets a seed, so that no two games
    play the same fight.

    Args:
        scenario: Facts about the boss and its arena.
        settings: Settings of the episodes.
        entrance: Brings the game to a fight; None for `RespawnEntrance`. With an entrance, the lock-on key is pressed
            after the start; a game that begins its fights by itself also locks on by itself.

    Attributes:
        log: Counts of the resets.
        quantities: See `Episode`.
        start_phase: See `Episode`.
        start_pose: Always -1, because the game chooses the pose.
    """

    quantities: tuple[str, ...] = ("game.stage",)
    start_pose = -1

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        self.log = ResetLog()
        self._entrance = entrance or RespawnEntrance()
        self._lock_on = LockOnRecovery() if entrance else None
        self._runner = ResetRunner(self.log, settings.max_retries, settings.hard_reset_minutes)
        self._goal_hp = float(scenario.phase_two_hp) if settings.phase == "1" else 0.0
        self.start_phase = 2 if settings.phase == "2" else 1
        self._stage: Stage = "fighting"

    @property
    def extra_buttons(self) -> tuple[str, ...]:
        """See `Episode.extra_buttons`; the lock-on key, if there is an entrance."""
        return self._lock_on.buttons if self._lock_on else ()

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""

        def attempt(n: int, is_fresh: bool) -> None:
            seed_fight(game, rng, seed, is_fresh)
            request = FightRequest(
                deadline=deadline,
                needs_another=True,
                may_kill=False,
                is_fresh=is_fresh,
                n_tries=n,
                restart=lambda: self._runner.restart(game, deadline),
                log=self.log,
            )
            self._entrance.enter(game, request)

        self._runner.run(game, deadline, attempt)
        self._stage = "fighting"
        if self._lock_on is not None:
            self._lock_on.begin(game, is_due=True)

    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """See `Episode.process_reading`; the health is that of the game."""
        del game
        if self._lock_on is not None:
            self._lock_on.update(state)
        self._stage = reported_stage(read)

    def outcome(self, state: Record) -> Outcome:
        """See `Episode.outcome`; it follows from the stage of the game, or from the health of both."""
        if self._stage in ("won", "lost"):
            return self._stage
        if state.player_hp <= 0.0:
            return "lost"
        return "won" if state.boss_hp <= self._goal_hp else ""

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`; only the entrance changes the game."""
        self._entrance.leave(game)


#: Wall time between two readings while waiting for a fight.
POLL_S = 0.02
_FIGHT_QUANTITIES = ("player.hp", "boss.hp", "game.stage")


class ObservedEpisode(DemoEpisode):
    """Fights that a person or another program plays (`soulslab.envs.tasks.duel.episode.Episode`).

    An episode begins with the next reading of a fight in progress, at any point of the fight. Seeds have no effect.
    """

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Wait until a fight is in progress.

        Raises:
            WaitTimeoutError: The deadline passed without a fight.
            SiphonError: The game cannot be read.
        """
        del rng, seed
        self._stage = "fighting"
        if game.holder.is_lost:
            game.holder.reopen()
        while True:
            cause: SiphonError | None = None
            try:
                values = game.read(*(name for name in _FIGHT_QUANTITIES if game.has(name)))
            except LOADING as error:
                cause, values = error, {}
            if stage_of(values) == "fighting" and values["player.hp"] > 0.0 and values["boss.hp"] > self._goal_hp:
                return
            deadline.check("a fight to be played", cause, f"it is {values}")
            time.sleep(POLL_S)

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`; there is nothing to undo."""
