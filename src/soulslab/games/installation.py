"""Where Steam has put a game, and how it is started from there: offline, by itself, without its anti-cheat launcher.

The program is started by Proton, with the folders that Steam would name to it; the anti-cheat belongs to another
program of the same folder, which is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from soulslab.errors import LaunchError
from soulslab.games.facts import unknown
from soulslab.siphon.profile import Profile

#: Where Steam is on Linux: its own installer, Debian's, Flatpak's.
STEAM_FOLDERS = (".steam/steam", ".local/share/Steam", ".var/app/com.valvesoftware.Steam/.local/share/Steam")
_LIBRARY = re.compile(r'"path"\s+"([^"]+)"')


class SteamApp(msgspec.Struct, frozen=True):
    """A game of Steam.

    Attributes:
        number: Its id in the store.
        folder: Of its program, in ``steamapps/common``.
        saves: Of its save files, in the user's ``AppData/Roaming``.
        save_file: Name of its save file, in a folder that is named after the player.
    """

    number: int
    folder: str
    saves: str
    save_file: str


APPS = {
    "dark_souls_3": SteamApp(374320, "DARK SOULS III/Game", "DarkSoulsIII", "DS30000.sl2"),
    "elden_ring": SteamApp(1245620, "ELDEN RING/Game", "EldenRing", "ER0000.sl2"),
}


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """A game on this machine.

    Attributes:
        app: Which.
        folder: Of its program.
        proton: The program that starts it.
        steam: Steam's own folder.
        prefix: Its Windows installation, in which its saves lie.
    """

    app: SteamApp
    folder: Path
    proton: Path
    steam: Path
    prefix: Path


def app_of(game: str) -> SteamApp:
    """Return a game of Steam by our name for it.

    Raises:
        ConfigError: There is none of that name (did you mean ...).
    """
    if game not in APPS:
        raise unknown("game of Steam", game, APPS)
    return APPS[game]


def find_installation(
    game: str, executable: str, *, folder: Path | None = None, proton: Path | None = None, home: Path | None = None
) -> Installation:
    """Find a game.

    Args:
        game: ``elden_ring`` or ``dark_souls_3``.
        executable: Name of its program.
        folder: Of its program; None looks into the libraries of Steam.
        proton: Program that starts it; None takes the latest of those that Steam has.
        home: Of the user; None for that of who runs this.

    Raises:
        LaunchError: Steam, the game or Proton is not there; the message says where it was looked for.
        ConfigError: There is no such game.
    """
    app, home = app_of(game), home or Path.home()
    steam = next((home / name for name in STEAM_FOLDERS if (home / name / "steamapps").is_dir()), None)
    if steam is None:
        looked = ", ".join(str(home / name) for name in STEAM_FOLDERS)
        raise LaunchError(f"Steam is not installed in any of {looked}; install it, and the game with it")
    libraries = list(_libraries(steam))
    folders = [folder] if folder else [library / "steamapps/common" / app.folder for library in libraries]
    found = next((one for one in folders if (one / executable).is_file()), None)
    if found is None:
        looked = ", ".join(map(str, folders))
        raise LaunchError(f"{executable} is not in {looked}; install the game with Steam, or give its folder")
    programs = (one for library in libraries for one in (library / "steamapps/common").glob("Proton*/proton"))
    protons = sorted(programs, key=lambda one: _version_of(one.parent.name))
    starter = proton or next(reversed(protons), None)
    if starter is None or not starter.is_file():
        raise LaunchError(
            f"there is no Proton{f' at {proton}' if proton else ''} to start {executable} with; install one with Steam "
            "(its library, Tools), or give its path"
        )
    return Installation(app=app, folder=found, proton=starter, steam=steam, prefix=_prefix(found, steam, app))


def launchable(profile: Profile, installation: Installation) -> Profile:
    """Return a profile that says how to start its game.

    Args:
        profile: Of the game; it says no more than how to recognise it.
        installation: Where the game is.
    """
    number = str(installation.app.number)
    process = msgspec.structs.replace(
        profile.process,
        command=(str(installation.proton), "run", str(installation.folder / profile.process.executable)),
        environment={
            "STEAM_COMPAT_CLIENT_INSTALL_PATH": str(installation.steam),
            "STEAM_COMPAT_DATA_PATH": str(installation.prefix),
            # Without it the program has Steam start the launcher of the anti-cheat, and ends.
            "SteamAppId": number,
            "SteamGameId": number,
        },
        directory=str(installation.folder),
    )
    return msgspec.structs.replace(profile, process=process)


def _version_of(name: str) -> tuple[list[int], str]:
    """Return what orders the names of Protons: their numbers; one without any, as Experimental, comes first."""
    return [int(number) for number in re.findall(r"\d+", name)], name


def _libraries(steam: Path) -> Iterator[Path]:
    """Yield the folders that Steam installs games in, its own first."""
    yield steam
    listing = steam / "steamapps/libraryfolders.vdf"
    if listing.is_file():
        for path in _LIBRARY.findall(listing.read_text(encoding="utf-8")):
            if Path(path) != steam:
                yield Path(path)


def _prefix(folder: Path, steam: Path, app: SteamApp) -> Path:
    """Return the Windows installation of a game: in the library that the game is in."""
    library = next((one.parent for one in folder.parents if one.name == "steamapps"), steam)
    return library / "steamapps/compatdata" / str(app.number)
