"""Save files of a game: found, copied with a checksum, and put back.

::

    save = find_save_file("elden_ring", installation.prefix)
    backup(save, Path("margit.sl2"))
    restore(Path("margit.sl2"), save)      # while the game does not write it
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from soulslab.errors import SaveFileError
from soulslab.games.installation import app_of
from soulslab.siphon.process.open_files import writers_of

#: In the Windows installation of Proton.
ROAMING = "pfx/drive_c/users/steamuser/AppData/Roaming"
#: The checksum lies beside a backup, under its name and this, as ``sha256sum`` writes it.
CHECKSUM = ".sha256"


def find_save_file(game: str, prefix: Path) -> Path:
    """Return the save file of the only player of a game.

    Args:
        game: ``elden_ring`` or ``dark_souls_3``.
        prefix: Windows installation of the game (`soulslab.games.installation.Installation`).

    Raises:
        SaveFileError: There is none, or there are several.
        ConfigError: There is no such game.
    """
    app = app_of(game)
    folder = prefix / ROAMING / app.saves
    found = sorted(folder.glob(f"*/{app.save_file}"))
    if not found:
        raise SaveFileError(folder, f"holds no {app.save_file} of any player; play the game once, or give the file")
    if len(found) > 1:
        raise SaveFileError(folder, f"holds several: {', '.join(map(str, found))}; give the one that is meant")
    return found[0]


def backup(save: Path, copy: Path) -> str:
    """Copy a save file, and write its checksum beside the copy.

    Args:
        save: The game's own.
        copy: Where to; a copy that is there is replaced.

    Returns:
        The checksum, SHA-256 in hex.

    Raises:
        SaveFileError: It cannot be read, a process has it open for writing, or it changed while it was copied.
    """
    _refuse_written(save)
    before = _checksum(save)
    _replace(save, copy)
    if not before == _checksum(save) == _checksum(copy):
        raise SaveFileError(save, "changed while it was copied; leave the game for its title, then copy again")
    copy.with_name(copy.name + CHECKSUM).write_text(f"{before}  {copy.name}\n", encoding="utf-8")
    return before


def restore(copy: Path, save: Path) -> None:
    """Put a copy back as the game's save file; the file that was there is replaced in one go.

    Args:
        copy: As `backup` made it, with its checksum beside it.
        save: The game's own. A game that runs takes it when it loads next.

    Raises:
        SaveFileError: The copy is not what its checksum says, or a process has the save file open for writing.
    """
    beside = copy.with_name(copy.name + CHECKSUM)
    try:
        wanted = beside.read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError) as error:
        raise SaveFileError(beside, "has no checksum of the copy; it was not made by backup()") from error
    if _checksum(copy) != wanted:
        raise SaveFileError(copy, f"is not what was copied: its SHA-256 is not the {wanted} beside it; take another")
    if save.exists():
        _refuse_written(save)
    _replace(copy, save)


def _refuse_written(path: Path) -> None:
    try:
        writers = writers_of(path)
    except OSError as error:
        raise SaveFileError(path, f"cannot be looked at: {error.strerror}") from error
    if writers:
        listed = ", ".join(map(str, writers))
        raise SaveFileError(path, f"is open for writing in process {listed}; leave the game for its title, or end it")


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SaveFileError(path, f"cannot be read: {error.strerror}") from error


def _replace(source: Path, target: Path) -> None:
    """Copy a file so that whoever reads the target has the old one or the new one, and nothing between."""
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".soulslab-") as folder:
            new = Path(folder) / target.name
            shutil.copy2(source, new)
            new.replace(target)
    except OSError as error:
        raise SaveFileError(target, f"cannot be written: {error.strerror}") from error
