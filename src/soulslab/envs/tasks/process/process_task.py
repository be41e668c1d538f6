"""The task of `GameEnv` that the ``[env]`` table of a profile defines, with its reward."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.game.task import EpisodeRequest, TaskStep
from soulslab.envs.game.timing import Keys, Reading, StepTiming, TickCount
from soulslab.envs.tasks.process.process_settings import POSITION_KINDS, EnvSettings, RewardTerm, tick_s
from soulslab.envs.tasks.process.process_spaces import ActionKeys, ObservationEncoder
from soulslab.envs.tasks.process.reset_procedure import ResetProcedure, read_each
from soulslab.errors import ClockStalledError, ControlTakenError, ReadOnlyError, SelfCheckError, SiphonError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile
from soulslab.siphon.session import LOADING, Session, Snapshot, Step, StepResult


class ProcessState(msgspec.Struct, frozen=True, eq=False):
    """State of the game at one read; the frame is (H, W) or (H, W, 3) uint8, None for observations without a frame."""

    values: Snapshot
    frame: NDArray[np.uint8] | None


class ProcessTask:
    """Task of a game with a profile (`soulslab.envs.game.task.Task`).

    A read-only game is only observed, without keys and writes. Each start of a deterministic game is deterministic.
    An episode needs `attributes`.
    """

    reset_options: tuple[str, ...] = ("restart", "deterministic")

    def __init__(
        self, settings: EnvSettings, profile: Profile, *, is_read_only: bool = False, is_deterministic: bool = False
    ) -> None:
        self._settings, self._profile = settings, profile
        self._is_read_only, self._is_deterministic = is_read_only, is_deterministic
        self._tick_s = tick_s(profile)
        self._encoder = ObservationEncoder(settings, profile)
        self._actions = ActionKeys(settings, profile)
        self._rewards = ProfileReward(settings.reward)
        self._reset = ResetProcedure(settings, profile, is_read_only)
        self._ticks = TickCount(profile, settings.on_lost_tick)
        names = [*self._encoder.names, *self._rewards.names, *settings.info]
        names += [condition.attribute for condition in settings.end.values()]
        names += [profile.clock.tick_attribute] if profile.clock.tick_attribute else []
        pixels = settings.pixels
        has_frame = settings.observation in ("pixels", "both")
        frame = FrameFormat(pixels.width_px, pixels.height_px, pixels.is_grey) if has_frame else None
        self._reading = Reading(tuple(dict.fromkeys(names)), frame)
        self.observation_space = self._encoder.space
        self.action_space = self._actions.space
        self.action_names = self._actions.names
        self.attributes = (*self._reading.attributes, *self._reset.names)
        self._is_lockstep = False
        self._stalled_s = 0.0

    def begin(self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest) -> TaskStep[ProcessState]:
        """See `Task.begin`; a failed start is retried up to ``env.max_retries`` times with a restart of the game."""
        n_ticks = int(request.rng.integers(self._settings.random_start_ticks + 1))
        self._seed_start(holder, request)
        for tries_left in range(self._settings.max_retries, -1, -1):
            try:
                result = self._run_reset(holder, timing, request, n_ticks)
                break
            except (ControlTakenError, SelfCheckError):  # a restart of the game does not help
                raise
            except SiphonError:
                holder.is_lost = True
                if not tries_left or not holder.is_open:
                    raise
        self._rewards.begin(result.snapshot)
        self._is_lockstep = holder.session.info.clock_grade == "lockstep"
        self._stalled_s = 0.0
        return TaskStep(state=_state(result), game_time_s=result.snapshot.game_time_s, late_s=result.advance.late_s)

    def parse_action(self, action: Any, state: ProcessState) -> Keys:
        """See `Task.parse_action`."""
        del state
        held = self._actions.held(action)
        if held and self._is_read_only:
            raise ReadOnlyError(
                f"cannot hold {', '.join(held)}: the environment is read-only; the action must not hold a key"
            )
        return Keys(held)

    def advance(
        self, holder: SessionHolder, timing: StepTiming, state: ProcessState, action: Keys, *, is_last_step: bool
    ) -> TaskStep[ProcessState]:
        """See `Task.advance`; waits while values cannot be read because the game loads."""
        started_s = time.monotonic()
        try:
            result, missing, n_waited = self._step_game(holder.session, timing, state, action)
        except LOADING:  # values that stay unreadable need a restart
            holder.is_lost = True
            raise
        values = result.snapshot
        if self._ticks.attribute and self._ticks.attribute not in missing:
            self._count_ticks(int(values[self._ticks.attribute]), n_waited)
            self._refuse_stall(time.monotonic() - started_s)
        shares = self._rewards(values)
        n_expected = (self._settings.step_ticks or 0) * self._settings.frame_skip + n_waited
        info = {"reward_terms": shares, **self._tick_info(self._ticks.n_ticks, n_expected)}
        readable = {name: value for name, value in values.items() if name not in missing} if missing else values
        end = next((name for name, condition in self._settings.end.items() if condition.holds(readable)), "")
        if end or is_last_step:
            info["end"] = end or "max_steps"
        return TaskStep(
            state=_state(result),
            game_time_s=values.game_time_s,
            late_s=result.advance.late_s,
            reward=sum(shares.values()),
            is_terminated=bool(end),
            info=info,
        )

    def observation(self, state: ProcessState) -> Any:
        """See `Task.observation`."""
        return self._encoder.observation(state.values, state.frame)

    def action_mask(self, state: ProcessState) -> NDArray[np.bool_] | None:
        """See `Task.action_mask`: all discrete actions, or only "nothing" if the environment is read-only."""
        del state
        if not isinstance(self.action_space, spaces.Discrete):
            return None
        mask = np.ones(int(self.action_space.n), np.bool_)
        mask[1:] = not self._is_read_only
        return mask

    def info(self, state: ProcessState) -> dict[str, Any]:
        """See `Task.info`."""
        info = {"reward_terms": dict.fromkeys(self._rewards.terms, 0.0), **self._tick_info(0, 0)}
        if self._settings.info:
            info["values"] = {name: state.values[name] for name in self._settings.info}
        return info

    def release(self, holder: SessionHolder) -> None:
        """See `Task.release`: there is nothing to restore."""

    # --- the start of an episode ----------------------------------------------------------------------------

    def _seed_start(self, holder: SessionHolder, request: EpisodeRequest) -> None:
        """Set the seed of the next start of the game, and request a restart if the episode needs one."""
        is_requested = bool(request.options.get("deterministic"))
        self._is_deterministic = self._is_deterministic or is_requested
        if not self._is_deterministic:
            return
        seed = request.seed
        holder.seed = seed % 2**32 if seed is not None else int(request.rng.integers(2**32))
        has_other_start = is_requested or seed is not None or holder.started_seed is None
        if holder.is_open and has_other_start:
            holder.is_lost = True

    def _run_reset(
        self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest, n_ticks: int
    ) -> StepResult:
        """Run the reset procedure, advance the random ticks, and read the first state."""
        self._reset.run(holder, request.deadline)
        timing.begin(holder.session)
        reading = self._reading
        result = holder.session.step(
            Step(held=(), advance_s=n_ticks * self._tick_s, attributes=reading.attributes, frame=reading.frame)
        )
        if self._ticks.attribute:
            self._ticks.begin(int(result.snapshot[self._ticks.attribute]))
        self._reset.refuse_end(result.snapshot)
        return result

    # --- a step ---------------------------------------------------------------------------------------------

    def _step_game(
        self, session: Session, timing: StepTiming, state: ProcessState, keys: Keys
    ) -> tuple[StepResult, tuple[str, ...], int]:
        """Advance a step; wait while values cannot be read because the game loads.

        The result is followed by the attributes that could not be read (only if that ends the episode), and the waited
        ticks.
        """
        reading, n_waited = self._reading, 0
        try:
            return timing.play(session, keys, reading)[0], (), n_waited
        except LOADING as error:
            cause = error
        tick = Step(advance_s=self._tick_s, attributes=reading.attributes, frame=reading.frame)
        while n_waited < self._settings.retry_ticks:
            n_waited += 1
            try:
                return session.step(tick), (), n_waited
            except LOADING as error:
                cause = error
        read = read_each(session, reading.attributes)
        missing = tuple(name for name in reading.attributes if name not in read)
        if not any(
            condition.unreadable and condition.attribute in missing for condition in self._settings.end.values()
        ):
            raise cause
        # The missing attributes keep their last values.
        names = tuple(name for name in reading.attributes if name not in missing)
        result = session.step(Step(attributes=names, frame=reading.frame))
        values = result.snapshot
        kept = {name: state.values[name] for name in missing}
        snapshot = Snapshot({**kept, **values}, values.game_time_s, values.wall_time_s)
        return StepResult(result.advance, snapshot, result.frame), missing, n_waited

    def _count_ticks(self, ticks: int, n_waited: int) -> None:
        """Count the ticks of a step. After a wait for the game to load, their number need not be exact."""
        settings = self._settings
        is_exact = self._is_lockstep and settings.step_ticks is not None and not n_waited
        self._ticks.add(ticks, (settings.step_ticks or 0) * settings.frame_skip if is_exact else None)

    def _refuse_stall(self, took_s: float) -> None:
        """Raise `ClockStalledError` if the game has made no tick for ``env.stall_s`` of wall time."""
        self._stalled_s = 0.0 if self._ticks.n_ticks else self._stalled_s + took_s
        if self._stalled_s > self._settings.stall_s:
            raise ClockStalledError(
                f"attribute {self._ticks.attribute!r} stayed at {self._ticks.value} through steps of "
                f"{self._stalled_s:.1f} s of wall time: the game shows a message, is paused, or waits for something "
                f"else. reset() restarts it; if this is normal for this game, increase env.stall_s",
                self._stalled_s,
            )

    def _tick_info(self, n_ticks: int, n_expected: int) -> dict[str, Any]:
        if self._settings.step_ticks is None or not self._profile.clock.tick_attribute:
            return {}
        return {**self._ticks.info(n_ticks, is_exact=self._is_lockstep), "ticks_expected": n_expected}


def _state(result: StepResult) -> ProcessState:
    return ProcessState(result.snapshot, result.frame.pixels if result.frame is not None else None)


class ProfileReward:
    """A sum of weighted terms, with their state in an episode; `names` are the attributes that the terms use."""

    def __init__(self, terms: Mapping[str, RewardTerm]) -> None:
        self.terms = dict(terms)
        self.names = tuple(dict.fromkeys(name for term in terms.values() for name in term.attributes))
        self._positions: dict[str, _PositionTracker] = {}
        self._before: Mapping[str, Any] = {}

    def begin(self, values: Mapping[str, Any]) -> None:
        """Start an episode with the current values of the attributes."""
        self._before = values
        self._positions = {
            name: _PositionTracker(term, values) for name, term in self.terms.items() if term.kind in POSITION_KINDS
        }

    def __call__(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the weighted contribution of each term to the reward of a step, given the values after it."""
        shares = {name: term.weight * self._amount(name, term, values) for name, term in self.terms.items()}
        self._before = values
        return shares

    def _amount(self, name: str, term: RewardTerm, values: Mapping[str, Any]) -> float:
        if term.kind in POSITION_KINDS:
            return self._positions[name].move(values)
        attribute = term.attributes[0]
        value = float(values[attribute])
        if term.kind == "value":
            return value
        change = value - float(self._before[attribute])
        return {"gain": max(change, 0.0), "loss": max(-change, 0.0), "change": change}[term.kind]


class _PositionTracker:
    """Path of a position in an episode, for one reward term."""

    def __init__(self, term: RewardTerm, values: Mapping[str, Any]) -> None:
        self._term = term
        self._start = self._last = self._position(values)
        self._farthest = 0.0
        self._cells = {self._cell(self._start)}

    def move(self, values: Mapping[str, Any]) -> float:
        """Add the position in the values to the path, and return the unweighted reward for it."""
        position = self._position(values)
        moved = float(np.linalg.norm(position - self._last))
        self._last = position
        if self._term.kind == "distance":
            return moved
        if self._term.kind == "farthest":
            reached = float(np.linalg.norm(position - self._start))
            progress = max(0.0, reached - self._farthest)
            self._farthest += progress
            return progress
        cell = self._cell(position)
        is_new = cell not in self._cells
        self._cells.add(cell)
        return float(is_new)

    def _position(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        return np.concatenate([np.atleast_1d(values[name]) for name in self._term.attributes]).astype(np.float64)

    def _cell(self, position: NDArray[np.float64]) -> tuple[int, ...]:
        return tuple(np.floor(position / self._term.cell).astype(np.int64).tolist())
