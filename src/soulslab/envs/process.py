"""Any game with a profile as a Gymnasium environment (``soulslab/Process-v0``).

::

    env = gymnasium.make("soulslab/Process-v0", profile="my_game.toml")

The profile's ``[env]`` table says what is observed, which keys are actions, what is rewarded and when an episode ends.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.envs.arguments import reset_options_of
from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.game.connect import GameStart, hold_session
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.process_options import find_profile, make_options, make_settings
from soulslab.envs.process_rewards import Rewards
from soulslab.envs.process_settings import tick_s
from soulslab.envs.process_spaces import ActionKeys, StateSpace
from soulslab.envs.process_start import EpisodeStart
from soulslab.envs.tick_count import TickCount
from soulslab.errors import (
    ClockStalledError,
    ControlTakenError,
    EnvironmentUsageError,
    LostTickError,
    NotResetError,
    ReadOnlyError,
    SelfCheckError,
    SiphonError,
    WaitTimeoutError,
)
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.session import LOADING, Session, Snapshot, Step, StepResult

Info = dict[str, Any]


class ProcessEnv(gymnasium.Env[Any, Any]):
    """A game that is described by a profile, as an environment.

    One step is one `Session.step`: keys that change, game time, one reading of all attributes, one picture. ``info``
    holds ``clock`` (the grade of game time), ``late_s``, ``game_time_s`` (of the episode), ``n_restarts`` (of the game,
    to get this episode started), ``values`` (what ``env.info`` names), with discrete actions ``action_mask``, all
    True, ``reward_terms`` (what each added) and, where the profile names a tick attribute, ``ticks`` and
    ``ticks_expected``, with a lockstep clock also ``ticks_lost`` and ``ticks_doubled`` of the episode so far (a step
    that waited for the game to load is not counted). A reset has the same keys as a step. After the last step there is
    also ``end`` (which condition, ``max_steps`` or ``failure``). Where an end asks for a value that is unreadable, the
    last observation has the last value of each attribute that cannot be read.

    When a step fails (the game was killed, its window closed, a value cannot be read), it raises; the next `reset`
    brings the game back, by a restart if it must. No value is made up. With ``on_failure="truncate"`` it ends the
    episode instead, with the last observation, a reward of 0, and ``info["failure"]``: ``error`` (the class) and
    ``message``.

    Args:
        render_mode: None, ``"rgb_array"``, or ``"human"`` (the game's window opens on your own screen, at its own
            speed).
        options: See `ProcessOptions` and `ConnectOptions`.

    Raises:
        EnvironmentUsageError: An option is wrong.
        ProfileError: The profile is.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise EnvironmentUsageError(f"render_mode must be None, 'rgb_array' or 'human', not {render_mode!r}")
        self.render_mode = render_mode
        given, connect = make_options(options)
        self.profile, source = find_profile(given, connect)
        settings = make_settings(given, self.profile, source)
        self._tick_s = tick_s(self.profile)
        self._step_s = settings.frame_skip * (settings.step_s or (settings.step_ticks or 0) * self._tick_s)
        self.metadata = {**self.metadata, "render_fps": max(1, round(1 / self._step_s))}
        self._settings = settings
        self._on_failure = given.on_failure
        self._latest: StepResult | None = None
        self._state = StateSpace(settings, self.profile)
        self._actions = ActionKeys(settings, self.profile)
        self._rewards = Rewards(settings.reward)
        self._start = EpisodeStart(settings, self.profile, connect.read_only)
        display = "" if render_mode == "human" else "private"
        start = GameStart(launch=given.launch, options=given.options, display=display)
        self._holder = hold_session(connect, self.profile, start)
        self._is_deterministic = given.deterministic
        self._look = self._make_look()
        self._holder.check = AttributeGate((*(self._look.attributes or ()), *self._start.names))
        self.observation_space = self._state.space
        self.action_space = self._actions.space
        self.action_names = self._actions.names
        self._is_read_only = connect.read_only
        self._ticks = TickCount(self.profile, settings.on_lost_tick)
        self._stood_s = 0.0
        self._n_steps = 0
        self._grade = ""
        self._is_ready = False
        self._start_s = 0.0
        self._n_restarts = 0
        self._next_step_at = 0.0

    # --- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode; see `gymnasium.Env.reset`. Brings the game back if it is gone.

        Args:
            seed: Draws ``random_start_ticks``. In a deterministic environment (`ProcessOptions.deterministic`) it also
                restarts the game with this seed, modulo 2**32; starts without one get seeds that follow from it.
            options: ``{"restart": True}`` restarts the game first. ``{"deterministic": True}`` makes the environment
                deterministic from now on, and restarts the game.

        Raises:
            ControlTakenError: Another environment controls the game.
            SelfCheckError: The profile does not know this version of the game, and what is needed does not fit it.
            SiphonError: The start failed, also after ``env.max_retries`` restarts.
            EnvironmentUsageError: An option is unknown.
        """
        given = reset_options_of(options, ("restart", "deterministic"))
        super().reset(seed=seed)
        self._is_ready = False
        if given.get("restart"):
            self._holder.is_lost = True
        n_restarts = self._holder.n_restarts
        n_ticks = int(self.np_random.integers(self._settings.random_start_ticks + 1))
        self._seed_start(seed, is_asked=bool(given.get("deterministic")))
        deadline = Deadline(self._settings.reset_deadline_s)
        for tries_left in range(self._settings.max_retries, -1, -1):
            try:
                result = self._begin(n_ticks, deadline)
                break
            except (ControlTakenError, SelfCheckError):  # a restart of the game does not help
                raise
            except SiphonError:
                self._holder.is_lost = True
                if not tries_left or not self._holder.is_open:
                    raise
        self._latest = result
        self._rewards.begin(result.snapshot)
        self._n_steps = 0
        self._stood_s = 0.0
        self._is_ready = True
        self._grade = self._holder.session.info.clock_grade
        self._start_s = result.snapshot.game_time_s
        self._n_restarts = self._holder.n_restarts - n_restarts
        self._next_step_at = time.monotonic()
        return self._observation(result), self._info(result) | self._step_info(self._rewards.no_shares(), 0, 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Hold the action's keys for the length of a step and look; see `gymnasium.Env.step`.

        Raises:
            NotResetError: Before the first reset, after the end of an episode, or after a step that failed.
            InvalidActionError: The action is not in the space.
            ReadOnlyError: The environment is read-only, and the action holds keys.
            SiphonError: The step failed, with ``on_failure="raise"``; call `reset`, which brings the game back.
        """
        if not self._is_ready:
            raise NotResetError("step: the episode is over, has not begun, or has failed; call reset() first")
        held = self._actions.held(action)
        if held and self._is_read_only:
            raise ReadOnlyError(
                f"cannot hold {', '.join(held)}: the environment is read-only; the action has to hold no key"
            )
        self._is_ready = False
        try:
            result, missing, n_waited = self._play(held)
        except LostTickError:
            raise
        except SiphonError as error:
            if self._on_failure == "raise":
                raise
            return self._cut_off(error)
        values = result.snapshot
        shares = self._rewards(values)
        self._n_steps += 1
        end = self._end(values, missing)
        is_cut = not end and self._n_steps == self._settings.max_steps
        self._is_ready = not (end or is_cut)
        n_expected = (self._settings.step_ticks or 0) * self._settings.frame_skip + n_waited
        info = self._info(result) | self._step_info(shares, self._ticks.n_ticks, n_expected)
        if end or is_cut:
            info["end"] = end or "max_steps"
        self._latest = result
        return self._observation(result), sum(shares.values()), bool(end), is_cut, info

    def render(self) -> Any:
        """Return the game's window, (H, W, 3) RGB, as it is now; None without ``render_mode="rgb_array"``.

        Raises:
            NotResetError: Before the first reset.
            WindowGoneError: The window was closed.
        """
        if self.render_mode != "rgb_array":
            return None
        if not self._grade:
            raise NotResetError("render: there is no game yet; call reset() first")
        return self._holder.session.capture().pixels

    def close(self) -> None:
        """Release all keys and end the game, if it was started for this environment."""
        self._is_ready = False
        self._holder.close()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the open actions of a discrete space, by the name that MaskablePPO looks for."""
        if not isinstance(self.action_space, spaces.Discrete):
            raise EnvironmentUsageError("action_masks: only discrete actions have a mask")
        return self._action_mask(self.action_space)

    # --- the session ----------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session with the game, for whoever looks closer; it is opened if it is not yet."""
        return self._holder.session

    @property
    def needs_reset(self) -> bool:
        """Whether `step` would be refused: no episode has begun, or it is over or has failed."""
        return not self._is_ready

    def _make_look(self) -> Step:
        """Return the step that only looks."""
        settings, clock = self._settings, self.profile.clock
        names = [*self._state.names, *self._rewards.names, *settings.info]
        names += [condition.attribute for condition in settings.end.values()]
        names += [clock.tick_attribute] if clock.tick_attribute else []
        pixels = settings.pixels
        frame = FrameFormat(pixels.width_px, pixels.height_px, pixels.is_grey)
        has_frame = settings.observation in ("pixels", "both")
        return Step(attributes=tuple(dict.fromkeys(names)), frame=frame if has_frame else None)

    def _seed_start(self, seed: int | None, *, is_asked: bool) -> None:
        """Set the seed of the next start of the game, and have the game restarted if it needs another start."""
        self._is_deterministic = self._is_deterministic or is_asked
        if not self._is_deterministic:
            return
        self._holder.seed = int(self.np_random.integers(2**32)) if seed is None else seed % 2**32
        has_other_start = is_asked or seed is not None or self._holder.started_seed is None
        if self._holder.is_open and has_other_start:
            self._holder.is_lost = True

    def _begin(self, n_ticks: int, deadline: Deadline) -> StepResult:
        self._start.play(self._holder, deadline)
        advance_s = n_ticks * self._tick_s
        look = msgspec.structs.replace(self._look, held=(), advance_s=advance_s)
        result = self._holder.session.step(look)
        if self._ticks.attribute:
            self._ticks.begin(int(result.snapshot[self._ticks.attribute]))
        if name := self._end(result.snapshot):
            condition = self._settings.end[name]
            hint = f"env.end.{name} ({condition}) holds after env.reset; wait for its contrary there"
            raise WaitTimeoutError("the start of an episode", 0.0, hint)
        return result

    def _play(self, held: tuple[str, ...]) -> tuple[StepResult, tuple[str, ...], int]:
        """Play a step; wait while values cannot be read because the game loads.

        Returns:
            What was seen, the attributes that could not be read (only where that ends the episode), and the ticks of
            the wait.
        """
        step = msgspec.structs.replace(self._look, held=held, advance_s=self._step_s)
        started_s = time.monotonic()
        missing: tuple[str, ...] = ()
        try:
            for n_waited in range(self._settings.retry_ticks + 1):
                try:
                    result = self._holder.session.step(step)
                    break
                except LOADING:
                    if n_waited == self._settings.retry_ticks:
                        missing = self._unreadable()
                        if not self._is_end(missing):
                            raise
                        result = self._look_without(missing)
                    step = msgspec.structs.replace(self._look, advance_s=self._tick_s)
            if self._ticks.attribute and self._ticks.attribute not in missing:
                self._count_ticks(int(result.snapshot[self._ticks.attribute]), n_waited)
                self._refuse_stall(self._ticks.n_ticks != 0, time.monotonic() - started_s)
        except SiphonError:
            self._holder.is_lost = True
            raise
        if self.render_mode == "human":
            self._pace()
        return result, missing, n_waited

    def _unreadable(self) -> tuple[str, ...]:
        """Return the attributes that cannot be read now."""
        missing = []
        for name in self._look.attributes or ():
            try:
                self._holder.session.read(name)
            except LOADING:
                missing.append(name)
        return tuple(missing)

    def _is_end(self, missing: tuple[str, ...]) -> bool:
        """Return whether the episode ends because attributes cannot be read."""
        return any(condition.unreadable and condition.attribute in missing for condition in self._settings.end.values())

    def _look_without(self, missing: tuple[str, ...]) -> StepResult:
        """Look at the game without some attributes, which keep their last values. Raises as `Session.step`."""
        names = tuple(name for name in self._look.attributes or () if name not in missing)
        result = self._holder.session.step(msgspec.structs.replace(self._look, attributes=names))
        seen = result.snapshot
        last = {} if self._latest is None else {name: self._latest.snapshot[name] for name in missing}
        return StepResult(result.advance, Snapshot({**last, **seen}, seen.game_time_s, seen.wall_time_s), result.frame)

    def _end(self, values: Snapshot, missing: tuple[str, ...] = ()) -> str:
        """Return the name of the end condition that holds; "" for none."""
        read = {name: value for name, value in values.items() if name not in missing} if missing else values
        return next((name for name, condition in self._settings.end.items() if condition.holds(read)), "")

    def _cut_off(self, error: SiphonError) -> tuple[Any, float, bool, bool, Info]:
        """Return the end of an episode whose game failed: the last observation, and the reason."""
        if self._latest is None:
            raise AssertionError("a step without a reset")
        info = self._info(self._latest)
        info["late_s"] = 0.0
        info |= self._step_info(dict.fromkeys(self._rewards.terms, 0.0), 0, 0)
        info["end"] = "failure"
        info["failure"] = {"error": type(error).__name__, "message": str(error)}
        return self._observation(self._latest), 0.0, False, True, info

    def _count_ticks(self, ticks: int, n_waited: int) -> None:
        """Count the ticks of a step; those of a game that loads are not expected to be exact."""
        settings = self._settings
        is_exact = self._grade == "lockstep" and settings.step_ticks is not None and not n_waited
        self._ticks.add(ticks, (settings.step_ticks or 0) * settings.frame_skip if is_exact else None)

    def _refuse_stall(self, has_moved: bool, took_s: float) -> None:
        """Raise `ClockStalledError` where the game lets time pass, but has not got on for long: in a message box."""
        self._stood_s = 0.0 if has_moved else self._stood_s + took_s
        if self._stood_s > self._settings.stall_s:
            raise ClockStalledError(
                f"attribute {self._ticks.attribute!r} stayed at {self._ticks.value} through steps of "
                f"{self._stood_s:.1f} s of wall time: the game shows a message, is paused, or waits for something "
                f"else. reset() restarts it; where that is normal for this game, raise env.stall_s",
                self._stood_s,
            )

    def _pace(self) -> None:
        """Wait until a step has lasted as long for the onlooker as it did in the game."""
        self._next_step_at = max(self._next_step_at + self._step_s, time.monotonic())
        time.sleep(self._next_step_at - time.monotonic() if self._next_step_at > time.monotonic() else 0.0)

    # --- what comes out -------------------------------------------------------------------------------------

    def _observation(self, result: StepResult) -> Any:
        return self._state.observation(result.snapshot, None if result.frame is None else result.frame.pixels)

    def _step_info(self, shares: dict[str, float], n_ticks: int, n_expected: int) -> Info:
        """Return the part of ``info`` that describes a step: reward terms and ticks."""
        info: Info = {"reward_terms": shares}
        if self._settings.step_ticks is not None and self.profile.clock.tick_attribute:
            info |= {"ticks": n_ticks, "ticks_expected": n_expected}
            if self._grade == "lockstep":
                info |= {"ticks_lost": self._ticks.n_lost, "ticks_doubled": self._ticks.n_doubled}
        return info

    def _info(self, result: StepResult) -> Info:
        info: Info = {
            "clock": self._grade,
            "late_s": result.advance.late_s,
            # Whole nanoseconds are not alike in two episodes, where a tick is none: 1/35 s.
            "game_time_s": round(result.snapshot.game_time_s - self._start_s, 6),
            "n_restarts": self._n_restarts,
        }
        if self._settings.info:
            info["values"] = {name: result.snapshot[name] for name in self._settings.info}
        if isinstance(self.action_space, spaces.Discrete):
            info["action_mask"] = self._action_mask(self.action_space)
        return info

    def _action_mask(self, space: spaces.Discrete) -> NDArray[np.bool_]:
        """Return the open actions: all, or "nothing" where the game is only observed."""
        mask = np.ones(int(space.n), np.bool_)
        mask[1:] = not self._is_read_only
        return mask
