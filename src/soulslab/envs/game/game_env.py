"""The Gymnasium environment over a session: it plays a `Task`."""

from __future__ import annotations

import contextlib
from typing import Any, Literal, TypeAlias

import gymnasium
import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.envs.arguments import reset_options_of
from soulslab.envs.game.session_holder import Deadline, SessionHolder
from soulslab.envs.game.task import EpisodeRequest, Task, TaskStep
from soulslab.envs.game.timing import StepTimes, StepTiming
from soulslab.errors import EnvironmentUsageError, LostTickError, NotResetError, SiphonError
from soulslab.siphon.session import LOADING, Session

Info: TypeAlias = dict[str, Any]
OnFailure: TypeAlias = Literal["raise", "truncate"]


class GameEnvSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `GameEnv` that are the same for all tasks.

    Attributes:
        render_fps: Steps per second of game time at speed 1, rounded.
        reset_deadline_s: Limit of wall time for a reset, with all retries.
        max_steps: Steps until truncation; None for no limit.
        on_failure: What happens in a step in which the game fails: ``"raise"`` the error, or ``"truncate"`` the
            episode.
    """

    render_fps: float
    reset_deadline_s: float
    max_steps: int | None = None
    on_failure: OnFailure = "raise"


class GameEnv(gymnasium.Env[Any, Any]):
    """Environment that plays a `Task` over a session.

    ``info`` contains after each reset and step ``clock`` (the grade of game time), ``game_time_s`` (of the episode),
    ``n_restarts`` (restarts of the game for this episode), ``late_s`` (wall time by which the last reading was late),
    ``action_mask`` (where the action space has one), and the entries of the task.

    When a step fails (the game was killed, its window was closed, a value cannot be read), the step raises the error.
    The next `reset` recovers the game, by a restart if necessary. No value is made up. With ``on_failure="truncate"``
    the episode is truncated instead: the last observation, a reward of 0, ``info["end"] = "failure"`` and
    ``info["failure"]`` with the class ``error`` and its ``message``.

    Args:
        holder: Opens and recovers the session.
        task: The rules of the environment.
        timing: Controls when keys are sent and the game is read.
        settings: See `GameEnvSettings`.
        render_mode: One of ``metadata["render_modes"]``, or None.

    Raises:
        EnvironmentUsageError: The render mode does not exist.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        holder: SessionHolder,
        task: Task[Any, Any],
        timing: StepTiming,
        settings: GameEnvSettings,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            *first, last = ["None", *map(repr, self.metadata["render_modes"])]
            raise EnvironmentUsageError(f"render_mode must be {', '.join(first)} or {last}, not {render_mode!r}")
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(settings.render_fps))}
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self.holder, self._task, self._timing, self._settings = holder, task, timing, settings
        #: Measures the wall time of the parts of each step; None measures nothing.
        self.step_times: StepTimes | None = None
        self._state: Any = None
        self._observation: Any = None
        self._is_ready = False
        self._n_steps = self._n_restarts = 0
        self._grade = ""
        self._start_s = self._now_s = 0.0

    # --- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode; see `gymnasium.Env.reset`. A lost game is recovered first.

        Args:
            seed: Seeds the random generator of the environment, and the game where it accepts a seed.
            options: ``{"restart": True}`` restarts the game first; a task may accept more.

        Raises:
            SiphonError: The start failed, also after retries.
            EnvironmentUsageError: An option is unknown, or the environment expects another game.
        """
        given = reset_options_of(options, self._task.reset_options)
        super().reset(seed=seed)
        self._is_ready = False
        holder = self.holder
        if given.get("restart"):
            holder.is_lost = True
        n_restarts = holder.n_restarts
        request = EpisodeRequest(
            seed=seed, rng=self.np_random, deadline=Deadline(self._settings.reset_deadline_s), options=given
        )
        start = self._task.begin(holder, self._timing, request)
        self._grade = holder.session.info.clock_grade
        self._start_s = start.game_time_s
        self._n_restarts = holder.n_restarts - n_restarts
        self._n_steps = 0
        self._is_ready = True
        return self._store(start), self._state_info(start.late_s) | start.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Play one step; see `gymnasium.Env.step`.

        Raises:
            NotResetError: Before the first reset, after the end of an episode, or after a step that failed.
            InvalidActionError: The action is not in the space.
            ReadOnlyError: The environment is read-only, and the action holds keys.
            LostTickError: The step lost a tick, and the task is set to raise this error.
            SiphonError: The step failed, with ``on_failure="raise"``; call `reset`, which recovers the game.
        """
        if not self._is_ready:
            raise NotResetError("step: the episode is over, has not begun, or has failed; call reset() first")
        parsed = self._task.parse_action(action, self._state)
        times = self._timing.times = self.step_times
        if times is not None:
            times.begin_step()
        self._is_ready = False
        self._n_steps += 1
        is_last = self._n_steps == self._settings.max_steps
        try:
            step = self._task.advance(self.holder, self._timing, self._state, parsed, is_last_step=is_last)
        except SiphonError as error:
            # A game that loads needs no restart; the next reset waits for it.
            if not isinstance(error, LOADING):
                self.holder.is_lost = True
            if self._settings.on_failure == "raise" or isinstance(error, LostTickError):
                raise
            info = self._state_info(0.0)
            info |= {"end": "failure", "failure": {"error": type(error).__name__, "message": str(error)}}
            return self._observation, 0.0, False, True, info
        is_truncated = not step.is_terminated and (step.is_truncated or is_last)
        self._is_ready = not (step.is_terminated or is_truncated)
        observation, info = self._store(step), self._state_info(step.late_s) | step.info
        if times is not None:
            times.end_step()
        return observation, step.reward, step.is_terminated, is_truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of a discrete action space, (A,) bool; MaskablePPO of sb3-contrib calls this method."""
        if not isinstance(self.action_space, spaces.Discrete):
            raise EnvironmentUsageError("action_masks: only discrete actions have a mask")
        mask = self._task.action_mask(self._state) if self._state is not None else None
        return mask if mask is not None else np.ones(int(self.action_space.n), np.bool_)

    def render(self) -> Any:
        """Return the current picture of the game's window, (H, W, 3) RGB uint8; None unless ``"rgb_array"``.

        Raises:
            NotResetError: Before the first reset.
            WindowGoneError: The window was closed.
        """
        if self.render_mode != "rgb_array":
            return None
        self._require_episode("render")
        return self.session.capture().pixels

    def scene_picture(self) -> NDArray[np.uint8] | None:
        """Return the picture of the game's window for `soulslab.dashboard`, (H, W, 3) RGB; None if there is none."""
        if not self._is_ready:
            return None
        with contextlib.suppress(SiphonError):  # a picture for a viewer must not end an episode
            return self.session.capture().pixels
        return None

    def close(self) -> None:
        """Release all keys, and end the game if it was started for this environment; a second call does nothing."""
        self._is_ready = False
        if self.holder.is_open:
            with contextlib.suppress(SiphonError):  # a game that has ended needs no release
                self._task.release(self.holder)
        self.holder.close()

    # --- access for wrappers --------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session with the game; it is opened if it is not open yet."""
        return self.holder.session

    @property
    def needs_reset(self) -> bool:
        """Whether `step` would raise `NotResetError`."""
        return not self._is_ready

    # --- internals ------------------------------------------------------------------------------------------

    def _require_episode(self, method: str) -> None:
        """Raise `NotResetError` before the first reset."""
        if not self._grade:
            raise NotResetError(f"{method}: the game has not been started; call reset() first")

    def _store(self, step: TaskStep[Any]) -> Any:
        """Store the state of a step, and return its observation."""
        self._state, self._now_s = step.state, step.game_time_s
        self._observation = self._task.observation(step.state)
        return self._observation

    def _state_info(self, late_s: float) -> Info:
        info = self._task.info(self._state)
        mask = self._task.action_mask(self._state)
        if mask is not None:
            info["action_mask"] = mask
        info["clock"] = self._grade
        # Clocks count whole nanoseconds, so equal episodes can differ if a tick is not a whole number of them.
        info["game_time_s"] = round(self._now_s - self._start_s, 6)
        info["n_restarts"] = self._n_restarts
        info["late_s"] = late_s
        return info
