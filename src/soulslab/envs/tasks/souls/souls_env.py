"""Bosses of Elden Ring and Dark Souls III (``soulslab/DarkSouls3Iudex-v0`` and others)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.envs.arguments import parse_options
from soulslab.envs.game.connect import ConnectOptions, hold_session
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.tasks.duel.duel_env import DuelEnv, DuelSetup, DuelVectorEnv
from soulslab.envs.tasks.duel.duel_options import DuelOptions, Minutes, WindowOptions
from soulslab.envs.tasks.duel.duel_scenario import POSITION, Scenario, scenario_of, scenario_of_facts
from soulslab.envs.tasks.souls.souls_entrance import GAMES, CharacterSettings, SoulsEntrance
from soulslab.errors import EnvironmentUsageError
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.games.boss_facts import GROUP, BossFacts, load_boss_facts, with_boss
from soulslab.games.installation import find_installation, launchable
from soulslab.games.souls_game import LAUNCH
from soulslab.siphon.local import open_session
from soulslab.siphon.process.discovery import refuse_anti_cheat
from soulslab.siphon.profile import Profile, load_profile

#: Options of `DuelOptions` with other defaults: episodes in place need no load, a reset may have to start the game and
#: wait for loads, and the user may have bound other keys.
DUEL_DEFAULTS: Final[dict[str, Any]] = {"episodes": "in_place", "reset_deadline_s": 600.0, "check_keys": True}

#: Game and boss with the fights of the simulator: same health, stamina, ground, animations and actions.
SIMULATED: Final = ("dark_souls_3", "iudex")


class SoulsOptions(CharacterSettings, frozen=True, kw_only=True):
    """Options of a boss of a real game, in addition to `CharacterSettings` and to those of `DuelOptions` and others.

    The options of `WindowOptions` are for the stand-in window. These options of `DuelOptions` have other defaults:
    ``episodes="in_place"``, ``reset_deadline_s=600`` and ``check_keys=True``.

    Attributes:
        boss: Another boss of the same game: a name of `soulslab.games.boss_facts.boss_names`, or the path of a fact
            file (docs/bosses.md); "" for the boss of the environment id.
        reload_minutes: Wall time after which a reset leaves the fight for another load, as SoulsGym 1.1.0 does because
            keys begin to lag; None for never. ``hard_reset_minutes`` restarts the program instead.
        launch: Whether the game is started, without the launcher of its anti-cheat, and on Linux with Steam's Proton.
            It is not kept offline. Otherwise it must already run.
        folder: Folder of the game's program, for `launch`; "" searches the libraries of Steam.
        proton: Path of Proton, for `launch`; "" takes the latest version in Steam.
        stand_in: Whether the built-in fight replaces the game: its window, with the memory layout of the game. No game
            needs to be installed. With `pid`, `server` or `session`, the window that runs there is used
            (``soulslab arena --mask``).
    """

    boss: str = ""
    reload_minutes: Minutes | None = 15.0
    launch: bool = False
    folder: str = ""
    proton: str = ""
    stand_in: bool = False

    def check(self, duel: DuelOptions, window: WindowOptions, connect: ConnectOptions) -> None:
        """Raise `EnvironmentUsageError` for the first option that contradicts another."""
        if (duel.episodes, str(duel.phase)) == ("demo", "2"):
            raise EnvironmentUsageError(
                "phase: a fight of the game begins with the first phase; phase '2' needs episodes='in_place'"
            )
        if self.launch and (self.stand_in or connect.has_running_game):
            raise EnvironmentUsageError("launch starts the real game: give no stand_in, server, pid or session with it")
        if self.launch and connect.read_only:
            raise EnvironmentUsageError(
                "launch starts the game, and read_only observes a running game; give only one of them"
            )
        plain = WindowOptions()
        for name in WindowOptions.__struct_fields__:
            if getattr(window, name) != getattr(plain, name) and not self.starts_window(connect):
                raise EnvironmentUsageError(f"{name} is for a window that stand_in=True starts")
        for name in ("folder", "proton"):
            if getattr(self, name) and not self.launch:
                raise EnvironmentUsageError(f"{name} is for launch=True")

    def starts_window(self, connect: ConnectOptions) -> bool:
        """Return whether the built-in fight is started in place of the game."""
        return self.stand_in and not connect.has_running_game


class SoulsDuelEnv(DuelEnv):
    """A boss of a real game: `DuelEnv` with the profile of the game and the facts of the boss.

    The game must run, offline and without its anti-cheat, or is started with ``launch=True``. ``stand_in=True`` plays
    the built-in fight in place of the game. This environment was developed without the real games;
    docs/dark_souls_3.md and docs/elden_ring.md list what was tested and what was not.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        boss: Name of the boss, or path of a fact file (docs/bosses.md).
        render_mode: See `DuelEnv`.
        options: See `SoulsOptions`, `DuelOptions`, `WindowOptions` and `ConnectOptions`.

    Raises:
        EnvironmentUsageError: An option is unknown or wrong.
        UnknownBossError: The boss does not exist.
        MissingFactError: A required fact of the boss is unknown; the message says how to record it.
        LaunchError: The game is to be started, and is not installed.
        AntiCheatError: The game is to be started, and an anti-cheat runs.
    """

    def __init__(self, game: str, boss: str | Path = "", render_mode: str | None = None, **options: Any) -> None:
        setup, duel, self.facts = make_souls_setup(game, boss, render_mode, options)
        super().__init__(setup, duel, render_mode)
        if (game, str(boss)) == SIMULATED:
            self.metadata = {**self.metadata, "fights_of": (ARENA_ID,)}


class SoulsDuelVectorEnv(DuelVectorEnv):
    """N fights with a boss of a real game, each in a separate game (`SoulsDuelEnv`)."""

    single: ClassVar[Callable[..., DuelEnv]] = SoulsDuelEnv


def make_souls_setup(
    game: str, boss: str | Path, render_mode: str | None, given_options: Mapping[str, Any]
) -> tuple[DuelSetup, DuelOptions, BossFacts]:
    """Return the game and the boss of an environment, the options of the duel, and the facts of the boss.

    Arguments and errors are those of `SoulsDuelEnv`.
    """
    given, duel, window, connect = parse_options(
        f"{game}, {boss}",
        {**given_options, "boss": boss},
        SoulsOptions,
        DuelOptions,
        WindowOptions,
        ConnectOptions,
        defaults=DUEL_DEFAULTS,
    )
    connect.check()
    duel.check(is_read_only=connect.read_only)
    given.check(duel, window, connect)
    if given.stand_in:
        # The window takes the keys of the profile.
        duel = msgspec.structs.replace(duel, check_keys=False)
    facts = load_boss_facts(game, given.boss)
    if str(duel.phase) != "full":
        facts.need("phase_two.animation")
    scenario = scenario_of_facts(facts)
    path = profile_path(Path(game))
    profile = _profile(given, connect, path, facts)
    if given.launch:
        options = msgspec.structs.replace(
            LAUNCH,
            display=connect.display or LAUNCH.display,
            input_backend=connect.input_backend,
            clock=connect.clock,
            allow_unknown_version=connect.allow_unknown_version,
            controller=f"an environment of {profile.name}",
        )
        connect = msgspec.structs.replace(connect, session=lambda: open_session(profile, options))
    is_window = given.starts_window(connect) and not connect.read_only
    holder = hold_session(
        connect,
        profile,
        launch="" if given.stand_in else "never",
        options={"seed": window.first_seed, **window.launch_options()} if is_window else {},
        # A game that already runs is on the user's screen.
        display="private" if given.stand_in and render_mode != "human" else "",
    )
    entrance = SoulsEntrance(facts, GAMES[path.parent.name], reload_minutes=given.reload_minutes, character=given)
    setup = DuelSetup(
        profile=profile,
        source=str(path),
        scenario=_as_judge(scenario) if given.stand_in else scenario,
        entrance=None if given.stand_in else entrance,
        holder=holder,
        is_read_only=connect.read_only,
    )
    return setup, duel, facts


def _as_judge(scenario: Scenario) -> Scenario:
    """Return the scenario for the stand-in window, with the health of the built-in boss.

    If both have the same coordinate system, the ground and the start poses are those of the built-in fight, too.
    """
    judge = scenario_of(load_boss("judge", list(load_knight().knock_backs)))
    # Some poses of the real game are below the flat floor of the built-in fight.
    ground = ("limits_m", "floor_m", "fall_m", "is_fall_deadly", "reward_centre_m")
    starts = ("player_pose", "player_poses_random", "boss_pose")
    ours = {name: getattr(judge, name) for name in (*ground, *starts)} if scenario.frame == POSITION else {}
    return msgspec.structs.replace(scenario, boss_max_hp=judge.boss_max_hp, **ours)


def _profile(given: SoulsOptions, connect: ConnectOptions, path: Path, facts: BossFacts) -> Profile:
    """Return the profile with the attributes of the boss, and with the command that starts the game."""
    if connect.has_open_session:
        profile: Profile = connect.session.profile
        if facts.attributes != GROUP:
            # `with_boss` replaces these attributes of a profile.
            is_other = any(name.startswith(f"{facts.attributes}.") for name in profile.attributes)
        else:
            is_other = GROUP in profile.entities and facts.entity_id not in (None, profile.entities[GROUP].id)
        if is_other:
            raise EnvironmentUsageError(
                f"session: its profile names another boss than {facts.name}; open it with "
                f"soulslab.games.boss_facts.with_boss(profile, facts)"
            )
        return profile
    if given.stand_in:
        if facts.attributes != GROUP:
            raise EnvironmentUsageError(
                f"stand_in: the built-in fight stands in for the attributes {GROUP!r} of the profile, and "
                f"{facts.name} has other attributes ({facts.attributes!r})"
            )
        # The server has already opened its window, and determines the clock.
        profile = load_profile(path) if connect.server else stand_in(path)
        named = profile.entities[GROUP].id if GROUP in profile.entities else None
        if named is not None and facts.entity_id != named:
            raise EnvironmentUsageError(
                f"stand_in: the built-in fight stands in for the boss of the profile (id {named}), and {facts.name} "
                f"has the id {facts.entity_id}; fight it in the real game"
            )
        return with_boss(profile, facts)
    profile = with_boss(load_profile(path), facts)
    if not given.launch:
        return profile
    refuse_anti_cheat(os.getpid(), profile.process)
    found = find_installation(
        path.parent.name,
        profile.process.executable,
        folder=Path(given.folder) if given.folder else None,
        proton=Path(given.proton) if given.proton else None,
    )
    return launchable(profile, found)
