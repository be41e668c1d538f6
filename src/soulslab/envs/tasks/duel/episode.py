"""Kinds of episodes of a duel: complete fights, fights of another player, and episodes within one fight of the game."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.live_fight import Stage
from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_actions import is_falling
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import (
    Entrance,
    FightRequest,
    RespawnEntrance,
    is_over,
    reported_stage,
    seed_fight,
    stage_of,
)
from soulslab.envs.tasks.duel.fighter_placing import (
    LOCK_ON_KEY,
    StartPoses,
    draw_start_poses,
    forcing_hp,
    place_states,
    set_safety_flags,
    settle_state,
    transform_state,
)
from soulslab.envs.tasks.duel.reset_states import QuantityValues, ResetLog, ResetRunner, run_states
from soulslab.errors import SiphonError
from soulslab.siphon.session import LOADING

Outcome: TypeAlias = Literal["", "won", "lost"]
"""Result of an episode; "" while it continues."""

#: Tries after the first one before a reset fails.
MAX_RETRIES = 3
#: Readings without a lock-on after which the key is pressed. A game that locks on again by itself does so earlier.
UNLOCKED_READINGS = 10
#: Wall time between two readings while waiting for a fight.
POLL_S = 0.02
_FIGHT_QUANTITIES = ("player.hp", "boss.hp", "game.stage")
#: If time passes between a reading and a write, health is refilled only below this share of it. A hit between the two
#: is overwritten and lost, so there should be few such writes.
REFILL_SHARE_WITHOUT_HOLD = 0.5


class Episode(ABC):
    """One kind of episode. An environment creates one object, and calls `begin` for each episode.

    Args:
        scenario: The boss and its arena.
        options: Options of the environment.
        entrance: Brings the game to a fight; None for a game that begins its fights by itself (`RespawnEntrance`).

    Attributes:
        log: Counts of the resets.
        quantities: Quantities that are read with each step if the game has them, in addition to those of a duel.
        start_phase: Phase in which episodes begin, for a game whose phase cannot be read.
        start_pose: Index of the player's start pose among the random ones; -1 for the fixed pose, or if the game
            chooses it.
    """

    quantities: tuple[str, ...] = ("game.stage",)

    def __init__(
        self, scenario: Scenario, options: DuelOptions, entrance: Entrance | None = None, max_retries: int = MAX_RETRIES
    ) -> None:
        self.log = ResetLog()
        self._phase = str(options.phase)
        self.start_phase = 2 if self._phase == "2" else 1
        self.start_pose = -1
        self._scenario, self._options = scenario, options
        self._entrance = entrance or RespawnEntrance()
        self._runner = ResetRunner(self.log, max_retries, options.hard_reset_minutes)
        self._goal_hp = float(scenario.phase_two_hp) if self._phase == "1" else 0.0
        self._has_lock_on_key = False
        self._n_unlocked = 0

    @property
    def extra_buttons(self) -> tuple[str, ...]:
        """Buttons to press in the next step in addition to those of the action.

        The lock-on key is pressed after every `UNLOCKED_READINGS` consecutive readings without a lock-on.
        """
        is_due = self._has_lock_on_key and self._n_unlocked and self._n_unlocked % UNLOCKED_READINGS == 0
        return (LOCK_ON_KEY,) if is_due else ()

    @abstractmethod
    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Bring the game to the start of an episode; a lost game (`SessionHolder.is_lost`) is recovered first.

        The deadline is a limit of wall time for the whole reset. Raises `SiphonError` if the start failed, also after
        retries.
        """

    def _request(self, game: DuelGame, deadline: Deadline, **wanted: Any) -> FightRequest:
        """Return a request to the entrance; `wanted` are its other fields."""
        return FightRequest(
            deadline=deadline, restart=lambda: self._runner.restart(game, deadline), log=self.log, **wanted
        )

    @abstractmethod
    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """Process a reading of the game: update the count of health, and refill the health of the game.

        The health in the `DUEL_STATE` record is replaced by the counted health.
        """

    def restore_player(self, game: DuelGame, state: Record) -> None:
        """Restore the player's health in a state between two steps."""
        state.player_hp = game.vitals(self._scenario).hp
        game.write({"player.hp": state.player_hp})

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

    _stage: Stage = "fighting"

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""

        def attempt(n: int, is_fresh: bool) -> None:
            seed_fight(game, rng, seed, is_fresh)
            request = self._request(game, deadline, needs_another=True, may_kill=False, is_fresh=is_fresh, n_tries=n)
            self._entrance.enter(game, request)

        self._runner.run(game, deadline, attempt)
        self._stage = "fighting"
        if not isinstance(self._entrance, RespawnEntrance):
            self._has_lock_on_key = LOCK_ON_KEY in game.profile.keys
            # The key is pressed after the first reading without a lock-on, because nothing has pressed it yet.
            self._n_unlocked = UNLOCKED_READINGS - 1

    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """See `Episode.process_reading`; the health is that of the game."""
        del game
        self._n_unlocked = 0 if state.lock_on else self._n_unlocked + 1
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


