"""Discovery of the process of a game, and refusal of protected games.

A game is identified by the file name of its program. Linux cuts process names to 15 characters, and Wine gives its
processes Windows paths, so the name is searched in all places that may contain it.
"""

from __future__ import annotations

import glob
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import psutil

from soulslab.errors import (
    AmbiguousProcessError,
    AntiCheatError,
    GameVersionError,
    ProcessError,
    ProcessNotFoundError,
)
from soulslab.siphon.memory.linux import examining, read_regions
from soulslab.siphon.process.image import Image, file_name, same_name
from soulslab.siphon.profile import Process

#: Number of characters that Linux keeps of a process name (TASK_COMM_LEN - 1, include/linux/sched.h).
MAX_COMM = 15
WINE_LOADERS = ("wine", "wine64", "wine-preloader", "wine64-preloader")
#: Processes and modules of EasyAntiCheat and BattlEye, in lower case.
ANTI_CHEAT = (
    "eac", "eac.*", "eac_*", "eac-*", "easyanticheat*", "libeasyanticheat*", "start_protected_game.exe",
    "beservice*", "beclient*", "libbeclient*", "bedaisy*", "battleye*",
)  # fmt: skip
#: Variables that identify the Windows installation of a Wine process.
_PREFIXES = ("WINEPREFIX", "STEAM_COMPAT_DATA_PATH")
_N_LISTED = 10

_log = logging.getLogger(__name__)


class _Running(msgspec.Struct, frozen=True):
    """A process; `comm` is cut to 15 characters, `program` "" if unreadable, `started_s` counts since 1970."""

    pid: int
    comm: str
    program: str
    arguments: tuple[str, ...]
    started_s: float

    @property
    def name(self) -> str:
        """Name of the program, for people."""
        first = file_name(self.arguments[0]) if self.arguments else ""
        if self.comm and first[:MAX_COMM] == self.comm:
            return first
        return self.comm or self.program

    def describe(self) -> str:
        """Return one line for an error message."""
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started_s))
        return f"{self.pid}, started {started}: {' '.join(self.arguments).strip() or self.comm}"


def require_linux() -> None:
    """Raise `ProcessError` on systems other than Linux, where siphon cannot access processes."""
    if sys.platform != "linux":
        raise ProcessError(
            f"games are attached to and started on Linux only, and this is {sys.platform}; serve the game on the Linux "
            "machine that it runs on (soulslab siphon serve), and play it from here: environments take "
            "server='host:port', commands host:port in place of the game (docs/remote.md)"
        )


def find_process(process: Process, pid: int = 0) -> int:
    """Return the id of the process of a game; `pid` is the one to check, 0 to find the only one.

    Raises `ProcessNotFoundError`, also if `pid` runs another program, and `AmbiguousProcessError`, which lists several.
    """
    wanted = process.executable
    running = [one for one in _running() if one.pid != os.getpid()]
    if pid:
        return _check_given(pid, wanted, running)
    # Processes whose program has the name; if there are none, those whose own name is that name.
    ranks = {one.pid: _rank(one, wanted) for one in running}
    best = max(ranks.values(), default=0)
    found = [one for one in running if best and ranks[one.pid] == best]
    if not found:
        raise ProcessNotFoundError(f"no process is called {wanted!r}{_close_names(wanted, running)}")
    if len(found) > 1:
        lines = "".join(f"\n  {one.describe()}" for one in found[:_N_LISTED])
        more = f"\n  and {len(found) - _N_LISTED} more" if len(found) > _N_LISTED else ""
        raise AmbiguousProcessError(
            f"{len(found)} processes are called {wanted!r}; give the pid of one of them, or a part of its "
            f"window's title that the others lack (window_title):{lines}{more}",
            [one.pid for one in found],
        )
    return found[0].pid


def refuse_anti_cheat(pid: int, process: Process) -> None:
    """Raise `AntiCheatError` if an anti-cheat (also of `Process.anti_cheat`) is loaded or runs beside a process."""
    require_linux()
    patterns = (*ANTI_CHEAT, *(name.casefold() for name in process.anti_cheat))
    modules = {file_name(region.path) for region in read_regions(pid) if region.path}
    found = [f"module {name}" for name in sorted(modules) if _is_one_of(name, patterns)]
    for one in _running():
        names = {one.comm, one.program, *(file_name(argument) for argument in one.arguments[:1])}
        if any(_is_one_of(name, patterns) for name in names) and _belong_together(pid, one.pid):
            found.append(f"process {one.pid} ({one.name})")
    if found:
        raise AntiCheatError(
            f"an anti-cheat is loaded: {', '.join(found)}; soulslab neither reads nor writes such a game. Start the "
            f"game itself ({process.executable}) without its anti-cheat launcher and play offline, then attach again",
            pid=pid,
        )


