"""Save files of games: find them, copy them with a checksum, and restore them (docs/game_interfaces.md)."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soulslab.errors import SaveFileError
from soulslab.games.installation import app_of
from soulslab.siphon.process.discovery import writers_of

#: Folder within a Proton prefix.
ROAMING = "pfx/drive_c/users/steamuser/AppData/Roaming"
#: Suffix of the checksum file of a backup, in the format of ``sha256sum``.
CHECKSUM = ".sha256"


def find_save_file(game: str, prefix: Path | None = None) -> Path:
    """Return the save file in the Wine prefix of a game, or without one that of this user on Windows.

    Raises `SaveFileError` if there is none, or several.
    """
    app = app_of(game)
    roaming = prefix / ROAMING if prefix is not None else Path(os.environ.get("APPDATA", "."))
    folder = roaming / app.saves
    found = sorted(folder.glob(f"*/{app.save_file}"))
    if not found:
        raise SaveFileError(folder, f"contains no {app.save_file}; start the game once, or give the path of the file")
    if len(found) > 1:
        raise SaveFileError(folder, f"contains several: {', '.join(map(str, found))}; give the path of one of them")
    return found[0]


def backup(save: Path, copy: Path) -> str:
    """Copy a save file, with a checksum file beside the copy, and return the SHA-256 checksum in hexadecimal.

    Raises:
        SaveFileError: The file cannot be read, a process has it open for writing, or it changed during the copy.
    """
    _refuse_written(save)
    before = _checksum(save)
    _replace(save, copy)
    if not before == _checksum(save) == _checksum(copy):
        raise SaveFileError(save, "changed while it was copied; return to the game's title screen, then copy again")
    copy.with_name(copy.name + CHECKSUM).write_text(f"{before}  {copy.name}\n", encoding="utf-8")
    return before


def restore(copy: Path, save: Path) -> None:
    """Replace the save file of the game by a copy that `backup` wrote, in one atomic step.

    A running game reads the file at its next load.

    Raises:
        SaveFileError: The copy does not match its checksum, or a process has the save file open for writing.
    """
    checksum_file = copy.with_name(copy.name + CHECKSUM)
    try:
        wanted = checksum_file.read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError) as error:
        raise SaveFileError(checksum_file, "contains no checksum; only restore copies made by backup()") from error
    if _checksum(copy) != wanted:
        raise SaveFileError(copy, f"does not match its SHA-256 {wanted} in {checksum_file.name}; use another copy")
    if save.exists():
        _refuse_written(save)
    _replace(copy, save)


@contextmanager
def _failing(path: Path, problem: str) -> Iterator[None]:
    """Raise a `SaveFileError` with this problem for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise SaveFileError(path, f"{problem}: {error.strerror}") from error


def _refuse_written(path: Path) -> None:
    with _failing(path, "cannot be checked for writers"):
        writers = writers_of(path)
    if writers:
        listed = ", ".join(map(str, writers))
        problem = f"is open for writing in process {listed}; return to the title screen of the game, or exit the game"
        raise SaveFileError(path, problem)


def _checksum(path: Path) -> str:
    with _failing(path, "cannot be read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(source: Path, target: Path) -> None:
    """Copy a file atomically: a reader of the target gets the complete old file or the complete new file."""
    with (
        _failing(target, "cannot be written"),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".soulslab-") as folder,
    ):
        new = Path(folder) / target.name
        shutil.copy2(source, new)
        new.replace(target)
