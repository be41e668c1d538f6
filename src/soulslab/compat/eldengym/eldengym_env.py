"""EldenGym's environment for a session with Elden Ring, and the functions that list, register and make environments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.compat.eldengym.eldengym_client import EldenClient
from soulslab.compat.eldengym.eldengym_observation import EldenGymEncoder
from soulslab.compat.eldengym.eldengym_options import (
    GAME,
    KeybindActions,
    KeybindSource,
    boss_of,
    scenario_names,
    split_options,
)
from soulslab.compat.eldengym.eldengym_rewards import check_reward_function, evaluate_reward, is_over
from soulslab.envs.arguments import parse_options
from soulslab.envs.game.game_env import GameEnv, GameEnvSettings, Info
from soulslab.envs.game.session_holder import SessionHolder
from soulslab.envs.game.task import EpisodeRequest, TaskStep
from soulslab.envs.game.timing import Keys, LockstepTiming, Reading, StepTiming
from soulslab.envs.tasks.duel.duel_env import make_episode
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_options import DuelOptions
from soulslab.envs.tasks.duel.duel_reader import REQUIRED_QUANTITIES
from soulslab.envs.tasks.duel.episode import Episode
from soulslab.envs.tasks.souls.souls_env import make_souls_setup
from soulslab.errors import EnvironmentUsageError, WaitTimeoutError
from soulslab.games.souls_game import Camera
from soulslab.games.waiting import Patience
from soulslab.siphon.session import Session, Step, StepResult

Observation = dict[str, Any]

#: Name of the attribute and of the key.
LOCK_ON: Final = "lock_on"
#: Time for a single press of the key, because a second press would release the lock-on.
ONE_PRESS: Final = Patience(deadline_s=0.5, poll_s=0.5)

_log = logging.getLogger(__name__)

_registered: dict[str, Callable[..., Any]] = {}


class EldenGymState(msgspec.Struct, frozen=True, eq=False):
    """State of the game at one read: the observation, and the complete ``info``, which reward functions receive."""

    observation: Observation
    info: Info


class EldenGymTask:
    """A boss of Elden Ring as in EldenGym (`soulslab.envs.game.task.Task`)."""

    reset_options: tuple[str, ...] = ("restart",)

    def __init__(
        self, game: DuelGame, episode: Episode, encoder: EldenGymEncoder, actions: KeybindActions, reward_function: Any
    ) -> None:
        self._game, self._episode, self._encoder, self._actions = game, episode, encoder, actions
        self._reading = Reading(encoder.attributes, encoder.frame)
        game.step_quantities = tuple(name for name in (*REQUIRED_QUANTITIES, *episode.quantities) if game.has(name))
        self.observation_space: spaces.Space[Any] = encoder.space
        self.action_space: spaces.Space[Any] = spaces.MultiBinary(len(actions.names))
        self.reward_function = reward_function
        self._n_restarts = 0
        self._start_s = 0.0

    def begin(self, holder: SessionHolder, timing: StepTiming, request: EpisodeRequest) -> TaskStep[EldenGymState]:
        """See `Task.begin`; the lock-on key is pressed if the camera is not locked on at the end of the reset."""
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
        return Keys(self._actions.held(action))

    def advance(
        self, holder: SessionHolder, timing: StepTiming, state: EldenGymState, action: Keys, *, is_last_step: bool
    ) -> TaskStep[EldenGymState]:
        """See `Task.advance`; raises `EnvironmentUsageError` if the reward function does not return a finite number."""
        result, late_s = timing.play(holder.session, action, self._reading)
        after = self._state(holder.session, result, late_s)
        reward, is_done = evaluate_reward(
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
        """See `Task.action_mask`: all actions are always allowed."""
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
        frame = result.frame.pixels if result.frame is not None else None
        info = {
            **self._encoder.info(values),
            "clock": session.info.clock_grade,
            "game_time_s": round(values.game_time_s - self._start_s, 6),
            "n_restarts": self._n_restarts,
            "late_s": late_s,
        }
        return EldenGymState(self._encoder.observation(values, frame), info)


class EldenGymEnv(GameEnv):
    """A boss of Elden Ring with the interface of EldenGym 0.6.0 (`GameEnv`).

    An action is one bit for each of EldenGym's actions; its key is held as long as the bit is 1. A step holds the keys,
    advances exactly `step_ms` of game time, and reads the attributes and the frame of the same moment
    (`Session.step`). An observation contains ``frame`` ((H, W, 3) RGB uint8), the requested memory attributes, and the
    coordinates of the player and the boss in one coordinate system
    (`soulslab.compat.eldengym.eldengym_observation`). A value that cannot be read is an error. ``info`` contains
    EldenGym's ``player_hp_normalized``, ``boss_hp_normalized``, ``player_animation``, ``boss_animation``,
    ``player_xyz``, ``boss_xyz``, and the entries of `GameEnv`.

    An episode is a whole fight of the game (``episodes="demo"`` of `SoulsDuelEnv`, which finds or starts the game). It
    terminates when the player or the boss is dead or the reward function ends it, and is truncated after `max_steps`.

    Args:
        scenario_name: A name of `list_envs`, or the path of a fact file.
        keybinds_filepath: EldenGym's keybinds (JSON, version 2) as a path or a table; None for its default keybinds.
        siphon_config_filepath: Accepted for compatibility and not read: soulslab has its own profile.
        render_mode: None or ``"rgb_array"``.
        options: See `soulslab.compat.eldengym.eldengym_options`.

    Attributes:
        action_keys: Names of the actions, in the order of the bits.
        memory_attributes: Names of the observed memory attributes.
        max_steps: Number of steps until truncation; None for no limit.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
        ConfigError: The keybinds are malformed.
        MissingFactError: A required fact of the boss is unknown.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012

    def __init__(
        self,
        scenario_name: str | Path = "Margit-v0",
        keybinds_filepath: KeybindSource = None,
        siphon_config_filepath: str | Path | None = None,
        *,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        del siphon_config_filepath
        given, passed_on = split_options(options)
        actions = KeybindActions(keybinds_filepath, given.actions, given.use_device)
        duel = {"episodes": "demo", "launch": given.launch_game, "server": given.host, "step_ms": given.step_ms}
        setup, self._duel_options, _ = make_souls_setup(
            GAME, boss_of(scenario_name), render_mode, {**duel, **passed_on}
        )
        encoder = EldenGymEncoder(setup.profile, given.memory_attributes, given.frame_px)
        # The entrance checks again when the world is loaded.
        setup.holder.check = setup.make_gate(*encoder.attributes)
        game = setup.make_game(self._duel_options.step_deadline_s)
        reward_function = check_reward_function(given.reward_function)
        task = EldenGymTask(game, make_episode(self._duel_options, setup), encoder, actions, reward_function)
        settings = GameEnvSettings(
            render_fps=1000 / given.step_ms,
            reset_deadline_s=self._duel_options.reset_deadline_s,
            max_steps=given.max_steps,
        )
        super().__init__(setup.holder, task, LockstepTiming(self._duel_options.times), settings, render_mode)
        self.scenario_name = scenario_name
        self.reward_function = reward_function
        self.max_steps = given.max_steps
        self.action_keys = list(actions.names)
        self.memory_attributes = list(encoder.names)

    @property
    def step_count(self) -> int:
        """Number of steps of this episode."""
        return self._n_steps

    @property
    def client(self) -> EldenClient:
        """Reads and writes the game for wrappers of EldenGym."""
        return EldenClient(self.session, self)

    def set_game_speed(self, speed: float) -> None:
        """Set the game seconds per wall second from the next step on. The game time of a step stays the same.

        The speed has an effect if the game is stepped by its own speed (``info["clock"]`` is ``"scaled"``). In lockstep
        a step always runs as fast as the game can. Raises `EnvironmentUsageError` if the factor is not from 0.01 to
        1000.
        """
        parse_options("set_game_speed", {"game_speed": speed}, DuelOptions)
        self._timing = LockstepTiming(msgspec.structs.replace(self._duel_options.times, speed=float(speed)))
        self._timing.begin(self.session)


def _press_lock_on(session: Session) -> None:
    """Press the lock-on key once. If the boss is out of range, the fight begins without lock-on, as in EldenGym."""
    profile = session.profile
    if LOCK_ON not in profile.keys or LOCK_ON not in profile.attributes:
        return
    try:
        Camera(session).lock_on(ONE_PRESS)
    except WaitTimeoutError as error:
        _log.info("the fight begins without lock-on: %s", error)


def list_envs() -> list[str]:
    """Return the names that `make` accepts: first the bosses, then the registered environments."""
    return [*scenario_names(), *_registered]


def register(
    id: str,
    entry_point: Callable[..., Any] = EldenGymEnv,
    kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    setup_hook: Callable[[Any], None] | None = None,
    *,
    force: bool = False,
) -> None:
    """Register an environment for `make`, as EldenGym 0.6.0 does.

    Args:
        id: Name of the environment, such as ``"MyFight-v0"``.
        entry_point: Function that returns the environment.
        kwargs: Arguments of `entry_point`; arguments of `make` replace them.
        max_episode_steps: Default of ``max_steps``, the number of steps until truncation.
        setup_hook: Called with each new environment.
        force: Whether a registered environment of the same name is replaced.

    Raises:
        EnvironmentUsageError: The name already exists.
    """
    if id in scenario_names() or (id in _registered and not force):
        raise EnvironmentUsageError(
            f"register: {id!r} exists; choose another name, or give force=True to replace your own"
        )
    defaults: dict[str, Any] = {"max_steps": max_episode_steps} if max_episode_steps is not None else {}
    defaults |= kwargs or {}

    def make_registered(**options: Any) -> Any:
        env = entry_point(**{**defaults, **options})
        if setup_hook is not None:
            setup_hook(env)
        return env

    _registered[id] = make_registered


def make(id: str | Path, **options: Any) -> Any:
    """Return an environment.

    Args:
        id: ``"Margit-v0"``, another name of `list_envs`, or the path of a fact file.
        options: See `EldenGymEnv`.

    Raises:
        EnvironmentUsageError: The scenario does not exist (the message suggests a name), or an option is wrong.
        MissingFactError: A required fact of the boss is unknown; the message says how to record it.
    """
    if str(id) in _registered:
        return _registered[str(id)](**options)
    given: Mapping[str, Any] = {"scenario_name": id} | options
    return EldenGymEnv(**given)
