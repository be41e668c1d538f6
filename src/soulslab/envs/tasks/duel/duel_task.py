"""A boss duel in a running game, as a task of `GameEnv`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.records import Record
from soulslab.arena.vocabulary import N_ACTIONS, NOTHING
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.game.task import EpisodeRequest, TaskStep
from soulslab.envs.game.timing import Keys, Reading, StepTiming, TickCount
from soulslab.envs.tasks.duel.duel_actions import (
    DecodedAction,
    DuelActions,
    OpenActions,
    find_open_actions,
    is_falling,
    keys_of,
)
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_observation import ObservationBuilder
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_reader import DuelReader
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.episode import Episode, Outcome
from soulslab.envs.tasks.duel.fight_score import FightScore, nearest_pose
from soulslab.envs.tasks.duel.key_check import check_keys
from soulslab.errors import EnvironmentUsageError, ReadOnlyError
from soulslab.siphon.session import Step, StepResult

#: In a read-only environment only "nothing" is open.
_OBSERVER_MASK = np.arange(N_ACTIONS) == NOTHING


class DuelState(msgspec.Struct, frozen=True, eq=False):
    """State of the duel at one reading.

    The next reading overwrites `record`. `tick` is -1 if the game does not count ticks; `picture` is (H, W) or
    (H, W, 3) uint8.
    """

    record: Record
    boss_animation: str
    is_falling: bool
    outcome: Outcome
    open_actions: OpenActions
    tick: int
    game_time_s: float
    late_s: float
    picture: NDArray[np.uint8] | None


class DuelTask:
    """A boss duel in a running game (`Task`); `record` is the `DUEL_STATE` of the last reading."""

    reset_options: tuple[str, ...] = ("restart",)

    def __init__(
        self, game: DuelGame, scenario: Scenario, episode: Episode, options: DuelOptions, *, is_read_only: bool = False
    ) -> None:
        self.game, self.episode = game, episode
        self._scenario, self._options, self._is_read_only = scenario, options, is_read_only
        times = options.times
        self.actions = DuelActions(options.action_mode, options.actions, options.threshold)
        self.score = FightScore(scenario, options.reward, times.step_s)
        last = (options.n_last_actions, len(self.actions.names))
        self.observation_builder = ObservationBuilder(options.observation, scenario, options.pixels, last)
        self.observation_space = self.observation_builder.space
        self.action_space = self.actions.space
        self._reader = DuelReader(game.binding, scenario, game.source)
        self.record: Record = self._reader.state
        self._keys = tuple(keys_of(action, game.profile.keys, game.source) for action in range(N_ACTIONS))
        bound = game.binding.attributes
        wanted = dict.fromkeys((*self._reader.quantities, *episode.quantities, *game.origin_quantities))
        self._quantities = [(quantity, bound[quantity]) for quantity in wanted if quantity in bound]
        game.step_quantities = tuple(quantity for quantity, _ in self._quantities)
        # A step of several decisions in lockstep takes only the picture of its end.
        is_late_frame = options.skip_locked and options.timing == "lockstep"
        frame = self.observation_builder.frame
        self._late_frame = frame if is_late_frame else None
        self._reading = Reading(tuple(name for _, name in self._quantities), None if is_late_frame else frame)
        self._mask = np.ones(N_ACTIONS, np.bool_)
        self._ticks = TickCount(game.profile)
        n_ticks = times.step_s * game.profile.clock.tick_hz
        is_whole = bool(game.profile.clock.tick_attribute) and abs(n_ticks - round(n_ticks)) < 1e-6
        self._decision_ticks = round(n_ticks) if is_whole and options.timing == "lockstep" else None
        self._is_lockstep = False
        self._must_check_keys = options.check_keys and not is_read_only
        self._max_decisions = options.max_decisions
        self._n_masked = 0

    def begin(self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest) -> TaskStep[DuelState]:
        """See `Task.begin`."""
        game, episode = self.game, self.episode
        if self._must_check_keys:
            # After the check the episode begins again, with the same random numbers.
            episode.begin(game, copy.deepcopy(request.rng), request.seed, request.deadline)
            check_keys(game, self._scenario, self.actions.buttons)
            self._must_check_keys = False
        episode.begin(game, request.rng, request.seed, request.deadline)
        with holder.marking_loss():
            state = self._first_state(holder, timing)
        self._is_lockstep = holder.session.info.clock_grade == "lockstep"
        self.observation_builder.begin()
        self._n_masked = 0
        self._ticks.begin(state.tick)
        number = episode.start_pose
        if number < 0 and self._options.random_pose:
            number = nearest_pose(self._scenario, state.record)
        self.score.begin(state.record, number)
        return TaskStep(state=state, game_time_s=state.game_time_s)

    def parse_action(self, action: Any, state: DuelState) -> tuple[Any, DecodedAction]:
        """See `Task.parse_action`."""
        decoded = self.actions.decode(action, state.open_actions)
        if self._is_read_only and decoded.action != NOTHING:
            raise ReadOnlyError("cannot send keys: the environment is read-only; the action has to be 'nothing'")
        return action, decoded

    def advance(
        self,
        holder: SessionHolder,
        timing: StepTiming,
        state: DuelState,
        action: tuple[Any, DecodedAction],
        *,
        is_last_step: bool,
    ) -> TaskStep[DuelState]:
        """See `Task.advance`; with ``skip_locked`` a step continues while "nothing" is the only open action."""
        given, decoded = action
        self._n_masked += decoded.is_masked
        state, n_decisions, is_truncated = self._play(holder, timing, decoded.action)
        if self._late_frame is not None:
            state = msgspec.structs.replace(state, picture=holder.session.capture(self._late_frame).pixels)
        self.observation_builder.record_action(self.actions.one_hot(given))
        is_truncated = (is_truncated or is_last_step) and not state.outcome
        reward, contributions = self.score.finish_step(state.outcome, is_truncated=is_truncated)
        info = {"n_decisions": n_decisions, "reward_terms": contributions, **self._count_ticks(state.tick, n_decisions)}
        if state.outcome or is_truncated:
            info["fight"] = self.score.report(is_won=state.outcome == "won")
        return TaskStep(
            state=state,
            game_time_s=state.game_time_s,
            late_s=state.late_s,
            reward=reward,
            is_terminated=bool(state.outcome),
            is_truncated=is_truncated,
            info=info,
        )

    def observation(self, state: DuelState) -> Any:
        """See `Task.observation`."""
        return self.observation_builder.observation(state.record, state.picture)

    def action_mask(self, state: DuelState) -> NDArray[np.bool_]:
        """See `Task.action_mask`; in a read-only environment only "nothing" is open."""
        if not self._is_read_only:
            state.open_actions.write(self._mask)
            return self.actions.mask(self._mask, state.open_actions)
        return self.actions.mask(_OBSERVER_MASK, OpenActions(False, False, False))

    def info(self, state: DuelState) -> dict[str, Any]:
        """See `Task.info`."""
        terms = dict.fromkeys(self.score.term_names, 0.0)
        return {"n_decisions": 0, "n_masked": self._n_masked, "reward_terms": terms, **self._tick_info(state.tick, 0)}

    def release(self, holder: SessionHolder) -> None:
        """See `Task.release`."""
        del holder
        self.episode.release(self.game)

    def write_quantities(self, values: Mapping[str, Any]) -> None:
        """Write to the game between two steps; the reward of the next step does not count the change."""
        with self.game.holder.marking_loss():
            self.game.write(values)
        self._reader.apply_write(values, has_real_health=self._options.episodes == "demo")
        self.score.set_baseline(self.record)

    def restore_player(self) -> None:
        """Restore the player's health between two steps; the reward of the next step does not count the change."""
        with self.game.holder.marking_loss():
            self.episode.restore_player(self.game, self._reader.state)
        self.score.set_baseline(self.record)

    # --- readings -------------------------------------------------------------------------------------------

    def _first_state(self, holder: SessionHolder, timing: StepTiming) -> DuelState:
        """Read the first state of an episode, with no key held."""
        session = holder.session
        self._check_fight()
        self._reader.begin(self.episode.start_phase, self.game.vitals(self._scenario))
        timing.begin(session)
        step = Step(held=(), attributes=self._reading.attributes, frame=self._reading.frame)
        state = self._read(session.step(step), 0.0)
        if self._late_frame is None:
            return state
        return msgspec.structs.replace(state, picture=session.capture(self._late_frame).pixels)

    def _play(self, holder: SessionHolder, timing: StepTiming, action: int) -> tuple[DuelState, int, bool]:
        """Play the decisions of a step; return the last state, their number, and whether their limit was reached."""
        score, max_decisions = self.score, self._max_decisions
        score.begin_step()
        n = 0
        while True:
            keys = self._keys[action]
            if extra := self.game.keys(self.episode.extra_buttons):
                keys = Keys((*keys.held, *extra), (*keys.again, *extra))
            result, late_s = timing.play(holder.session, keys, self._reading)
            state = self._read(result, late_s)
            n += 1
            is_over = bool(state.outcome)
            score.add(action, state.record, state.boss_animation, is_falling=state.is_falling, is_over=is_over)
            is_truncated = max_decisions is not None and score.n_decisions >= max_decisions
            can_act = not self._options.skip_locked or state.open_actions.write(self._mask) > 1
            if is_over or is_truncated or can_act:
                return state, n, is_truncated
            action = NOTHING

    def _read(self, result: StepResult, late_s: float) -> DuelState:
        """Return the state of a reading."""
        snapshot, binding, reader = result.snapshot, self.game.binding, self._reader
        read = {quantity: binding.decode(quantity, snapshot[name]) for quantity, name in self._quantities}
        read = self.game.convert_positions(read)
        reader.update(read, snapshot.game_time_s)
        self.episode.process_reading(self.game, reader.state, read)
        open_actions = find_open_actions(reader.player_animation, reader.player_animation_s, read["player.sp"])
        return DuelState(
            record=reader.state,
            boss_animation=reader.boss_animation,
            is_falling=is_falling(reader.player_animation),
            outcome=self.episode.outcome(reader.state),
            open_actions=open_actions,
            tick=reader.tick,
            game_time_s=snapshot.game_time_s,
            late_s=late_s,
            picture=result.frame.pixels if result.frame is not None else None,
        )

    def _check_fight(self) -> None:
        """Raise `EnvironmentUsageError` if the full health in the game differs from that of the scenario."""
        wanted = {"player.max_hp": self._scenario.player_max_hp, "boss.max_hp": self._scenario.boss_max_hp}
        found = self.game.read(*(name for name in wanted if self.game.has(name)))
        for name, value in found.items():
            if wanted[name] is not None and round(value) != wanted[name]:
                raise EnvironmentUsageError(
                    f"{name} is {value:g} in the game, but {wanted[name]} against {self._scenario.name}: the game "
                    f"has another boss or another character; change it, or give a fact file with this number "
                    f"(docs/bosses.md)"
                )

    # --- ticks ----------------------------------------------------------------------------------------------

    def _count_ticks(self, tick: int, n_decisions: int) -> dict[str, Any]:
        """Count the ticks of a step; return their entries of ``info``."""
        if tick >= 0:
            n_expected = n_decisions * self._decision_ticks if self._decision_ticks is not None else None
            self._ticks.add(tick, n_expected if self._is_lockstep else None)
        return self._tick_info(tick, self._ticks.n_ticks)

    def _tick_info(self, tick: int, n_ticks: int) -> dict[str, Any]:
        is_exact = self._is_lockstep and self._decision_ticks is not None
        return self._ticks.info(n_ticks, is_exact=is_exact) if tick >= 0 else {}
