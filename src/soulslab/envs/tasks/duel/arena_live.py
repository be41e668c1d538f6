"""The built-in fight in its window, played through memory, keys and pictures (``soulslab/ArenaLive-v0``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import Boss
from soulslab.envs.arguments import parse_options
from soulslab.envs.game.connect import ConnectOptions, hold_session
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.envs.tasks.duel.duel_env import DuelEnv, DuelSetup, DuelVectorEnv
from soulslab.envs.tasks.duel.duel_options import DuelOptions, WindowOptions
from soulslab.envs.tasks.duel.duel_scenario import scenario_of
from soulslab.errors import EnvironmentUsageError
from soulslab.games import profile_path
from soulslab.games.arena import PROFILE_PATH, stand_in
from soulslab.siphon.profile import Profile, load_profile


class ArenaLiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``soulslab/ArenaLive-v0``, in addition to `DuelOptions`, `WindowOptions` and `ConnectOptions`.

    Attributes:
        boss: Name of a shipped boss, ``generated:SEED``, or the path of a boss file (`find_boss`).
        mask: Name of a shipped profile, or the path of a profile. The window then has the memory layout and the keys
            of that game. "" for the arena's own layout.
    """

    boss: str = "judge"
    mask: str = ""

    def launch_options(self, duel: DuelOptions, window: WindowOptions) -> dict[str, str]:
        """Return the options of the command that starts the game."""
        is_in_place = duel.episodes == "in_place"
        return {
            # The path of a file is absolute, because the game starts in another folder.
            "boss": str(Path(self.boss).resolve()) if Path(self.boss).suffix == ".toml" else self.boss,
            # Episodes in place of any phase are played within a complete fight, and draw their start poses themselves.
            "phase": "full" if is_in_place else str(duel.phase),
            "poses": "random" if duel.random_pose and not is_in_place else "fixed",
            "seed": str(window.first_seed if self.mask or window.launch_seed is not None else 0),
            **window.launch_options(),
        }


class ArenaLiveEnv(DuelEnv):
    """The built-in fight in its window (``soulslab/ArenaLive-v0``): `DuelEnv` with the arena's own game.

    In lockstep, ``reset(seed=s)`` begins the fight that ``soulslab/Arena-v0`` begins with the same seed, and the same
    actions give the same observations, rewards and end.

    Args:
        render_mode: See `DuelEnv`.
        options: See `ArenaLiveOptions`, `DuelOptions`, `WindowOptions` and `ConnectOptions`.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
        BossFileError: A boss file is malformed.
        ProfileError: The profile of `mask` is malformed.
    """

    metadata = {**DuelEnv.metadata, "fights_of": (ARENA_ID,)}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        given, duel, window, connect = parse_options(
            ARENA_LIVE_ID, options, ArenaLiveOptions, DuelOptions, WindowOptions, ConnectOptions
        )
        connect.check()
        duel.check(is_read_only=connect.read_only)
        if given.mask and connect.has_open_session:
            raise EnvironmentUsageError(
                "mask: an open session already has a profile; open the session with the profile of that game"
            )
        self.boss: Boss = find_boss(given.boss)
        profile, source = _profile(given, connect)
        holder = hold_session(
            connect,
            profile,
            options={} if connect.read_only else given.launch_options(duel, window),
            display="" if render_mode == "human" else "private",
        )
        setup = DuelSetup(
            profile=profile,
            source=source,
            scenario=scenario_of(self.boss),
            holder=holder,
            is_read_only=connect.read_only,
        )
        super().__init__(setup, duel, render_mode)


class ArenaLiveVectorEnv(DuelVectorEnv):
    """N fights of the built-in arena, each in a separate window (``soulslab/ArenaLive-v0``)."""

    single: ClassVar[Callable[..., DuelEnv]] = ArenaLiveEnv


def _profile(given: ArenaLiveOptions, connect: ConnectOptions) -> tuple[Profile, str]:
    if connect.has_open_session:
        return connect.session.profile, connect.session.profile.name
    path = profile_path(Path(given.mask)) if given.mask else PROFILE_PATH
    # A server has already opened its window with the clock of the game's own profile.
    is_started_here = given.mask and not connect.server
    return (stand_in(path) if is_started_here else load_profile(path)), str(path)
