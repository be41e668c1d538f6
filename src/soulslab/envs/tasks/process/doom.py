"""Doom as an environment (``soulslab/Doom-v0``): the profile of `soulslab.games.doom`, with Doom's own words."""

from __future__ import annotations

from typing import Any

import msgspec

from soulslab.envs.arguments import refuse_unknown_options
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.tasks.process.process_env import ProcessEnv, ProcessVectorEnv
from soulslab.envs.tasks.process.process_options import ProcessOptions
from soulslab.errors import EnvironmentUsageError, UnknownOptionError
from soulslab.games.doom import N_EPISODES, N_SKILLS, PHASE_2_IWADS, PROFILE_PATH, launch_options, n_maps

#: Options of any game that Doom has other words for.
_RENAMED = {"max_steps": "max_tics", "random_start_ticks": "random_start_tics"}


class DoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/Doom-v0``, beside those of `ProcessOptions`.

    Attributes:
        map: Which map, from 1 to 9, or to 32 in phase 2 (``iwad="freedoom2"``).
        skill: From 1 (I'm too young to die) to 5 (nightmare).
        episode: Which episode, from 1 to 4; phase 2 has none.
        iwad: Game data, without ``.wad``: ``freedoom1``, ``freedoom2``, or the name of one that you own.
        frame_skip: Tics in a step (35 tics are a second).
        max_tics: Tics after which an episode is cut short; 0 for never.
        random_start_tics: At most so many tics pass at the start without an action, drawn by the seed.
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
        options: See `DoomOptions` and `ProcessOptions`; ``profile`` takes one of your own in place of Doom's.

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
    """Several Dooms at once, each in a process of its own; see `DoomEnv` and `ProcessVectorEnv`."""

    single = DoomEnv
