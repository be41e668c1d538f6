"""Doom as an environment (``soulslab/Doom-v0``): the profile of `soulslab.games.doom`, with the terms of Doom."""

from __future__ import annotations

from typing import Any

import msgspec

from soulslab.envs.arguments import refuse_unknown_options
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.tasks.process.process_env import ProcessEnv, ProcessVectorEnv
from soulslab.envs.tasks.process.process_options import ProcessOptions
from soulslab.errors import EnvironmentUsageError, UnknownOptionError
from soulslab.games.doom import N_EPISODES, N_SKILLS, PHASE_2_IWADS, PROFILE_PATH, launch_options, n_maps

#: Options of `ProcessOptions` that have another name in Doom.
_RENAMED = {"max_steps": "max_tics", "random_start_ticks": "random_start_tics"}


class DoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Doom-v0``, in addition to `ProcessOptions`.

    Attributes:
        map: Number of the map, from 1 to 9, or from 1 to 32 in Freedoom: Phase 2 (``iwad="freedoom2"``).
        skill: Skill level, from 1 (I'm too young to die) to 5 (nightmare).
        episode: Number of the Doom episode, from 1 to 4; without effect in Freedoom: Phase 2.
        iwad: Name of the game data, without ``.wad``: ``freedoom1``, ``freedoom2``, or data that you own.
        frame_skip: Number of tics in a step (35 tics are a second).
        max_tics: Number of tics after which an episode is truncated; 0 for no limit.
        random_start_tics: Maximum number of tics without an action at the start, drawn with the seed.
    """

    map: int = 1
    skill: int = 3
    episode: int = 1
    iwad: str = "freedoom1"
    frame_skip: int = 4
    max_tics: int = 8400
    random_start_tics: int = 0

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is out of range."""
        limits = {"map": (1, n_maps(self.iwad)), "skill": (1, N_SKILLS), "episode": (1, N_EPISODES)}
        limits |= {"frame_skip": (1, 1000), "max_tics": (0, 10**6), "random_start_tics": (0, 10**6)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            is_unused = name == "episode" and self.iwad in PHASE_2_IWADS
            if isinstance(value, bool) or not isinstance(value, int) or not (is_unused or low <= value <= high):
                raise EnvironmentUsageError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


class DoomEnv(ProcessEnv):
    """One level of Doom.

    The game has no seed: the same actions give the same episode, at each reset and in each process. With
    ``random_start_tics`` the seed chooses how many tics pass before the first action.

    Args:
        render_mode: See `ProcessEnv`.
        options: See `DoomOptions` and `ProcessOptions`; ``profile`` replaces the profile of Doom.

    Raises:
        EnvironmentUsageError: An option is wrong.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        known = DoomOptions.__struct_fields__
        for name in options:
            if name in _RENAMED:
                raise UnknownOptionError(f"soulslab/Doom-v0 has no option {name!r}; use {_RENAMED[name]}")
        choices = {*known, *ProcessOptions.__struct_fields__, *ConnectOptions.__struct_fields__} - _RENAMED.keys()
        refuse_unknown_options("soulslab/Doom-v0", options, choices)
        own = DoomOptions(**{name: options.pop(name) for name in known if name in options})
        own.check()
        launch = {**launch_options(own.iwad, own.episode, own.map, own.skill), **options.pop("options", {})}
        super().__init__(
            render_mode=render_mode,
            **{"profile": PROFILE_PATH, **options},
            options=launch,
            frame_skip=own.frame_skip,
            max_steps=-(-own.max_tics // own.frame_skip),
            random_start_ticks=own.random_start_tics,
        )


class DoomVectorEnv(ProcessVectorEnv):
    """N games of Doom, each in a separate process (`GameVectorEnv` of `DoomEnv`)."""

    single = DoomEnv
