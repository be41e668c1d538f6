"""Episodes without a reload: the game's fight goes on, we count health, and both are put back where they start."""

from __future__ import annotations

import msgspec
import numpy as np

from soulslab.arena.live_fight import STAGES
from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import Entrance, RespawnEntrance, Visit
from soulslab.envs.tasks.duel.episode import EpisodeSettings, Verdict
from soulslab.envs.tasks.duel.fighter_placing import (
    FALL,
    Start,
    draw_start,
    forcing_hp,
    hold,
    place_states,
    settle_state,
    transform_state,
)
from soulslab.envs.tasks.duel.lock_on_recovery import LostLock
from soulslab.envs.tasks.duel.reset_states import ResetLog, ResetRunner, reach
from soulslab.envs.tasks.duel.respawn import is_over, is_writable, seed_fight


class InPlaceEpisode:
    """One fight after another within one fight of the game (`soulslab.envs.tasks.duel.episode.Episode`).

    The game's health of both is topped up, and losses are counted here (as SoulsGym 1.1.0 does), so that nobody dies
    and nothing is loaded. A reset only puts both back to where they start. Where the second phase has been reached and
    the first is wanted again, the game needs another fight, which the entrance gets: by default by the restart key, by
    the player's death, or by a restart of the game.

    The game's own fight has to be a whole one (phase ``full``), whatever phase the episodes are of.

    Args:
        scenario: The boss and its place.
        settings: Phase, start poses, retries and the time after which the game is restarted.
        entrance: Gets the game to a fight; None for `RespawnEntrance`.

    Attributes:
        log: What the resets took so far.
        player: The player's health as counted.
        boss: The boss's.
    """

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        self.log = ResetLog()
        self._entrance = entrance or RespawnEntrance()
        self.player = CountedHealth(scenario.player_max_hp or 0)
        self.boss = CountedHealth(scenario.boss_max_hp)
        self._scenario = scenario
        self._settings = settings
        self._runner = ResetRunner(self.log, settings.max_retries, settings.hard_reset_minutes)
        self._goal_hp = float(scenario.phase_two_hp) if settings.phase == "1" else 0.0
        # Where a second phase is to come, no blow of the first takes more than its health (`arena.boss.hurt_boss`).
        self._least_hp = float(scenario.phase_two_hp) if settings.phase == "full" else 0.0
        self._start = Start(scenario.player_pose, scenario.boss_pose, -1)
        self._game_phase = 1
        self._may_be_second = False
        self._is_forcing = False
        self._has_no_death = self._has_held = False
        self._lock = LostLock()

    @property
    def quantities(self) -> tuple[str, ...]:
        """See `Episode.quantities`."""
        return ("game.stage", "player.animation", "boss.animation")

    @property
    def start_phase(self) -> int:
        """See `Episode.start_phase`."""
        return 2 if self._settings.phase == "2" else 1

    @property
    def start_pose(self) -> int:
        """See `Episode.start_pose`."""
        return self._start.number

    @property
    def presses(self) -> tuple[str, ...]:
        """See `Episode.presses`: the lock-on, where it has been lost for long and has a key."""
        return self._lock.presses

    # --- the start ------------------------------------------------------------------------------------------

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""
        start = draw_start(self._scenario, rng, is_random=self._settings.random_pose)

        def attempt(n: int, is_fresh: bool) -> None:
            has_seed = seed_fight(game, rng, seed, is_fresh)
            visit = Visit(
                deadline=deadline,
                needs_another=bool(n) or has_seed,
                may_kill=True,
                is_fresh=is_fresh,
                n_tries=n,
                restart=lambda: self._runner.restart(game, deadline),
                log=self.log,
            )
            self._begin_fight(game, visit)
            self._settle(game, start, deadline)
            if self._phase_of(game) > self.start_phase:  # the change of phase was on its way
                self._begin_fight(game, msgspec.structs.replace(visit, is_fresh=False, needs_another=True))
                self._settle(game, start, deadline)
            reach(game, place_states(game, self._scenario, start), deadline)
            hold(game, is_on=False, keep=("player.no_death",))

        self._runner.run(game, deadline, attempt)
        self._start = start
        boss_hp = self._scenario.phase_two_hp if self._settings.phase == "2" else self._scenario.boss_max_hp
        self.player.full = game.vitals(self._scenario).hp
        self.player.begin(self.player.full, self.player.full)
        self.boss.begin(boss_hp, self._scenario.boss_max_hp)
        self._is_forcing = False
        self._has_no_death = is_writable(game, "player.no_death")
        self._lock.begin(game)

    def _begin_fight(self, game: DuelGame, visit: Visit) -> None:
        """Bring the game into a fight in the phase that the episode begins in."""
        is_other_phase = self._phase_of(game) > self.start_phase or (self._may_be_second and self.start_phase == 1)
        if visit.is_fresh:
            is_other_phase = False
            self._begin_first_phase()
        if is_other_phase:
            visit = msgspec.structs.replace(visit, needs_another=True)
        if self._entrance.enter(game, visit):
            self._begin_first_phase()
        if self._phase_of(game) < self.start_phase:
            hold(game, is_on=False, keep=("player.no_death",))
            reach(game, (transform_state(game, self._scenario),), visit.deadline)
            self._game_phase = 2

    def _begin_first_phase(self) -> None:
        self._game_phase, self._may_be_second = 1, False

    def _settle(self, game: DuelGame, start: Start, deadline: Deadline) -> None:
        """Bring both to rest, and watch whether the boss changes its phase meanwhile."""

        def see_change() -> None:
            self._game_phase = 2

        self._has_held = True
        hold(game, is_on=True)
        reach(game, (settle_state(game, self._scenario, start, see_change),), deadline)

    def _phase_of(self, game: DuelGame) -> int:
        """Return the phase that the game's own fight is in."""
        if game.has("phase") and not is_over(game):
            self._game_phase = int(game.read("phase")["phase"])
        return self._game_phase

    # --- its course -----------------------------------------------------------------------------------------

    def account(self, game: DuelGame, state: Record, read: dict[str, object]) -> None:
        """See `Episode.account`: losses are counted, and the game's health is topped up."""
        self._lock.see(state)
        self.player.see(float(state.player_hp))
        # Whatever was counted: a boss that is dead in the game has no second phase, and nothing brings it back.
        is_dead = float(state.boss_hp) <= 0.0
        self._see_boss(game, state, read)
        self._game_phase = int(state.phase)
        stage = read.get("game.stage")
        stage_name = "fighting" if stage is None else STAGES[int(stage)]  # type: ignore[call-overload]
        least = 1.0 if self._has_no_death else 0.0
        has_fallen = (
            self._scenario.is_fall_deadly and str(read.get("player.animation", "")).startswith(FALL)
        ) or float(state.player_pose[2]) < self._scenario.fall_m
        if stage_name == "lost" or has_fallen or float(state.player_hp) <= least:
            self.player.end()
        elif stage_name == "won" or is_dead:
            self.boss.left = min(self.boss.left, self._goal_hp)
        state.player_hp, state.boss_hp = self.player.left, self.boss.left
        if stage_name == "fighting" and not self.verdict(state):
            self._top_up(game)

    def verdict(self, state: Record) -> Verdict:
        """See `Episode.verdict`: by the health of both as counted."""
        if state.player_hp <= 0.0:
            return "lost"
        return "won" if state.boss_hp <= self._goal_hp else ""

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`: the player may die again."""
        self._entrance.leave(game)
        if self._has_held:
            hold(game, is_on=False)

    def _see_boss(self, game: DuelGame, state: Record, read: dict[str, object]) -> None:
        is_changing = read.get("boss.animation") == self._scenario.phase_two_animation
        if not game.has("phase") and self._scenario.phase_two_animation:
            # All that tells of the change is its animation, which may pass while nobody looks: between two episodes.
            self._may_be_second |= float(state.boss_hp) <= self._scenario.phase_two_hp
        if self._is_forcing:
            # Its health was written, and hits do not count before the second phase.
            self.boss.real = float(state.boss_hp)
            self._is_forcing = state.phase == 1 and not is_changing
            return
        # A blow in the very step in which the phase changes counts as one of the first.
        in_first = self._game_phase == 1
        self.boss.see(float(state.boss_hp), self._least_hp if in_first else 0.0)
        is_due = state.phase == 1 and 0.0 < self.boss.left <= self._least_hp and not is_changing
        if is_due and self.boss.real > 0.0 and self._settings.phase == "full":
            self._is_forcing = True
            game.write({"boss.hp": forcing_hp(self._scenario)})

    def _top_up(self, game: DuelGame) -> None:
        is_held = (
            self.player.real < self.player.full or self.boss.real < self.boss.full
        ) and not game.session.clock.speed
        values: dict[str, object] = {}
        if (hp := self.player.top_up(0.0, is_held=is_held)) is not None:
            values["player.hp"] = hp
        if not self._is_forcing:
            floor = float(self._scenario.phase_two_hp) if self._game_phase == 1 else 0.0
            if (hp := self.boss.top_up(floor, is_held=is_held)) is not None:
                values["boss.hp"] = hp
        elif self.boss.real < forcing_hp(self._scenario):
            values["boss.hp"] = forcing_hp(self._scenario)
        if values:
            game.write(values)


#: Where time runs on between a look and a write, health is topped up only below this part of it: a hit that falls
#: in between is overwritten and lost, so there should be few such writes.
RUNNING_RESERVE = 0.5


class CountedHealth:
    """Health of one fighter.

    It loses what the game's loses, and gains what that gains, but not what was topped up.

    Args:
        full: Full health.

    Attributes:
        full: See above.
        left: What the episode counts, from 0 to `full`.
        real: What the game has, as far as known.
    """

    def __init__(self, full: float) -> None:
        self.full = full
        self.left = full
        self.real = full

    def begin(self, left: float, real: float) -> None:
        """Begin an episode with so much left, while the game has so much."""
        self.left, self.real = left, real

    def see(self, real: float, least: float = 0.0) -> None:
        """Take in what the game has now.

        Args:
            real: That.
            least: Losses stop here, if `left` is not below it already: no blow of a first phase takes more than it.
        """
        change = real - self.real
        self.real = real
        if change < 0.0:
            self.left = max(self.left + change, min(least, self.left))
        else:
            self.left = min(self.left + change, self.full)

    def end(self) -> None:
        """All of it is gone, whatever was counted."""
        self.left = 0.0

    def top_up(self, floor: float, *, is_held: bool) -> float | None:
        """Return what to write to the game; None if nothing needs to be.

        Args:
            floor: The game does something of its own at this health.
            is_held: Time stands between the look and the write, so that no hit can be lost.
        """
        reserve = self.full if is_held else floor + RUNNING_RESERVE * (self.full - floor)
        if self.real >= reserve:
            return None
        self.real = self.full
        return self.full
