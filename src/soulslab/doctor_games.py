"""What `soulslab doctor` says of the games that come with a profile: are they there, and what was never tried."""

# ruff: noqa: PLC0415  (a missing package is one of the doctor's answers)

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from soulslab.doctor import Check, State

if TYPE_CHECKING:
    from soulslab.siphon.profile import Process

#: What is proven is what the tests do; nobody who wrote them owned the games.
PROVEN = (
    "proven: its profile on the built-in fight under its mask, and on a test program under Wine that is laid out by "
    "it; never tried: the real game"
)


def check_real_games() -> Iterator[Check]:
    """Look for the games that come with a profile, and say what was never checked."""
    from soulslab.games import known_games, profile_path
    from soulslab.games.installation import APPS
    from soulslab.siphon.profile import load_profile

    for name in known_games():
        process = load_profile(profile_path(Path(name))).process
        if name in APPS:
            yield from _check_bought(name, process)
        elif sys.platform == "linux":
            yield _free(name, process.command[0])


def _free(name: str, program: str) -> Check:
    """Look for a game that costs nothing."""
    from soulslab.siphon.process.launch import find_program

    found = find_program(program)
    remedy = "" if found else f"install {program} to play it"
    return Check(f"game {name}", State.OK if found else State.WARNING, found or f"no {program}", remedy)


def _check_bought(name: str, process: Process) -> Iterator[Check]:
    """Look for a game that has to be bought: its proof, whether it is installed, whether it runs."""
    remedy = (
        f"own and start {process.executable} yourself, then: soulslab games check {name}; "
        f"without it: soulslab arena --mask {name}, or stand_in=True; docs/{name}.md leads through it"
    )
    if sys.platform != "linux":
        remedy = f"play that of a server on Linux, with server=; docs/{name}.md leads through it"
    yield Check(f"game {name}", State.WARNING, PROVEN, remedy)
    if sys.platform == "linux":
        yield _installed(name, process)
        yield _running(name, process)


def _installed(name: str, process: Process) -> Check:
    """Say where Steam has put a game, and what would start it."""
    from soulslab.errors import LaunchError
    from soulslab.games.installation import find_installation

    try:
        found = find_installation(name, process.executable)
    except LaunchError as error:
        return Check(f"{name} installed", State.WARNING, str(error), "only launch=True needs it")
    detail = f"{found.folder}, started by {found.proton.parent.name} (never tried)"
    return Check(f"{name} installed", State.OK, detail)


def _running(name: str, process: Process) -> Check:
    """Say whether a game runs, which version it is, and whether it may be attached to."""
    from soulslab.errors import AntiCheatError, AttachDeniedError, ProcessNotFoundError, SiphonError
    from soulslab.siphon.memory.linux import LinuxMemory
    from soulslab.siphon.process.discovery import executable_of, find_process, refuse_anti_cheat
    from soulslab.siphon.process.image import read_image

    title = f"{name} running"
    try:
        pid = find_process(process)
        refuse_anti_cheat(pid, process)
        memory = LinuxMemory(pid)
        try:
            version = read_image(memory, process.executable).version
        finally:
            memory.close()
        detail = f"process {pid} ({executable_of(pid)}), {f'version {version}' if version else 'it tells no version'}"
    except ProcessNotFoundError:
        return Check(title, State.WARNING, f"no process is called {process.executable}", "start it, offline")
    except (AntiCheatError, AttachDeniedError) as error:
        what = "an anti-cheat runs with it" if isinstance(error, AntiCheatError) else "it must not be read"
        return Check(title, State.WARNING, f"process {error.pid}, {what}", str(error))
    except SiphonError as error:
        return Check(title, State.WARNING, "it cannot be told which version runs", str(error))
    if version in process.versions:
        return Check(title, State.OK, f"{detail}, which the profile knows", f"soulslab games check {name}")
    known = ", ".join(process.versions)
    remedy = (
        f"install one of {known}; or allow_unknown_version=True, and every value is checked before anything is written"
    )
    return Check(title, State.WARNING, f"{detail}, which the profile does not know", remedy)
