"""EldenGym's environment over a session with Elden Ring."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.compat.eldengym.eldengym_client import EldenClient
from soulslab.compat.eldengym.eldengym_observation import View
from soulslab.compat.eldengym.eldengym_options import EldenGymOptions, split_options
from soulslab.compat.eldengym.eldengym_rewards import call, is_over
from soulslab.compat.eldengym.keybinds import Given, Keyboard
from soulslab.compat.eldengym.scenario_names import GAME, boss_of
from soulslab.envs.game.game_env import GameEnv, GameEnvSettings, Info, check_render_mode
from soulslab.envs.game.option_parsing import parse_options
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.game.task import EpisodeRequest, TaskStep
from soulslab.envs.game.timing import Keys, LockstepTiming, Reading, StepTiming
from soulslab.envs.tasks.duel.duel_env import make_episode
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_reader import NEEDED
from soulslab.envs.tasks.duel.episode import Episode
from soulslab.envs.tasks.souls.souls_env import make_souls_setup
from soulslab.errors import WaitTimeoutError
from soulslab.games.camera import Camera
from soulslab.games.waiting import Patience
from soulslab.siphon.session import Session, Step, StepResult

Observation = dict[str, Any]

#: Attribute and key.
LOCK_ON: Final = "lock_on"
#: A second press would release the lock-on, and the boss does not wait.
ONE_PRESS: Final = Patience(deadline_s=0.5, poll_s=0.5)

_log = logging.getLogger(__name__)


class EldenGymState(msgspec.Struct, frozen=True, eq=False):
    """One reading, as EldenGym returns it.

    Attributes:
        observation: The observation.
        info: The complete ``info``, which reward functions receive.
    """

    observation: Observation
    info: Info


class EldenGymTask:
    """A boss of Elden Ring as in EldenGym (`soulslab.envs.game.task.Task`).

    Args:
        game: The game by quantities.
        episode: Begins and ends fights.
        view: What is observed.
        keyboard: The actions.
        given: Options of EldenGym.

    Attributes:
        observation_space: Space of the observations.
        action_space: One bit per action.
        reset_options: Names of the options that ``reset`` accepts.
        reward_function: Computes the rewards.
    """

    reset_options: tuple[str, ...] = ("restart",)

    def __init__(
        self, game: DuelGame, episode: Episode, view: View, keyboard: Keyboard, given: EldenGymOptions
    ) -> None:
        self._game, self._episode, self._view, self._keyboard = game, episode, view, keyboard
        self._reading = Reading(view.attributes, view.frame)
        game.looked_at = tuple(name for name in (*NEEDED, *episode.quantities) if game.has(name))
        self.observation_space: spaces.Space[Any] = view.space
        self.action_space: spaces.Space[Any] = spaces.MultiBinary(len(keyboard.names))
        self.reward_function = given.reward
        self._n_restarts = 0
        self._start_s = 0.0

    def begin(self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest) -> TaskStep[EldenGymState]:
        """See `Task.begin`; ends with a press of the lock-on key, if the game has no lock-on then."""
        n_restarts = holder.n_restarts
        self._episode.begin(self._game, request.rng, request.seed, request.deadline)
        with holder.marking_loss():
            session = holder.session
            _press_lock_on(session)
            timing.begin(session)
            result = session.step(Step(held=(), attributes=self._reading.attributes, frame=self._reading.frame))
        self._start_s = result.snapshot.game_time_s
        self._n_restarts = holder.n_restarts - n_restarts
        return TaskStep(state=self._state(session, result, 0.0), game_time_s=self._start_s)

    def parse_action(self, action: Any, state: EldenGymState) -> Keys:
        """See `Task.parse_action`."""
        del state
        return Keys(self._keyboard.held(action))

    def advance(
        self, holder: SessionHolder, timing: StepTiming, state: EldenGymState, action: Keys, *, is_last_step: bool
    ) -> TaskStep[EldenGymState]:
        """See `Task.advance`.

        Raises:
            EnvironmentUsageError: The reward function does not return a finite number.
            SiphonError: The step failed.
        """
        result, late_s = timing.play(holder.session, action, self._reading)
        after = self._state(holder.session, result, late_s)
        reward, is_done = call(
            self.reward_function, after.observation, after.info, state.info, is_last_step=is_last_step
        )
        return TaskStep(
            state=after,
            game_time_s=result.snapshot.game_time_s,
            late_s=late_s,
            reward=reward,
            is_terminated=is_done or is_over(after.info),
        )

    def observation(self, state: EldenGymState) -> Observation:
        """See `Task.observation`."""
        return state.observation

    def action_mask(self, state: EldenGymState) -> NDArray[np.bool_] | None:
        """See `Task.action_mask`: EldenGym has none."""
        del state
        return None

    def info(self, state: EldenGymState) -> Info:
        """See `Task.info`."""
        return dict(state.info)

    def release(self, holder: SessionHolder) -> None:
        """See `Task.release`."""
        del holder
        self._episode.release(self._game)

    def _state(self, session: Session, result: StepResult, late_s: float) -> EldenGymState:
        values = result.snapshot
        picture = None if result.frame is None else result.frame.pixels
        info = {
            **self._view.info(values),
            "clock": session.info.clock_grade,
            "game_time_s": round(values.game_time_s - self._start_s, 6),
            "n_restarts": self._n_restarts,
            "late_s": late_s,
        }
        return EldenGymState(self._view.observation(values, picture), info)


class EldenGymEnv(GameEnv):
    """A boss of Elden Ring with the interface of EldenGym 0.6.0 (`GameEnv`).

    An action is one bit for each of EldenGym's actions; its key is held as long as the bit is 1. A step holds the keys,
    advances exactly `step_ms` of game time, and takes one reading and one picture of the same moment (`Session.step`).
    An observation contains ``frame`` ((H, W, 3) RGB uint8), the requested memory attributes, and the coordinates of the
    player and the boss in one frame (`soulslab.compat.eldengym.eldengym_observation`). A value that cannot be read is
    an error. ``info`` contains EldenGym's ``player_hp_normalized``, ``boss_hp_normalized``, ``player_animation``,
    ``boss_animation``, ``player_xyz``, ``boss_xyz``, and the entries of `GameEnv`.

    An episode is a whole fight of the game (``episodes="demo"`` of `SoulsDuelEnv`, which finds or starts the game). It
    terminates when the player or the boss is dead or the reward function says so, and is truncated after `max_steps`.

    Args:
        scenario_name: One of `list_envs`, or the path of a boss's file.
        keybinds_filepath: EldenGym's JSON of version 2 as a path or a table; None for its own.
        siphon_config_filepath: Accepted for compatibility and not read: soulslab has its own profile.
        render_mode: None or ``"rgb_array"``.
        options: See `soulslab.compat.eldengym.eldengym_options`.

    Attributes:
        scenario_name: As given.
        action_keys: Names of the actions, in the order of the bits.
        memory_attributes: Names of the observed memory attributes.
        reward_function: Computes the rewards.
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
        check_render_mode(render_mode, self.metadata["render_modes"])
        given, passed_on = split_options(options)
        keyboard = Keyboard(keybinds_filepath, given.actions, given.use_device)
        duel = {"episodes": "demo", "launch": given.launch_game, "server": given.host, "step_ms": given.step_ms}
        setup, self._duel_options, _ = make_souls_setup(
            GAME, boss_of(scenario_name), render_mode, {**duel, **passed_on}
        )
        view = View(setup.profile, given.memory_attributes, given.frame_px)
        # The entrance checks again, once there is a world.
        setup.holder.check = setup.make_gate(*view.attributes)
        game = setup.make_game(self._duel_options.step_deadline_s)
        task = EldenGymTask(game, make_episode(self._duel_options, setup), view, keyboard, given)
        settings = GameEnvSettings(
            render_fps=1000 / given.step_ms,
            reset_deadline_s=self._duel_options.reset_deadline_s,
            max_steps=given.max_steps,
        )
        super().__init__(setup.holder, task, LockstepTiming(self._duel_options.times), settings, render_mode)
        self.scenario_name = scenario_name
        self.reward_function = task.reward_function
        self.max_steps = given.max_steps
        self.action_keys = list(keyboard.names)
        self.memory_attributes = list(view.names)

    @property
    def step_count(self) -> int:
        """Steps of this episode."""
        return self._n_steps

    @property
    def client(self) -> EldenClient:
        """Reads and writes the game for wrappers of EldenGym."""
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
        self._timing = LockstepTiming(msgspec.structs.replace(self._duel_options.times, speed=float(speed)))
        self._timing.begin(self.session)


def _press_lock_on(session: Session) -> None:
    """Press the key of the lock-on once; a boss out of its reach is fought without it, as in EldenGym."""
    profile = session.profile
    if LOCK_ON not in profile.keys or LOCK_ON not in profile.attributes:
        return
    try:
        Camera(session).lock_on(ONE_PRESS)
    except WaitTimeoutError as error:
        _log.info("the fight begins without a lock-on: %s", error)
