"""Any game as a Gymnasium environment (``soulslab/Process-v0``), which the ``[env]`` table of its profile defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from soulslab.envs.arguments import parse_options
from soulslab.envs.game.connect import ConnectOptions, hold_session
from soulslab.envs.game.game_env import GameEnv, GameEnvSettings, OnFailure
from soulslab.envs.game.session_holder import AttributeGate
from soulslab.envs.game.timing import LockstepTiming, TimingOptions
from soulslab.envs.game.vector_env import GameVectorEnv
from soulslab.envs.tasks.process.process_settings import (
    ActionMode,
    EnvSettings,
    Observation,
    OnLostTick,
    read_settings,
    tick_s,
)
from soulslab.envs.tasks.process.process_task import ProcessTask
from soulslab.errors import EnvironmentUsageError, UnknownRewardError
from soulslab.games import profile_path
from soulslab.siphon.profile import Profile, load_profile


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Process-v0``. None keeps the value of the profile's ``[env]`` table.

    Attributes:
        profile: Path of the profile, name of a game that soulslab has a profile of (``doom``), or a loaded profile.
        observation: Replaces ``env.observation``.
        pixels: Replaces ``env.pixels``, as ``{"width_px": 84, "height_px": 84, "is_grey": False}``.
        action_mode: Replaces ``env.action_mode``.
        frame_skip: Replaces ``env.frame_skip``.
        max_steps: Replaces ``env.max_steps``.
        random_start_ticks: Replaces ``env.random_start_ticks``.
        on_lost_tick: Replaces ``env.on_lost_tick``.
        on_failure: What to do if the game ends, freezes, loses its window or cannot be read during a step: ``"raise"``
            the error, or ``"truncate"`` the episode. In both cases the next reset restores the game. A `LostTickError`
            that ``on_lost_tick`` requests is always raised.
        reward: Weights by term, which replace the weights of ``env.reward``; 0 removes a term.
        options: Options of the command that starts the game (``process.options`` of the profile).
        launch: See `SessionOptions.launch`; "" starts a new game if the profile has a command for it.
        deterministic: Whether the game is started deterministically (`SessionOptions.deterministic`):
            ``reset(seed=...)`` restarts it with that seed.
    """

    profile: Any = None
    observation: Observation | None = None
    pixels: dict[str, Any] | None = None
    action_mode: ActionMode | None = None
    frame_skip: int | None = None
    max_steps: int | None = None
    random_start_ticks: int | None = None
    on_lost_tick: OnLostTick | None = None
    on_failure: OnFailure = "raise"
    reward: dict[str, Any] | None = None
    options: dict[str, Any] = {}
    launch: str = ""
    deterministic: bool = False

    def check(self, connect: ConnectOptions) -> None:
        """Raise `EnvironmentUsageError` for the first option that contradicts another."""
        if self.profile is None and not connect.has_open_session:
            raise EnvironmentUsageError("profile is missing: give the path of a TOML file, profile='my_game.toml'")
        if not connect.read_only:
            return
        for name in ("deterministic", "options"):
            if getattr(self, name):
                raise EnvironmentUsageError(
                    f"{name}: a read-only environment does not start a game; leave out one of the two"
                )
        if self.launch not in ("", "never"):
            raise EnvironmentUsageError(f"launch is {self.launch!r}, but a read-only environment does not start a game")


def find_profile(given: ProcessOptions, connect: ConnectOptions) -> tuple[Profile, str]:
    """Return the profile and the name of its file."""
    if isinstance(given.profile, Profile):
        return given.profile, given.profile.name
    if given.profile is None:
        profile: Profile = connect.session.profile
        return profile, profile.name
    path = profile_path(Path(given.profile))
    return load_profile(path), str(path)


def make_settings(given: ProcessOptions, profile: Profile, source: str) -> EnvSettings:
    """Return the settings of the profile's ``[env]`` table, with the values that the options replace."""
    names = ("observation", "pixels", "action_mode", "frame_skip", "max_steps", "random_start_ticks", "on_lost_tick")
    changes = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    settings = read_settings(profile, source, changes)
    terms = dict(settings.reward)
    for name, weight in (given.reward or {}).items():
        if name not in terms:
            raise UnknownRewardError("term", name, terms)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not np.isfinite(weight):
            raise EnvironmentUsageError(f"reward: the weight of {name!r} must be a number, not {weight!r}")
        terms[name] = msgspec.structs.replace(terms[name], weight=float(weight))
    return msgspec.structs.replace(settings, reward={name: term for name, term in terms.items() if term.weight})


class ProcessEnv(GameEnv):
    """Environment of a game with a profile (`GameEnv`).

    One step is one `Session.step`: changed keys, game time, one read of all attributes, one frame. In addition to the
    entries of `GameEnv`, ``info`` contains ``values`` (the attributes of ``env.info``) and ``reward_terms`` (the
    contribution of each term). If the profile names a tick attribute, ``info`` contains ``ticks`` and
    ``ticks_expected``; with a lockstep clock also ``ticks_lost`` and ``ticks_doubled`` of the episode so far (a step
    that waited for the game to load is not counted). After the last step it also contains ``end`` (the condition,
    ``max_steps`` or ``failure``). If an `unreadable` condition ends the episode, the last observation has the last
    known value of each attribute that cannot be read.

    ``reset(seed=...)`` seeds ``random_start_ticks``. In a deterministic environment (`ProcessOptions.deterministic`)
    it also restarts the game with this seed, modulo 2**32; starts without a seed get seeds that follow from it.
    ``reset(options={"deterministic": True})`` makes the environment deterministic from then on, and restarts the game.

    Args:
        render_mode: None, ``"rgb_array"``, or ``"human"`` (the game's window opens on the screen of the user, at its
            own speed).
        options: See `ProcessOptions` and `ConnectOptions`.

    Attributes:
        action_names: Names of the actions, keys or groups of the action space.

    Raises:
        EnvironmentUsageError: An option is wrong.
        ProfileError: The profile is wrong.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        given, connect = parse_options("soulslab/Process-v0", options, ProcessOptions, ConnectOptions)
        connect.check()
        given.check(connect)
        self.profile, source = find_profile(given, connect)
        settings = make_settings(given, self.profile, source)
        task = ProcessTask(settings, self.profile, is_read_only=connect.read_only, is_deterministic=given.deterministic)
        self.action_names = task.action_names
        display = "" if render_mode == "human" else "private"
        holder = hold_session(connect, self.profile, launch=given.launch, options=given.options, display=display)
        holder.check = AttributeGate(task.attributes)
        step_s = settings.frame_skip * (settings.step_s or (settings.step_ticks or 0) * tick_s(self.profile))
        timing = LockstepTiming(TimingOptions(step_s=step_s, is_paced=render_mode == "human"))
        env_settings = GameEnvSettings(
            render_fps=1 / step_s,
            reset_deadline_s=settings.reset_deadline_s,
            max_steps=settings.max_steps,
            on_failure=given.on_failure,
        )
        super().__init__(holder, task, timing, env_settings, render_mode)


class ProcessVectorEnv(GameVectorEnv):
    """N games with the same profile (`GameVectorEnv` of `ProcessEnv`)."""

    single: ClassVar[Callable[..., GameEnv]] = ProcessEnv
