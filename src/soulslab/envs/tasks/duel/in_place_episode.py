"""Episodes within one fight of the game, without loading: health is counted, and both fighters are put back."""

from __future__ import annotations

import msgspec
import numpy as np

from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_actions import is_falling
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import Entrance, FightRequest, is_over, reported_stage, seed_fight
from soulslab.envs.tasks.duel.episode import Episode, EpisodeSettings
from soulslab.envs.tasks.duel.fighter_placing import (
    StartPoses,
    draw_start_poses,
    forcing_hp,
    place_states,
    set_safety_flags,
    settle_state,
    transform_state,
)
from soulslab.envs.tasks.duel.reset_states import QuantityValues, run_states


class InPlaceEpisode(Episode):
    """Episodes that are played within one fight of the game.

    As in SoulsGym 1.1.0, losses of health are counted here and the health in the game is refilled, so that no fighter
    dies and nothing is loaded. A reset puts both fighters at their start poses. A fight cannot return from the second
    phase to the first, so the entrance then begins a new fight: by default with the restart key, by the player's death,
    or by a restart of the game.

    The fight of the game must have both phases (``phase="full"``), for episodes of any phase.
    """

    quantities: tuple[str, ...] = ("game.stage", "player.animation", "boss.animation")

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        super().__init__(scenario, settings, entrance)
        self.player_health = CountedHealth(scenario.player_max_hp or 0)
        self.boss_health = CountedHealth(scenario.boss_max_hp)
        # A blow in the first phase takes at most the health of that phase, if a second one follows
        # (`arena.boss.hurt_boss`).
        self._min_first_phase_hp = float(scenario.phase_two_hp) if settings.phase == "full" else 0.0
        self._game_phase = 1
        # Whether the game may have changed its phase without a reading that shows it.
        self._may_be_second = False
        # Whether the boss's health has been lowered to begin the second phase.
        self._is_forcing = False
        self._has_no_death = self._has_set_flags = False

    # --- the start ------------------------------------------------------------------------------------------

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""
        start = draw_start_poses(self._scenario, rng, is_random=self._settings.random_pose)

        def attempt(n: int, is_fresh: bool) -> None:
            has_seed = seed_fight(game, rng, seed, is_fresh)
            request = FightRequest(
                deadline=deadline,
                needs_another=bool(n) or has_seed,
                may_kill=True,
                is_fresh=is_fresh,
                n_tries=n,
                restart=lambda: self._runner.restart(game, deadline),
                log=self.log,
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
        boss_hp = self._scenario.phase_two_hp if self._settings.phase == "2" else self._scenario.boss_max_hp
        self.player_health.full_hp = game.vitals(self._scenario).hp
        self.player_health.begin(self.player_health.full_hp, self.player_health.full_hp)
        self.boss_health.begin(boss_hp, self._scenario.boss_max_hp)
        self._is_forcing = False
        self._has_no_death = game.is_writable("player.no_death")
        self._lock_on.begin(game)

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
        self._lock_on.update(state)
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
        if is_due and self.boss_health.game_hp > 0.0 and self._settings.phase == "full":
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


#: If time passes between a reading and a write, health is refilled only below this share of it. A hit between the two
#: is overwritten and lost, so there should be few such writes.
REFILL_SHARE_WITHOUT_HOLD = 0.5


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
