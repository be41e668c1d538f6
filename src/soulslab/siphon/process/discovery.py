"""Discovery of the process of a game, and refusal of protected games.

A game is identified by the file name of its program. The modules `linux` and `windows` of this package, which have the
same functions, list the processes and answer questions about one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from soulslab.errors import (
    AmbiguousProcessError,
    AntiCheatError,
    AttachDeniedError,
    GameVersionError,
    ProcessError,
    ProcessNotFoundError,
)
from soulslab.siphon.process.image import Image, file_name
from soulslab.siphon.process.running_process import RunningProcess
from soulslab.siphon.profile import Process

if sys.platform == "win32":
    from soulslab.siphon.process.windows import (
        belong_together,
        executable_of,
        has_ended,
        modules_of,
        running,
        writers_of,
    )
else:
    from soulslab.siphon.memory.linux import has_ended
    from soulslab.siphon.process.linux import belong_together, executable_of, modules_of, running, writers_of

__all__ = [
    "check_version",
    "executable_of",
    "find_process",
    "has_ended",
    "is_anti_cheat",
    "refuse_anti_cheat",
    "require_supported_platform",
    "running",
    "writers_of",
]

#: Processes and modules of EasyAntiCheat and BattlEye, in lower case.
ANTI_CHEAT = (
    "eac", "eac.*", "eac_*", "eac-*", "easyanticheat*", "libeasyanticheat*", "start_protected_game.exe",
    "beservice*", "beclient*", "libbeclient*", "bedaisy*", "battleye*",
)  # fmt: skip
_N_LISTED = 10

_log = logging.getLogger(__name__)


def require_supported_platform() -> None:
    """Raise `ProcessError` on systems other than Linux and Windows, where siphon cannot access processes."""
    if sys.platform not in ("linux", "win32"):
        raise ProcessError(
            f"games are attached to and started on Linux and Windows only, and this is {sys.platform}; serve the game "
            "on the machine that it runs on (soulslab siphon serve), and play it from here: environments take "
            "server='host:port', commands host:port in place of the game (docs/remote.md)"
        )


def find_process(process: Process, pid: int = 0) -> int:
    """Return the id of the process of a game; `pid` is the one to check, 0 to find the only one.

    Raises `ProcessNotFoundError`, also if `pid` runs another program, and `AmbiguousProcessError`, which lists several.
    """
    wanted = process.executable
    others = [one for one in running() if one.pid != os.getpid()]
    if pid:
        return _check_given(pid, wanted, others)
    # Processes whose program has the name; if there are none, those whose own name is that name.
    ranks = {one.pid: one.rank(wanted) for one in others}
    best = max(ranks.values(), default=0)
    found = [one for one in others if best and ranks[one.pid] == best]
    if not found:
        raise ProcessNotFoundError(f"no process is called {wanted!r}{_close_names(wanted, others)}")
    if len(found) > 1:
        lines = "".join(f"\n  {one.describe()}" for one in found[:_N_LISTED])
        more = f"\n  and {len(found) - _N_LISTED} more" if len(found) > _N_LISTED else ""
        raise AmbiguousProcessError(
            f"{len(found)} processes are called {wanted!r}; give the pid of one of them, or a part of its "
            f"window's title that the others lack (window_title):{lines}{more}",
            [one.pid for one in found],
        )
    return found[0].pid


def is_anti_cheat(name: str, process: Process) -> bool:
    """Return whether a file name is that of an anti-cheat (also of `Process.anti_cheat`)."""
    patterns = (*ANTI_CHEAT, *(one.casefold() for one in process.anti_cheat))
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


def refuse_anti_cheat(pid: int, process: Process) -> None:
    """Raise `AntiCheatError` if an anti-cheat (also of `Process.anti_cheat`) is loaded or runs beside a process."""
    require_supported_platform()
    modules: set[str] = set()
    denial = None
    try:
        modules = modules_of(pid)
    except AttachDeniedError as error:
        denial = error  # an anti-cheat may be the reason
    found = [f"module {name}" for name in sorted(modules) if is_anti_cheat(name, process)]
    for one in running():
        names = {one.comm, one.program, *(file_name(argument) for argument in one.arguments[:1])}
        if any(is_anti_cheat(name, process) for name in names) and belong_together(pid, one.pid):
            found.append(f"process {one.pid} ({one.name})")
    if found:
        raise AntiCheatError(
            f"an anti-cheat is loaded: {', '.join(found)}; soulslab neither reads nor writes such a game. Start the "
            f"game itself ({process.executable}) without its anti-cheat launcher and play offline, then attach again",
            pid=pid,
        ) from denial
    if denial is not None:
        raise denial


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


def _check_given(pid: int, wanted: str, others: Sequence[RunningProcess]) -> int:
    """Return the id of the given process if it has the name of the game."""
    one = next((one for one in others if one.pid == pid), None)
    if one is None:
        raise ProcessNotFoundError(f"process {pid} does not exist; is the game running?", pid=pid)
    if not one.rank(wanted):
        raise ProcessNotFoundError(
            f"process {pid} is {one.name!r} and not {wanted!r}; give the id of the game, or none where only one runs",
            pid=pid,
        )
    return pid


def _close_names(wanted: str, others: Sequence[RunningProcess]) -> str:
    names = {one.name for one in others}
    close = get_close_matches(wanted, sorted(names), n=3)
    if close:
        return f"; running are {', '.join(map(repr, close))}: is it one of them (process.executable)?"
    return "; start the game first"