def check_version(image: Image, process: Process, allow_unknown: bool) -> None:
    """Raise `GameVersionError`, or log it, if the executable has none of the versions in the profile."""
    if not process.versions or image.version in process.versions:
        return
    known = ", ".join(process.versions)
    is_what = f"is version {image.version}" if image.version else "carries no version"
    problem = f"{process.executable} {is_what}, but the profile was made for {known}"
    if not allow_unknown:
        raise GameVersionError(
            f"{problem}; install a known version, or allow unknown ones (allow_unknown_version) and check each value",
            pid=image.pid,
            version=image.version,
            known=process.versions,
        )
    _log.warning(
        "%s; attached because allow_unknown_version is set; check the profile with: soulslab games check", problem
    )


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    # The name, in parentheses, may contain any character; the state follows it.
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")


def executable_of(pid: int) -> str:
    """Return the path of the program of a process (under Wine, the Windows program). Raises as `examining`."""
    with examining(pid):
        path = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
        arguments = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    if file_name(path) in WINE_LOADERS:
        return next((argument for argument in arguments if argument.casefold().endswith(".exe")), path)
    return path


def _running() -> Iterator[_Running]:
    for pid in psutil.pids():
        try:
            one = psutil.Process(pid)
            with one.oneshot():
                if one.status() == psutil.STATUS_ZOMBIE:
                    continue
                # psutil would complete a name that the kernel has cut.
                comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").removesuffix("\n")
                yield _Running(pid, comm, _program(one), tuple(one.cmdline()), one.create_time())
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        except psutil.AccessDenied as denial:
            _log.debug("process %d is left out: %s", pid, denial)


def _program(one: psutil.Process) -> str:
    try:
        return file_name(one.exe().removesuffix(" (deleted)"))
    except psutil.AccessDenied:
        return ""  # another user's; its name and command line still say what it is


def _rank(one: _Running, wanted: str) -> int:
    """Return 2 for a process whose program has the name, 1 for one with that process name (a script), or 0."""
    names = [file_name(argument) for argument in one.arguments]
    if same_name(one.program, wanted) or (names and same_name(names[0], wanted)):
        return 2
    is_called_so = same_name(one.name, wanted)
    if len(wanted) > MAX_COMM:
        is_cut = one.comm.casefold() == wanted[:MAX_COMM].casefold()
        is_called_so = is_cut and (not names or any(same_name(name, wanted) for name in names))
    if not is_called_so:
        return 0
    return 2 if one.program in WINE_LOADERS else 1


def _check_given(pid: int, wanted: str, running: Sequence[_Running]) -> int:
    """Return the id of the given process if it has the name of the game."""
    one = next((one for one in running if one.pid == pid), None)
    if one is None:
        raise ProcessNotFoundError(f"process {pid} does not exist; is the game running?", pid=pid)
    if not _rank(one, wanted):
        raise ProcessNotFoundError(
            f"process {pid} is {one.name!r} and not {wanted!r}; give the id of the game, or none where only one runs",
            pid=pid,
        )
    return pid


def _close_names(wanted: str, running: Sequence[_Running]) -> str:
    names = {one.name for one in running}
    close = get_close_matches(wanted, sorted(names), n=3)
    if close:
        return f"; running are {', '.join(map(repr, close))}: is it one of them (process.executable)?"
    return "; start the game first"


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


def _belong_together(pid: int, other: int) -> bool:
    """Return whether two processes may share a login session or a Windows installation."""
    try:
        if os.getsid(pid) == os.getsid(other):
            return True
        ours, theirs = (psutil.Process(one).environ() for one in (pid, other))
    except (psutil.AccessDenied, PermissionError):
        return True
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return any(ours.get(name) and ours.get(name) == theirs.get(name) for name in _PREFIXES)


def writers_of(path: Path) -> tuple[int, ...]:
    """Return the processes that have a file open for writing, by id; such a file must not be copied or replaced.

    Processes of other users that cannot be examined are skipped. Raises `FileNotFoundError` without the file.
    """
    wanted = path.stat()
    found = set()
    for name in glob.iglob("/proc/[0-9]*/fd/*"):  # noqa: PTH207  (Path.glob raises when a process ends meanwhile)
        descriptor, pid = Path(name), int(name.split("/")[2])
        try:
            # Device and inode, because a file can be opened under several names.
            held = descriptor.stat()
            if (held.st_dev, held.st_ino) == (wanted.st_dev, wanted.st_ino) and _is_for_writing(pid, descriptor.name):
                found.add(pid)
        except OSError:
            continue  # it was closed in the meantime
    return tuple(sorted(found))


def _is_for_writing(pid: int, number: str) -> bool:
    """Return whether the flags of a descriptor (octal, proc(5)) permit writing."""
    lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii").splitlines()
    flags = next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
