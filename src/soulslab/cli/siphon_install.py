"""``soulslab siphon install`` and ``uninstall``: the clock library beside a Windows game."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from soulslab.cli.output import print_line
from soulslab.cli.parameters import Game
from soulslab.errors import ConfigError, LaunchError

if TYPE_CHECKING:
    from soulslab.siphon.profile import Profile


def install(game: Game, *, folder: Path | None = None) -> None:
    """Install the clock library beside a game, for lockstep and the gamepad in a game that Steam starts; Windows only.

    It gets the name of the XInput library that the game imports. uninstall restores the folder.

    Args:
        folder: Folder of the game's program; by default, that in the libraries of Steam.
    """
    from soulslab.siphon.clock.windows_install import CLOCK, install

    profile, program = _find_program(game, folder, "install")
    record = install(program, profile.process)
    kept = f"; the {record.library} of the game is kept and used" if record.original_sha256 else ""
    print_line(f"installed in {program.parent}: {record.library}, {CLOCK}{kept}")
    print_line(f'Start {profile.name}. Sessions and environments then attach to it with clock="lockstep".')


def uninstall(game: Game, *, folder: Path | None = None) -> None:
    """Remove the clock library beside a game, and restore what was there before; Windows only.

    Args:
        folder: Folder of the game's program; by default, that in the libraries of Steam.
    """
    from soulslab.siphon.clock.windows_install import uninstall

    _, program = _find_program(game, folder, "uninstall")
    record = uninstall(program)
    is_restored = "restored" if record.original_sha256 else "removed"
    print_line(f"uninstalled from {program.parent}: {record.library} is {is_restored}")


def _find_program(game: Path, folder: Path | None, command: str) -> tuple[Profile, Path]:
    """Return the profile of a game, and the path of its program."""
    from soulslab.games import profile_path
    from soulslab.games.installation import APPS, find_installation
    from soulslab.siphon.clock.lockstep_page import IS_WINDOWS
    from soulslab.siphon.profile import load_profile

    if not IS_WINDOWS:
        raise ConfigError(
            "is for games on Windows; on Linux soulslab starts the game with the clock library (--start)",
            source=f"soulslab siphon {command}",
        )
    path = profile_path(game)
    profile = load_profile(path)
    name = path.parent.name
    if folder is None and name not in APPS:
        raise ConfigError(f"is needed: the folder of {profile.process.executable}", source="--folder")
    if folder is None:
        try:
            folder = find_installation(name, profile.process.executable).folder
        except LaunchError as error:
            raise LaunchError(f"{error}. Or name the folder of {profile.process.executable} with --folder") from error
    return profile, folder / profile.process.executable
