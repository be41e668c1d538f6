"""Episodes of a duel: the interface, complete fights (`DemoEpisode`), and fights of another player (`ObservedEpisode`).

`soulslab.envs.tasks.duel.in_place_episode` repeats episodes within one fight of the game, as SoulsGym does.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.live_fight import Stage
from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import (
    Entrance,
    FightRequest,
    RespawnEntrance,
    reported_stage,
    seed_fight,
    stage_of,
)
from soulslab.envs.tasks.duel.fighter_placing import LOCK_ON_KEY
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetLog, ResetRunner
from soulslab.errors import SiphonError
from soulslab.siphon.session import LOADING

Outcome: TypeAlias = Literal["", "won", "lost"]
"""Result of an episode; "" while it continues."""

#: Readings without a lock-on after which the key is pressed. A game that locks on again by itself does so earlier.
UNLOCKED_READINGS = 10
#: Wall time between two readings while waiting for a fight.
POLL_S = 0.02
_FIGHT_QUANTITIES = ("player.hp", "boss.hp", "game.stage")


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


class LockOnRecovery:
    """Counts consecutive readings without a lock-on, and presses the lock-on key after every `UNLOCKED_READINGS`."""

    def __init__(self) -> None:
        self._has_key = False
        self._n_unlocked = 0

    def begin(self, game: DuelGame, *, is_due: bool = False) -> None:
        """Begin an episode; without a lock-on key in the profile, nothing is pressed.

        With `is_due`, the key is pressed after the first reading without a lock-on, because nothing has pressed it yet.
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


class Episode(ABC):
    """One kind of episode. An environment creates one object, and calls `begin` for each episode.

    Args:
        scenario: The boss and its arena.
        settings: Settings of the episodes.
        entrance: Brings the game to a fight; None for a game that begins its fights by itself (`RespawnEntrance`).

    Attributes:
        log: Counts of the resets.
        quantities: Quantities that are read with each step if the game has them, in addition to those of a duel.
        start_phase: Phase in which episodes begin, for a game whose phase cannot be read.
        start_pose: Index of the player's start pose among the random ones; -1 for the fixed pose, or if the game
            chooses it.
    """

    quantities: tuple[str, ...] = ("game.stage",)

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        self.log = ResetLog()
        self.start_phase = 2 if settings.phase == "2" else 1
        self.start_pose = -1
        self._scenario, self._settings = scenario, settings
        self._entrance = entrance or RespawnEntrance()
        self._runner = ResetRunner(self.log, settings.max_retries, settings.hard_reset_minutes)
        self._goal_hp = float(scenario.phase_two_hp) if settings.phase == "1" else 0.0
        self._lock_on = LockOnRecovery()

    @property
    def extra_buttons(self) -> tuple[str, ...]:
        """Buttons to press in the next step in addition to those of the action: the lock-on key, to lock on again."""
        return self._lock_on.buttons

    @abstractmethod
    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Bring the game to the start of an episode; a lost game (`SessionHolder.is_lost`) is recovered first.

        The deadline is a limit of wall time for the whole reset. Raises `SiphonError` if the start failed, also after
        retries.
        """

    @abstractmethod
    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """Process a reading of the game: update the count of health, and refill the health of the game.

        The health in the `DUEL_STATE` record is replaced by the counted health.
        """

    def outcome(self, state: Record) -> Outcome:
        """Return whether and how the episode has ended with this state; it follows from the health of both."""
        if state.player_hp <= 0.0:
            return "lost"
        return "won" if state.boss_hp <= self._goal_hp else ""

    def release(self, game: DuelGame) -> None:
        """Undo the changes that the episodes made to the game, before the environment is closed."""
        self._entrance.leave(game)


class DemoEpisode(Episode):
    """Episodes that are complete, unchanged fights of the game.

    The entrance begins a new fight for each episode. By default this is done with the restart key. Without such a key,
    a fight that has ended is followed by the next one, and an unfinished fight is left by a restart of the game.

    With a seed, and a game that accepts one (``fight.next_seed``), the fight is the same each time; in lockstep an
    episode begins at its first tick. The first fight after a start of the game always gets a seed, so that no two games
    play the same fight.

    With an entrance, the lock-on key is pressed after the start; a game that begins its fights by itself
    (`RespawnEntrance`) also locks on by itself. The game chooses the start pose.
    """

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        super().__init__(scenario, settings, entrance)
        self._has_entrance = entrance is not None
        self._stage: Stage = "fighting"

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
        if self._has_entrance:
            self._lock_on.begin(game, is_due=True)

    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """See `Episode.process_reading`; the health is that of the game."""
        del game
        self._lock_on.update(state)
        self._stage = reported_stage(read)

    def outcome(self, state: Record) -> Outcome:
        """See `Episode.outcome`; the stage of the game takes precedence."""
        return self._stage if self._stage in ("won", "lost") else super().outcome(state)


class ObservedEpisode(DemoEpisode):
    """Fights that a person or another program plays.

    An episode begins with the next reading of a fight in progress, at any point of the fight. Seeds have no effect.
    """

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Wait until a fight is in progress."""
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
