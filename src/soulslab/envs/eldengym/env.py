"""EldenGym's environment over a session with Elden Ring."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import gymnasium
import msgspec
from gymnasium import spaces

from soulslab.envs.arguments import reset_options_of
from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.eldengym.client import EldenClient
from soulslab.envs.eldengym.keybinds import Given, Keyboard
from soulslab.envs.eldengym.names import GAME, boss_of
from soulslab.envs.eldengym.observation import View
from soulslab.envs.eldengym.options import split_options
from soulslab.envs.eldengym.rewards import call, is_over
from soulslab.envs.game.option_parsing import parse_options
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.live.actions import Keys
from soulslab.envs.live.options import DuelOptions
from soulslab.envs.live.timing import Lockstep, Look
from soulslab.envs.souls.env import SoulsDuelEnv
from soulslab.errors import EnvironmentUsageError, NotResetError, SiphonError, WaitTimeoutError
from soulslab.games.camera import Camera
from soulslab.games.self_check import needed_by
from soulslab.games.waiting import Patience
from soulslab.siphon.session import LOADING, Session, Step, StepResult

Info = dict[str, Any]
Observation = dict[str, Any]

#: Attribute and key.
LOCK_ON: Final = "lock_on"
#: A second press would let go again, and the boss does not wait.
ONE_PRESS: Final = Patience(deadline_s=0.5, poll_s=0.5)

_log = logging.getLogger(__name__)


class EldenGymEnv(gymnasium.Env[Observation, Any]):
    """A boss of Elden Ring as EldenGym 0.6.0 gives it, from the first reset on as it says at construction.

    An action is a bit for each of EldenGym's actions: its key is down as long as the bit is 1. A step holds the keys,
    lets exactly `step_ms` of game time pass, and takes one reading and one picture of the same moment
    (`Session.step`). An observation has ``frame`` ((H, W, 3) RGB uint8), the memory attributes that were asked for, and
    the coordinates of both in one frame (`soulslab.envs.eldengym.observation`); nothing is ever made up in the place of
    a value that cannot be read. ``info`` has EldenGym's ``player_hp_normalized``, ``boss_hp_normalized``,
    ``player_animation``, ``boss_animation``, ``player_xyz``, ``boss_xyz``, and ours: ``clock`` (the grade of game
    time), ``game_time_s`` (of the episode), ``n_restarts`` (of the game, for this episode), ``late_s``.

    An episode is a whole fight of the game (``episodes="demo"`` of `SoulsDuelEnv`, which finds or starts the game). It
    is terminated when one of the two is dead or the reward function says so, and truncated after `max_steps`.

    Args:
        scenario_name: One of `list_envs`, or the path of a boss's file.
        keybinds_filepath: EldenGym's JSON of version 2 as a path or a table; None for its own.
        siphon_config_filepath: Taken so that calls need no change, and not read: the profile is our own.
        render_mode: None or ``"rgb_array"``.
        options: See `soulslab.envs.eldengym.options`.

    Attributes:
        scenario_name: As given.
        action_keys: Names of the actions, in the order of the bits.
        memory_attributes: Names of what is seen of the game's memory.
        reward_function: Pays for steps.
        max_steps: Steps until truncation; None for no limit.
        step_count: Steps of this episode.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
        ConfigError: The keybinds are malformed.
        MissingFactError: Something that is needed is not known of the boss.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012

    def __init__(
        self,
        scenario_name: str | Path = "Margit-v0",
        keybinds_filepath: Given = None,
        siphon_config_filepath: str | Path | None = None,
        *,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        del siphon_config_filepath
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise EnvironmentUsageError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        given, passed_on = split_options(options)
        self._keyboard = Keyboard(keybinds_filepath, given.actions, given.use_device)
        self._duel = SoulsDuelEnv(
            GAME,
            boss_of(scenario_name),
            render_mode,
            episodes="demo",
            launch=given.launch_game,
            server=given.host,
            step_ms=given.step_ms,
            **passed_on,
        )
        self._view = View(self._duel.profile, given.memory_attributes, given.frame_px)
        self._timing = Lockstep(self._duel.options.times)
        self._look = Look(self._view.attributes, self._view.frame)
        holder = self._duel.game.holder
        needed = (*needed_by(self._duel.profile), *self._view.attributes)
        # The entrance checks again, once there is a world.
        holder.check = AttributeGate(needed, may_be_loading=not passed_on.get("stand_in"))
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(1000 / given.step_ms))}
        self.scenario_name = scenario_name
        self.reward_function = given.reward
        self.max_steps = given.max_steps
        self.action_keys = list(self._keyboard.names)
        self.memory_attributes = list(self._view.names)
        self.observation_space = self._view.space
        self.action_space = spaces.MultiBinary(len(self.action_keys))
        self.step_count = 0
        self._is_ready = False
        self._start_s = 0.0
        self._n_restarts = 0
        self._info: Info = {}

    # --- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin a fight; see `gymnasium.Env.reset`. Brings the game back if it is gone.

        It ends with a press of the key of the lock-on, where the game has none by then.

        Args:
            seed: Draws what is drawn.
            options: ``{"restart": True}`` restarts the game first.

        Raises:
            SiphonError: The start failed, also after retries.
            EnvironmentUsageError: An option is unknown.
        """
        given = reset_options_of(options, ("restart",))
        super().reset(seed=seed)
        self._is_ready = False
        game, episode = self._duel.game, self._duel.episode
        if given.get("restart"):
            game.holder.is_lost = True
        n_restarts = game.holder.n_restarts
        episode.begin(game, self.np_random, seed, Deadline(self._duel.options.reset_deadline_s))
        self._ask_for_lock()
        self._timing.begin(self.session)
        result = self._played(None)
        self._start_s = result.snapshot.game_time_s
        self._n_restarts = game.holder.n_restarts - n_restarts
        self.step_count = 0
        self._is_ready = True
        self._info = self._info_of(result)
        self._info["late_s"] = 0.0
        return self._observation(result), dict(self._info)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Play a step; see `gymnasium.Env.step`.

        Args:
            action: A bit for each of `action_keys`.

        Raises:
            NotResetError: Before the first reset, after the end of an episode, or after a step that failed.
            InvalidActionError: The action is not in the space.
            EnvironmentUsageError: The reward function pays no finite number.
            SiphonError: The step failed; call `reset`, which brings the game back.
        """
        if not self._is_ready:
            raise NotResetError("step: the fight is over, has not begun, or has failed; call reset() first")
        held = self._keyboard.held(action)
        self._is_ready = False
        result = self._played(held)
        before, self._info = self._info, self._info_of(result)
        self._info["late_s"] = self._late_s
        self.step_count += 1
        is_last = self.max_steps is not None and self.step_count >= self.max_steps
        observation = self._observation(result)
        reward, is_done = call(self.reward_function, observation, self._info, before, is_last_step=is_last)
        is_terminated = is_done or is_over(self._info)
        is_truncated = is_last and not is_terminated
        self._is_ready = not (is_terminated or is_truncated)
        return observation, reward, is_terminated, is_truncated, dict(self._info)

    def render(self) -> Any:
        """Return the game's window, (H, W, 3) RGB, as it is now; None without ``render_mode="rgb_array"``."""
        if self.render_mode is None:
            return None
        if not self._info:
            raise NotResetError("render: there is no game yet; call reset() first")
        return self.session.capture().pixels

    def close(self) -> None:
        """Release all keys and end the game, if it was started for this environment; a second call does nothing."""
        self._is_ready = False
        self._duel.close()

    # --- for whoever looks closer ---------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session with the game; it is opened if it is not yet. ``EldenRing(env.session)`` has the game's nouns."""
        return self._duel.session

    @property
    def client(self) -> EldenClient:
        """What EldenGym's wrappers read and write the game by."""
        return EldenClient(self.session, self)

    def set_game_speed(self, speed: float) -> None:
        """Set the game seconds per wall second from the next step on; a step lasts the same game time as before.

        It has an effect where the game's own speed steps it (``info["clock"]`` is ``"scaled"``); in true lockstep a
        step always runs as fast as the game can.

        Args:
            speed: Factor, 0.01 to 1000.

        Raises:
            EnvironmentUsageError: It is out of range.
        """
        parse_options("set_game_speed", {"game_speed": speed}, DuelOptions)
        self._timing = Lockstep(msgspec.structs.replace(self._duel.options.times, speed=float(speed)))
        self._timing.begin(self.session)

    # --- a step ---------------------------------------------------------------------------------------------

    def _played(self, held: tuple[str, ...] | None) -> StepResult:
        """Play a step with these keys held, or only look, with no key down, and take note of what was seen."""
        self._late_s = 0.0
        with self._noting_loss():
            if held is None:
                look = Step(held=(), attributes=self._look.attributes, frame=self._look.frame)
                result = self.session.step(look)
            else:
                result, self._late_s = self._timing.play(self.session, Keys(held, ()), self._look)
        return result

    def _ask_for_lock(self) -> None:
        """Press the key of the lock-on once; a boss that it does not reach is fought without, as in EldenGym."""
        profile = self.session.profile
        if LOCK_ON not in profile.keys or LOCK_ON not in profile.attributes:
            return
        with self._noting_loss():
            try:
                Camera(self.session).lock_on(ONE_PRESS)
            except WaitTimeoutError as error:
                _log.info("the fight begins without a lock-on: %s", error)

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """Note that the game has to be brought back if something fails."""
        try:
            yield
        except LOADING:
            raise  # a game that loads comes round by itself, and the next reset waits for it
        except SiphonError:
            self._duel.game.holder.is_lost = True
            raise

    def _observation(self, result: StepResult) -> Observation:
        return self._view.observation(result.snapshot, None if result.frame is None else result.frame.pixels)

    def _info_of(self, result: StepResult) -> Info:
        return {
            **self._view.info(result.snapshot),
            "clock": self.session.info.clock_grade,
            # Whole nanoseconds are not alike in two episodes, where a tick is none: 1/60 s.
            "game_time_s": round(result.snapshot.game_time_s - self._start_s, 6),
            "n_restarts": self._n_restarts,
        }
