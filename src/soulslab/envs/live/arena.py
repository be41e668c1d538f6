"""The built-in fight, played in its window through memory, keys and pictures (``soulslab/ArenaLive-v0``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soulslab.arena.boss_file import Boss, load_boss
from soulslab.arena.knight import load_knight
from soulslab.envs.live.env import DuelEnv, DuelSetup
from soulslab.envs.live.options import make_duel_options
from soulslab.envs.live.scenario import scenario_of
from soulslab.envs.live.window_options import WindowOptions
from soulslab.envs.process_options import ProcessOptions, make_keeper
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.errors import EnvironmentUsageError
from soulslab.games import profile_path
from soulslab.games.arena import PROFILE_PATH, stand_in
from soulslab.siphon.profile import Profile, load_profile


class ArenaLiveOptions(WindowOptions, frozen=True, kw_only=True):
    """Options of ``soulslab/ArenaLive-v0``, beside those of `WindowOptions`.

    Attributes:
        boss: Name of a shipped boss, or the path of a boss file.
        mask: Name of a game that comes with a profile, or the path of one: the fight stands in for that game, its
            memory laid out as the profile says; "" for the arena's own.
    """

    boss: str | Path = "judge"
    mask: str | Path = ""

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        super().check()
        if not isinstance(self.boss, str | Path):
            raise EnvironmentUsageError(f"boss must be a name or the path of a boss file, not {self.boss!r}")
        if not isinstance(self.mask, str | Path):
            raise EnvironmentUsageError(f"mask must be the name of a game or the path of a profile, not {self.mask!r}")
        if self.mask and self.has_open_session:
            raise EnvironmentUsageError("mask: an open session has its game already; open it with that game's profile")

    def launch_options(self) -> dict[str, str]:
        """Return the options of the command that starts the game."""
        is_in_place = self.episodes == "in_place"
        return {
            "boss": _boss_argument(self.boss),
            # In place, episodes of any phase take place within a whole fight of the game, and are placed by themselves.
            "phase": "full" if is_in_place else str(self.phase),
            "poses": "random" if self.random_pose and not is_in_place else "fixed",
            "seed": str(self.first_seed if self.mask or self.launch_seed is not None else 0),
            **self.window_options(),
        }


class ArenaLiveEnv(DuelEnv):
    """The built-in fight in its window (``soulslab/ArenaLive-v0``): `DuelEnv` with the arena's own game.

    In lockstep, ``reset(seed=s)`` begins the fight that ``soulslab/Arena-v0`` begins with the same seed, and the same
    actions give the same observations, rewards and end.

    Args:
        render_mode: See `DuelEnv`.
        options: See `ArenaLiveOptions`.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
        BossFileError: A boss file is malformed.
        ProfileError: The profile of `mask` is.
    """

    # What the simulator taught is good here.
    metadata = {**DuelEnv.metadata, "policies_of": (ARENA_ID,)}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        given = make_duel_options(ArenaLiveOptions, options, ARENA_LIVE_ID)
        self.boss: Boss = load_boss(given.boss, list(load_knight().knock_backs))
        profile, source = _profile(given)
        process = ProcessOptions(
            profile=profile,
            options={} if given.read_only else given.launch_options(),
            pid=given.pid,
            server=given.server,
            token=given.token,
            token_file=given.token_file,
            tls=given.tls,
            display=given.display,
            read_only=given.read_only,
            session=given.session,
        )
        setup = DuelSetup(
            profile=profile,
            source=source,
            scenario=scenario_of(self.boss),
            keeper=make_keeper(process, profile, render_mode),
        )
        super().__init__(setup, given, render_mode)


def _profile(given: ArenaLiveOptions) -> tuple[Profile, str]:
    if given.has_open_session:
        return given.session.profile, given.session.profile.name
    path = profile_path(Path(given.mask)) if given.mask else PROFILE_PATH
    # A server has opened its window already, with the clock that the game's own profile says.
    is_started_here = given.mask and not given.server
    return (stand_in(path) if is_started_here else load_profile(path)), str(path)


def _boss_argument(boss: str | Path) -> str:
    """Return the name of a shipped boss, or a file's whole path: the game starts in a folder of its own."""
    return str(Path(boss).resolve() if Path(boss).suffix == ".toml" else boss)
