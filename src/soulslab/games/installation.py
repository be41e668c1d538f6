"""Games installed with Steam: location and launch command, offline and without the anti-cheat launcher.

On Linux, Proton starts the program; on Windows it is started itself. It gets the environment variables that Steam would
set. The anti-cheat is a separate program in the same folder and is not started.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from soulslab.errors import LaunchError
from soulslab.games.facts import find_fact
from soulslab.siphon.profile import Profile

#: Folders of Steam on Linux: its own installer, Debian's package, Flatpak.
STEAM_FOLDERS = (".steam/steam", ".local/share/Steam", ".var/app/com.valvesoftware.Steam/.local/share/Steam")
#: Keys of the registry, below HKEY_CURRENT_USER and HKEY_LOCAL_MACHINE, and their values with the folder of Steam.
STEAM_KEYS = ((r"Software\Valve\Steam", "SteamPath"), (r"SOFTWARE\WOW6432Node\Valve\Steam", "InstallPath"))
_LIBRARY = re.compile(r'"path"\s+"([^"]+)"')


class SteamApp(msgspec.Struct, frozen=True):
    """A game in the Steam store.

    ``folder`` is relative to ``steamapps/common``. ``saves`` is the folder of the save files, relative to the user's
    ``AppData/Roaming``; the save file is in a folder named after the player's id.
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
    """An installed game.

    Attributes:
        app: Entry of the store.
        folder: Folder of its program.
        steam: Folder of Steam.
        proton: Program that starts the game; None on Windows.
        prefix: Wine prefix of the game, with the save files; None on Windows.
    """

    app: SteamApp
    folder: Path
    steam: Path
    proton: Path | None = None
    prefix: Path | None = None


def app_of(game: str) -> SteamApp:
    """Return the store entry of a game by its name in soulslab; raises `ConfigError` if the name is unknown."""
    return find_fact("game of Steam", game, APPS)


def find_installation(
    game: str, executable: str, *, folder: Path | None = None, proton: Path | None = None, home: Path | None = None
) -> Installation:
    """Find an installed game.

    Without a folder, the libraries of Steam are searched. Without Proton, the latest one installed with Steam is used.
    Without a home folder, it is that of the current user. Windows needs neither: the registry names the folder of
    Steam.

    Raises:
        LaunchError: Steam, the game or Proton was not found; the message lists the searched folders.
        ConfigError: The game is unknown.
    """
    app = app_of(game)
    candidates = _registered_folders() if sys.platform == "win32" else _linux_folders(home or Path.home())
    steam = next((one for one in candidates if (one / "steamapps").is_dir()), None)
    if steam is None:
        searched = ", ".join(map(str, candidates)) or "the registry"
        raise LaunchError(f"Steam was not found in {searched}; install Steam, and the game with it")
    libraries = list(_libraries(steam))
    folders = [folder] if folder else [library / "steamapps/common" / app.folder for library in libraries]
    found = next((one for one in folders if (one / executable).is_file()), None)
    if found is None:
        searched = ", ".join(map(str, folders))
        raise LaunchError(f"{executable} was not found in {searched}; install the game with Steam, or give its folder")
    if sys.platform == "win32":
        return Installation(app=app, folder=found, steam=steam)
    programs = (one for library in libraries for one in (library / "steamapps/common").glob("Proton*/proton"))
    protons = sorted(programs, key=lambda one: _version_of(one.parent.name))
    starter = proton or next(reversed(protons), None)
    if starter is None or not starter.is_file():
        raise LaunchError(
            f"no Proton{f' at {proton}' if proton else ''} to start {executable} with; install Proton with Steam "
            "(Library, Tools), or give its path"
        )
    return Installation(app=app, folder=found, proton=starter, steam=steam, prefix=_prefix(found, steam, app))


def launchable(profile: Profile, installation: Installation) -> Profile:
    """Return a profile with the command and environment that start the installed game."""
    number = str(installation.app.number)
    command = [str(installation.folder / profile.process.executable)]
    # Without these the program asks Steam to start the anti-cheat launcher, and exits.
    environment = {"SteamAppId": number, "SteamGameId": number}
    if installation.proton is not None:
        command = [str(installation.proton), "run", *command]
        environment["STEAM_COMPAT_CLIENT_INSTALL_PATH"] = str(installation.steam)
        environment["STEAM_COMPAT_DATA_PATH"] = str(installation.prefix)
    process = msgspec.structs.replace(
        profile.process, command=tuple(command), environment=environment, directory=str(installation.folder)
    )
    return msgspec.structs.replace(profile, process=process)


def _linux_folders(home: Path) -> list[Path]:
    return [home / name for name in STEAM_FOLDERS]


def _registered_folders() -> list[Path]:
    """Return the folders of Steam that the registry names."""
    winreg: Any = importlib.import_module("winreg")  # Windows only
    found = []
    for root, (key, name) in zip((winreg.HKEY_CURRENT_USER, winreg.HKEY_LOCAL_MACHINE), STEAM_KEYS, strict=True):
        try:
            with winreg.OpenKey(root, key) as opened:
                value, _ = winreg.QueryValueEx(opened, name)
        except FileNotFoundError:
            continue
        found.append(Path(value))
    return found


def _version_of(name: str) -> tuple[list[int], str]:
    """Return the sort key of a Proton's name: its version numbers; a name without numbers sorts first."""
    return [int(number) for number in re.findall(r"\d+", name)], name


def _libraries(steam: Path) -> Iterator[Path]:
    """Yield the library folders of Steam, the main one first."""
    yield steam
    listing = steam / "steamapps/libraryfolders.vdf"
    if listing.is_file():
        for text in _LIBRARY.findall(listing.read_text(encoding="utf-8")):
            # The file escapes the backslashes of Windows.
            path = Path(text.replace("\\\\", "\\"))
            if path != steam:
                yield path


def _prefix(folder: Path, steam: Path, app: SteamApp) -> Path:
    """Return the Wine prefix of a game, which is in the same library as the game."""
    library = next((one.parent for one in folder.parents if one.name == "steamapps"), steam)
    return library / "steamapps/compatdata" / str(app.number)
