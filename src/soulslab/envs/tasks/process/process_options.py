"""Options of an environment of a game with a profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.game.game_env import OnFailure
from soulslab.envs.game.option_parsing import parse_options
from soulslab.envs.tasks.process.process_settings import (
    ActionMode,
    EnvSettings,
    Observation,
    OnLostTick,
    read_settings,
)
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


def make_options(options: Mapping[str, Any]) -> tuple[ProcessOptions, ConnectOptions]:
    """Return the checked options of an environment.

    Raises:
        EnvironmentUsageError: An option is unknown, has the wrong type, or contradicts another.
    """
    given, connect = parse_options("soulslab/Process-v0", options, ProcessOptions, ConnectOptions)
    connect.check()
    given.check(connect)
    return given, connect


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
