"""Exclusive control of a running game: one environment at a time; the error for a second one names the first.

The claim is a locked file in a folder that only this user can enter. The operating system releases the lock when the
process that holds it ends for any reason.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from filelock import lock_descriptor

from soulslab.errors import ControlTakenError, ProcessError, ProcessExitedError

#: Folder of a user that exists while the user is logged in; its path does not depend on the environment.
_RUNTIME = Path("/run/user")
_FALLBACK = Path("/tmp")  # noqa: S108  (the folder in it has to belong to this user)
#: Longest name of a holder that is read from a claim file.
_MAX_NAME_BYTES = 200


class ControlClaim:
    """The claim of this process on a game, until `release` or the end of this process.

    Errors name the holder: ``soulslab/Process-v0``. `folder` holds the claim files; None for the folder of this user.

    Raises `ControlTakenError` if another environment, in this or another process, controls the game, and `ProcessError`
    if the folder cannot be used, or the game has ended.
    """

    def __init__(self, pid: int, holder: str, folder: Path | None = None) -> None:
        self._path = (folder or _claim_folder()) / f"game-{pid}-{_start_ticks(pid)}.lock"
        self._fd = _locked(self._path, pid)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()} {holder}".encode()[:_MAX_NAME_BYTES], 0)

    def release(self) -> None:
        """Release the claim; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            # The file is removed while it is locked, so no other process can have claimed the game with it.
            self._path.unlink(missing_ok=True)
            os.close(fd)


def _locked(path: Path, pid: int) -> int:
    """Return the descriptor of a claim file that this process has locked. Raises `ControlTakenError`."""
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ProcessError(f"cannot open {path}: {error.strerror or error}; remove it", pid=pid) from error
        if not lock_descriptor(fd, blocking=False):
            holder = _holder(fd)
            os.close(fd)
            raise ControlTakenError(
                f"{holder} controls the game of process {pid}; close it first, or give each environment a game of its "
                f"own (another pid, or a list of them for a vector environment)",
                holder=holder,
            )
        if _is_same_file(fd, path):
            return fd
        os.close(fd)  # its holder has just removed it


def _holder(fd: int) -> str:
    """Return the name of the holder of a claim: its environment and process."""
    pid, _, name = os.pread(fd, _MAX_NAME_BYTES, 0).decode("utf-8", "replace").partition(" ")
    if pid == str(os.getpid()):
        return f"another environment of this process ({name})"
    return f"{name or 'another environment'} in process {pid}" if pid else "another environment"


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _claim_folder() -> Path:
    """Return the folder of this user's claims. Raises `ProcessError` if others can write to it."""
    runtime = _RUNTIME / str(os.getuid())
    folder = runtime / "soulslab" if os.access(runtime, os.W_OK | os.X_OK) else _FALLBACK / f"soulslab-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ProcessError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    if not is_own:
        raise ProcessError(f"{folder} is not a folder that only this user can write to; remove it")
    return folder


def _start_ticks(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot, because process ids are reused."""
    try:
        # The name of the program, in parentheses, may contain spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError as error:
        raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