class InPlaceEpisode(Episode):
    """Episodes that are played within one fight of the game.

    As in SoulsGym 1.1.0, losses of health are counted here and the health in the game is refilled, so that no fighter
    dies and nothing is loaded. A reset puts both fighters at their start poses. A fight cannot return from the second
    phase to the first, so the entrance then begins a new fight: by default with the restart key, by the player's death,
    or by a restart of the game.

    The fight of the game must have both phases (``phase="full"``), for episodes of any phase.
    """

    quantities: tuple[str, ...] = ("game.stage", "player.animation", "boss.animation")

    def __init__(
        self, scenario: Scenario, options: DuelOptions, entrance: Entrance | None = None, max_retries: int = MAX_RETRIES
    ) -> None:
        super().__init__(scenario, options, entrance, max_retries)
        self.player_health = CountedHealth(scenario.player_max_hp or 0)
        self.boss_health = CountedHealth(scenario.boss_max_hp)
        # A blow in the first phase takes at most the health of that phase, if a second one follows
        # (`arena.boss.hurt_boss`).
        self._min_first_phase_hp = float(scenario.phase_two_hp) if self._phase == "full" else 0.0
        self._game_phase = 1
        # Whether the game may have changed its phase without a reading that shows it.
        self._may_be_second = False
        # Whether the boss's health has been lowered to begin the second phase.
        self._is_forcing = False
        self._has_no_death = self._has_set_flags = False

    # --- the start ------------------------------------------------------------------------------------------

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""
        start = draw_start_poses(self._scenario, rng, is_random=self._options.random_pose)

        def attempt(n: int, is_fresh: bool) -> None:
            has_seed = seed_fight(game, rng, seed, is_fresh)
            request = self._request(
                game, deadline, needs_another=bool(n) or has_seed, may_kill=True, is_fresh=is_fresh, n_tries=n
            )
            self._begin_fight(game, request)
            self._wait_for_rest(game, start, deadline)
            if self._phase_of(game) > self.start_phase:  # the boss had begun to change its phase
                self._begin_fight(game, msgspec.structs.replace(request, is_fresh=False, needs_another=True))
                self._wait_for_rest(game, start, deadline)
            run_states(game, place_states(game, self._scenario, start), deadline)
            set_safety_flags(game, is_on=False, keep=("player.no_death",))

        self._runner.run(game, deadline, attempt)
        self.start_pose = start.number
        boss_hp = self._scenario.phase_two_hp if self._phase == "2" else self._scenario.boss_max_hp
        self.player_health.full_hp = game.vitals(self._scenario).hp
        self.player_health.begin(self.player_health.full_hp, self.player_health.full_hp)
        self.boss_health.begin(boss_hp, self._scenario.boss_max_hp)
        self._is_forcing = False
        self._has_no_death = game.is_writable("player.no_death")
        self._has_lock_on_key = LOCK_ON_KEY in game.profile.keys
        self._n_unlocked = 0

    def _begin_fight(self, game: DuelGame, request: FightRequest) -> None:
        """Bring the game to a fight in the phase in which the episode begins."""
        is_other_phase = self._phase_of(game) > self.start_phase or (self._may_be_second and self.start_phase == 1)
        if request.is_fresh:
            self._game_phase, self._may_be_second = 1, False
        elif is_other_phase:
            request = msgspec.structs.replace(request, needs_another=True)
        if self._entrance.enter(game, request):
            self._game_phase, self._may_be_second = 1, False
        if self._phase_of(game) < self.start_phase:
            set_safety_flags(game, is_on=False, keep=("player.no_death",))
            run_states(game, (transform_state(game, self._scenario),), request.deadline)
            self._game_phase = 2

    def _wait_for_rest(self, game: DuelGame, start: StartPoses, deadline: Deadline) -> None:
        """Wait until both fighters are at rest, and record a change of phase in the meantime."""

        def record_phase_change() -> None:
            self._game_phase = 2

        self._has_set_flags = True
        set_safety_flags(game, is_on=True)
        run_states(game, (settle_state(game, self._scenario, start, record_phase_change),), deadline)

    def _phase_of(self, game: DuelGame) -> int:
        """Return the phase of the fight in the game."""
        if game.has("phase") and not is_over(game):
            self._game_phase = int(game.read("phase")["phase"])
        return self._game_phase

    # --- readings -------------------------------------------------------------------------------------------

    def process_reading(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        """See `Episode.process_reading`; losses are counted, and the health in the game is refilled."""
        self._n_unlocked = 0 if state.lock_on else self._n_unlocked + 1
        self.player_health.update(float(state.player_hp))
        # A boss that is dead in the game has lost whatever was counted, because it cannot begin a second phase.
        is_boss_dead = float(state.boss_hp) <= 0.0
        self._update_boss(game, state, read)
        self._game_phase = int(state.phase)
        stage = reported_stage(read)
        # A player that cannot die keeps a health of 1.
        last_hp = 1.0 if self._has_no_death else 0.0
        is_deadly_fall = self._scenario.is_fall_deadly and is_falling(read.get("player.animation", ""))
        has_fallen = is_deadly_fall or float(state.player_pose[2]) < self._scenario.fall_m
        if stage == "lost" or has_fallen or float(state.player_hp) <= last_hp:
            self.player_health.counted_hp = 0.0
        elif stage == "won" or is_boss_dead:
            self.boss_health.counted_hp = min(self.boss_health.counted_hp, self._goal_hp)
        state.player_hp, state.boss_hp = self.player_health.counted_hp, self.boss_health.counted_hp
        if stage == "fighting" and not self.outcome(state):
            self._refill(game)

    def restore_player(self, game: DuelGame, state: Record) -> None:
        """See `Episode.restore_player`; only the count changes, because the health in the game is always refilled."""
        del game
        state.player_hp = self.player_health.counted_hp = self.player_health.full_hp

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`; the player can die again."""
        super().release(game)
        if self._has_set_flags:
            set_safety_flags(game, is_on=False)

    def _update_boss(self, game: DuelGame, state: Record, read: QuantityValues) -> None:
        is_changing = read.get("boss.animation") == self._scenario.phase_two_animation
        if not game.has("phase") and self._scenario.phase_two_animation:
            # Only an animation shows the change, and between two episodes it may pass without a reading.
            self._may_be_second |= float(state.boss_hp) <= self._scenario.phase_two_hp
        if self._is_forcing:
            # The health was written, and hits are not counted before the second phase begins.
            self.boss_health.game_hp = float(state.boss_hp)
            self._is_forcing = state.phase == 1 and not is_changing
            return
        # A blow in the step in which the phase changes is counted as one of the first phase.
        self.boss_health.update(float(state.boss_hp), self._min_first_phase_hp if self._game_phase == 1 else 0.0)
        is_due = state.phase == 1 and 0.0 < self.boss_health.counted_hp <= self._min_first_phase_hp and not is_changing
        if is_due and self.boss_health.game_hp > 0.0 and self._phase == "full":
            self._is_forcing = True
            game.write({"boss.hp": forcing_hp(self._scenario)})

    def _refill(self, game: DuelGame) -> None:
        player, boss = self.player_health, self.boss_health
        if player.game_hp >= player.full_hp and boss.game_hp >= boss.full_hp:
            return
        is_held = not game.session.clock.speed
        values: QuantityValues = {}
        if (hp := player.refill(0.0, is_held=is_held)) is not None:
            values["player.hp"] = hp
        if not self._is_forcing:
            floor_hp = float(self._scenario.phase_two_hp) if self._game_phase == 1 else 0.0
            if (hp := boss.refill(floor_hp, is_held=is_held)) is not None:
                values["boss.hp"] = hp
        elif boss.game_hp < forcing_hp(self._scenario):
            values["boss.hp"] = forcing_hp(self._scenario)
        if values:
            game.write(values)


class CountedHealth:
    """Counted health of one fighter: it follows the changes of the health in the game, except for refills.

    Attributes:
        counted_hp: Health that is left in the episode, from 0 to `full_hp`.
        game_hp: Health in the game at the last reading or write.
    """

    def __init__(self, full_hp: float) -> None:
        self.full_hp = full_hp
        self.counted_hp = full_hp
        self.game_hp = full_hp

    def begin(self, counted_hp: float, game_hp: float) -> None:
        """Begin an episode."""
        self.counted_hp, self.game_hp = counted_hp, game_hp

    def update(self, game_hp: float, min_hp: float = 0.0) -> None:
        """Count the change of the health in the game since the last reading or write.

        A loss does not bring `counted_hp` below `min_hp`, because a blow in the first phase takes at most the health of
        that phase.
        """
        change = game_hp - self.game_hp
        self.game_hp = game_hp
        if change < 0.0:
            self.counted_hp = max(self.counted_hp + change, min(min_hp, self.counted_hp))
        else:
            self.counted_hp = min(self.counted_hp + change, self.full_hp)

    def refill(self, floor_hp: float, *, is_held: bool) -> float | None:
        """Return the health to write to the game; None if no refill is needed.

        At `floor_hp` the game begins the second phase. With `is_held`, no time passes between the reading and the
        write, so that no hit can be lost.
        """
        threshold = self.full_hp if is_held else floor_hp + REFILL_SHARE_WITHOUT_HOLD * (self.full_hp - floor_hp)
        if self.game_hp >= threshold:
            return None
        self.game_hp = self.full_hp
        return self.full_hp
