"""The Doom environment (``soulslab/Doom-v0``): `ProcessEnv` with the profile of `soulslab.games.doom`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from soulslab.envs.arguments import parse_options, refuse_unknown_options
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.tasks.process.process_env import ProcessEnv, ProcessOptions, ProcessVectorEnv
from soulslab.envs.tasks.process.process_settings import Count, Positive
from soulslab.errors import EnvironmentUsageError, UnknownOptionError
from soulslab.games.doom import N_EPISODES, N_SKILLS, PHASE_2_IWADS, PROFILE_PATH, launch_options, n_maps

#: Options of `ProcessEnv` that have another name for Doom.
_RENAMED = {"max_steps": "max_tics", "random_start_ticks": "random_start_tics"}


class DoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Doom-v0`` in addition to those of `ProcessOptions`.

    Attributes:
        map: Number of the map, from 1 to 9, or from 1 to 32 in phase 2 (``iwad="freedoom2"``).
        skill: Skill level, from 1 (I'm too young to die) to 5 (nightmare).
        episode: Number of the episode, from 1 to 4; not used in phase 2.
        iwad: Name of the game data file without ``.wad``: ``freedoom1``, ``freedoom2``, or a file that you own.
        frame_skip: Tics of a step (35 tics are a second).
        max_tics: Tics after which an episode is truncated; 0 for no limit.
        random_start_tics: Largest number of tics without an action at the start; the number is drawn by the seed.
    """

    map: Positive = 1
    skill: Annotated[int, Meta(ge=1, le=N_SKILLS)] = 3
    episode: int = 1
    iwad: str = "freedoom1"
    frame_skip: Annotated[int, Meta(ge=1, le=1000)] = 4
    max_tics: Count = 8400
    random_start_tics: Count = 0

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for a map or an episode that the game data do not have."""
        if self.map > n_maps(self.iwad):
            raise EnvironmentUsageError(f"map must be a whole number from 1 to {n_maps(self.iwad)}, not {self.map}")
        if self.iwad not in PHASE_2_IWADS and not 1 <= self.episode <= N_EPISODES:
            raise EnvironmentUsageError(f"episode must be a whole number from 1 to {N_EPISODES}, not {self.episode}")


class DoomEnv(ProcessEnv):
    """A level of Doom.

    The game is deterministic: the same actions give the same episode, after each reset and in each process. With
    ``random_start_tics`` the seed determines how many tics pass before the first action.

    Args:
        render_mode: See `ProcessEnv`.
        options: See `DoomOptions` and `ProcessOptions`; ``profile`` replaces the profile of Doom.

    Raises:
        EnvironmentUsageError: An option is invalid.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        known = DoomOptions.__struct_fields__
        for name in options:
            if name in _RENAMED:
                raise UnknownOptionError(f"soulslab/Doom-v0 has no option {name!r}; use {_RENAMED[name]}")
        choices = {*known, *ProcessOptions.__struct_fields__, *ConnectOptions.__struct_fields__} - _RENAMED.keys()
        refuse_unknown_options("soulslab/Doom-v0", options, choices)
        given = {name: options.pop(name) for name in known if name in options}
        own: DoomOptions = parse_options("soulslab/Doom-v0", given, DoomOptions)[0]
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
    """Several Doom environments, each with its own process; see `DoomEnv` and `ProcessVectorEnv`."""

    single = DoomEnv
