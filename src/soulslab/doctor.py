"""Checks of the installation: what works on this machine, and how to repair the rest.

Each check uses the real thing: it encodes a video, compiles a kernel, takes ten decisions in a fight. All imports are
inside the checks, because a missing package is one of the possible results.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import enum
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from soulslab.errors import missing_dependency

if TYPE_CHECKING:
    from rich.table import Table

    from soulslab.siphon.profile import Process

OLDEST_PYTHON = (3, 11)
ENOUGH_DISK_GB = 2.0
VIDEO_CODECS = ("libx264", "mpeg4")
#: Purpose of each extra for users.
USER_EXTRAS = {
    "learn": "training",
    "tune": "tuning",
    "window": "the window of the built-in fight",
    "siphon": "games",
    "dashboard": "runs in a browser",
    "fleet": "many games with one learner",
}
SET_UP = r"run: py scripts\bootstrap.py setup" if sys.platform == "win32" else "run: make setup"


class State(enum.Enum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


class Check(msgspec.Struct, frozen=True):
    """Result of one check.

    The state is WARNING if soulslab works without it, MISSING if it does not; ``remedy`` is what to do, or "".
    """

    name: str
    state: State
    detail: str
    remedy: str = ""


def _check(name: str, is_ok: bool, detail: str, remedy: str = "", *, bad: State = State.WARNING) -> Check:
    """Return the result of a check; the remedy is for a result that is not OK."""
    return Check(name, State.OK if is_ok else bad, detail, "" if is_ok else remedy)


def examine(*, is_dev: bool = False) -> list[Check]:
    """Run all checks; this takes some seconds, because it compiles and runs a fight.

    With ``is_dev``, also compare each package with the tested version, and check what the tests need.
    """
    found: list[Check] = []
    for name, check in (*CHECKS, *(DEV_CHECKS if is_dev else ())):
        try:
            found += check()
        except Exception as error:  # noqa: BLE001  (every failure is a result of the check)
            # The check of the packages reports a missing extra.
            if not isinstance(error, ModuleNotFoundError) or missing_dependency(error) is None:
                found.append(Check(name, State.MISSING, f"{type(error).__name__}: {error}", SET_UP))
    return found


def lines(checks: list[Check]) -> str:
    """Return one line of text for each check, for a file or a pipe."""
    width = max(len(check.name) for check in checks)
    return "".join(
        f"{check.name:{width}}  {check.state.value:7}  {check.detail}".replace("\n", " ")
        + (f" -> {check.remedy}\n" if check.remedy else "\n")
        for check in checks
    )


def table(checks: list[Check]) -> Table:
    """Return the checks as a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    styles = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "bold red"}
    rows = Table(box=None, pad_edge=False)
    for title in ("check", "state", "found", "what to do"):
        rows.add_column(title, overflow="fold")
    for check in checks:
        state = Text(check.state.value, style=styles[check.state])
        rows.add_row(Text(check.name), state, Text(check.detail), Text(check.remedy))
    return rows


def check_python() -> Iterator[Check]:
    """Check the version of Python."""
    is_ok = sys.version_info >= OLDEST_PYTHON
    yield _check("Python", is_ok, sys.version.split()[0], "install Python 3.11 or newer", bad=State.MISSING)


def check_processor() -> Iterator[Check]:
    """Check the available cores, and the vector instructions for compiled kernels."""
    from llvmlite import binding

    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    features = binding.get_host_cpu_features()
    vectors = [name for name in ("avx512f", "avx2", "neon", "sse4.2") if features.get(name)]
    detail = f"{cores} cores, {vectors[0] if vectors else 'no known vector instructions'}"
    yield _check("processor", cores >= 2, detail, "training works, but uses the only core")


def check_packages() -> Iterator[Check]:
    """Check the required packages, and those of each extra for users."""
    packages = _packages()
    for name in (name for name, extra in packages if not extra):
        version = _installed_version(name)
        yield _check(name, version is not None, version or "not installed", "pip install soulslab", bad=State.MISSING)
    for extra, purpose in USER_EXTRAS.items():
        absent = [name for name, of_extra in packages if of_extra == extra and _installed_version(name) is None]
        detail = f"not installed: {', '.join(absent)}" if absent else f"for {purpose}"
        yield _check(f"extra {extra}", not absent, detail, f"for {purpose}: pip install 'soulslab[{extra}]'")


def check_tested_versions() -> Iterator[Check]:
    """Compare the installed version of each declared package with the tested version."""
    pins = _pins()
    if not pins:
        yield Check("tested versions", State.WARNING, "no constraints.txt", "only clones of the repository have it")
    for name, extra in _packages():
        version = _installed_version(name)
        if version is None:
            yield Check(name, State.WARNING, f"not installed (extra {extra})", SET_UP)
        elif version != pins.get(_normal(name), version):
            yield Check(name, State.WARNING, f"{version}, tested with {pins[_normal(name)]}", SET_UP)


def _packages() -> list[tuple[str, str]]:
    """Return the name of each declared package for this system, and its extra ("" for none).

    A requirement looks like ``xcffib>=1.5; sys_platform == "linux" and extra == "siphon"``.
    """
    found = []
    for requirement in metadata.requires("soulslab") or []:
        system = re.search(r"""sys_platform == ["'](\w+)["']""", requirement)
        if system is None or system[1] == sys.platform:
            name = re.match(r"[\w.-]+", requirement)
            extra = re.search(r"""extra == ["']([\w-]+)["']""", requirement)
            found.append((name[0] if name else requirement, extra[1] if extra else ""))
    return found


def _installed_version(name: str) -> str | None:
    """Return the version of an installed package without the build tag; None if it is not installed."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _pins() -> dict[str, str]:
    """Return the tested version of each package; empty outside of a clone of the repository."""
    file = Path(__file__).resolve().parents[2] / "constraints.txt"
    if not file.exists():
        return {}
    lines = (line.partition("==") for line in file.read_text(encoding="utf-8").splitlines() if "==" in line)
    return {_normal(name): version.strip() for name, _, version in lines}


def _normal(name: str) -> str:
    """Return the normalised spelling of a package name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_kernel_cache() -> Iterator[Check]:
    """Check whether the compiled code of the arena can be cached for the next start."""
    from soulslab.arena.kernel import CACHE_DIR

    detail = str(CACHE_DIR or "every start compiles again, which takes 10 s or more")
    yield _check("kernel cache", CACHE_DIR is not None, detail, "set NUMBA_CACHE_DIR to a folder you can write to")


def check_torch() -> Iterator[Check]:
    """Check the build and the threads of torch."""
    import torch

    threads = torch.get_num_threads()
    detail = f"{torch.__version__}, {threads} threads (training uses 1), {torch.backends.cpu.get_cpu_capability()}"
    yield _check("torch runs", float(torch.ones(2).sum()) == 2, detail, bad=State.MISSING)


def check_video() -> Iterator[Check]:
    """Encode some frames in memory."""
    import io

    import av
    import numpy as np

    for codec in (codec for codec in VIDEO_CODECS if codec in av.codecs_available):
        with av.open(io.BytesIO(), mode="w", format="mp4") as container:
            stream = cast("av.VideoStream", container.add_stream(codec, rate=30))
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
            n_bytes = sum(packet.size for packet in [*stream.encode(frame), *stream.encode()])
        if n_bytes:
            yield Check("video", State.OK, f"MP4 with {codec}")
            return
    yield Check("video", State.WARNING, f"none of {', '.join(VIDEO_CODECS)}", "pip install --force-reinstall av")


def check_terminal() -> Iterator[Check]:
    """Check whether the output is a terminal."""
    size, is_terminal = shutil.get_terminal_size(), sys.stdout.isatty()
    shown = f"{size.columns}x{size.lines}, {sys.stdout.encoding}"
    detail = shown if is_terminal else "the output is not a terminal"
    yield _check("terminal", is_terminal, detail, "`soulslab play` needs one")


def check_display() -> Iterator[Check]:
    """Check for a desktop, and for the program that provides private displays."""
    name = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")
    if not name and sys.platform in ("win32", "darwin"):
        name = sys.platform
    yield _check("display", bool(name), name or "none", "games run on private displays, which are not visible")
    if sys.platform == "linux":
        found = shutil.which("Xvfb")
        remedy = "for private displays: sudo apt-get install xvfb"
        yield _check("private displays", bool(found), found or "no Xvfb", remedy)


def check_disk() -> Iterator[Check]:
    """Check the disk space for runs."""
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    yield _check("disk", free_gb >= ENOUGH_DISK_GB, f"{free_gb:.0f} GB free here", "free disk space for runs/")


def check_fight() -> Iterator[Check]:
    """Take ten decisions in the built-in arena."""
    import gymnasium
    import numpy as np

    started = time.monotonic()
    with closing(gymnasium.make("soulslab/Arena-v0")) as env:
        _, info = env.reset(seed=0)
        for _ in range(10):
            _, _, is_over, is_cut, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
            if is_over or is_cut:
                break
    yield Check("arena", State.OK, f"10 decisions taken, {time.monotonic() - started:.1f} s with compilation")


def check_clock() -> Iterator[Check]:
    """Check the library that controls game time."""
    from soulslab.errors import ClockUnavailableError
    from soulslab.siphon.clock.lockstep_page import native_library

    try:
        native_library()
        yield Check("game time", State.OK, "lockstep")
    except ClockUnavailableError as error:
        yield Check("game time", State.WARNING, "no lockstep", str(error))


def check_memory() -> Iterator[Check]:
    """Check whether the system allows reading the memory of processes that soulslab did not start."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if sys.platform == "win32":
        yield Check("reading games", State.OK, "processes of this user with the same rights")
    elif sys.platform != "linux":
        remedy = "only on Linux and Windows; games on a server can be used"
        yield Check("reading games", State.WARNING, sys.platform, remedy)
    elif not scope.exists() or scope.read_text(encoding="ascii").strip() == "0":
        yield Check("reading games", State.OK, "all processes of this user")
    else:
        remedy = "to attach to a running game: sudo sysctl kernel.yama.ptrace_scope=0"
        yield Check("reading games", State.WARNING, "only games that soulslab starts", remedy)


def check_window() -> Iterator[Check]:
    """Check the libraries that draw the built-in fight."""
    import ctypes.util

    try:
        version = metadata.version("panda3d")
    except metadata.PackageNotFoundError:
        yield Check("window", State.WARNING, "no panda3d", "to see the built-in fight: pip install 'soulslab[window]'")
        return
    has_opengl = sys.platform != "linux" or ctypes.util.find_library("GL") is not None
    drawn_by = "OpenGL or software" if has_opengl else "software only, because OpenGL is not installed"
    yield Check("window", State.OK, f"panda3d {version}, {drawn_by}")


#: Extent of the tests for the commercial games, which the authors do not own.
PROVEN = (
    "tested: its profile on the built-in fight in its memory layout, and on a test program under Wine with that "
    "layout; not tested: the real game"
)


def check_real_games() -> Iterator[Check]:
    """Check for the games that have a profile, and report what was not tested with them."""
    from soulslab.games import known_games, profile_path
    from soulslab.games.installation import APPS
    from soulslab.siphon.profile import load_profile

    for name in known_games():
        process = load_profile(profile_path(Path(name))).process
        if name in APPS:
            remedy = f"buy and start {process.executable}, then: soulslab games check {name}; see docs/{name}.md"
            if sys.platform in ("linux", "win32"):
                remedy = (
                    f"buy and start {process.executable}, then: soulslab games check {name}; "
                    f"without it: soulslab arena --mask {name}, or stand_in=True; see docs/{name}.md"
                )
            yield Check(f"game {name}", State.WARNING, PROVEN, remedy)
        if name in APPS:
            yield _check_installed(name, process)
            yield _check_running(name, process)
        elif sys.platform == "linux":
            from soulslab.siphon.process.launch import find_program  # does not exist on Windows

            program = process.command[0]
            found = find_program(program)
            yield _check(f"game {name}", bool(found), found or f"no {program}", f"install {program} to play it")


def _check_installed(name: str, process: Process) -> Check:
    """Report the folder of a game in Steam, and the program that would start it."""
    from soulslab.errors import LaunchError
    from soulslab.games.installation import find_installation

    try:
        found = find_installation(name, process.executable)
    except LaunchError as error:
        return Check(f"{name} installed", State.WARNING, str(error), "only launch=True needs it")
    starter = f", started by {found.proton.parent.name}" if found.proton else ""
    detail = f"{found.folder}{starter} (not tested)"
    return Check(f"{name} installed", State.OK, detail)


def _check_running(name: str, process: Process) -> Check:
    """Report whether a game is running, its version, and whether it may be attached to."""
    from soulslab.errors import AntiCheatError, AttachDeniedError, ProcessNotFoundError, SiphonError
    from soulslab.siphon.memory.opening import open_memory
    from soulslab.siphon.process.discovery import executable_of, find_process, refuse_anti_cheat
    from soulslab.siphon.process.image import read_image

    title = f"{name} running"
    try:
        pid = find_process(process)
        refuse_anti_cheat(pid, process)
        with closing(open_memory(pid)) as memory:
            version = read_image(memory, process.executable).version
        detail = f"process {pid} ({executable_of(pid)}), {f'version {version}' if version else 'it has no version'}"
    except ProcessNotFoundError:
        return Check(title, State.WARNING, f"no process is called {process.executable}", "start it, offline")
    except (AntiCheatError, AttachDeniedError) as error:
        what = "an anti-cheat is running" if isinstance(error, AntiCheatError) else "access is denied"
        return Check(title, State.WARNING, f"process {error.pid}, {what}", str(error))
    except SiphonError as error:
        return Check(title, State.WARNING, "its version cannot be determined", str(error))
    if version in process.versions:
        return Check(title, State.OK, f"{detail}, which the profile supports", f"soulslab games check {name}")
    known = ", ".join(process.versions)
    remedy = (
        f"install one of {known}; or use allow_unknown_version=True, which checks every value before the first write"
    )
    return Check(title, State.WARNING, f"{detail}, which the profile does not support", remedy)


CHECKS: tuple[tuple[str, Callable[[], Iterator[Check]]], ...] = (
    ("Python", check_python),
    ("processor", check_processor),
    ("packages", check_packages),
    ("kernel cache", check_kernel_cache),
    ("torch runs", check_torch),
    ("video", check_video),
    ("display", check_display),
    ("disk", check_disk),
    ("arena", check_fight),
    ("window", check_window),
    ("game time", check_clock),
    ("reading games", check_memory),
    ("real games", check_real_games),
)
DEV_CHECKS: tuple[tuple[str, Callable[[], Iterator[Check]]], ...] = (
    ("tested versions", check_tested_versions),
    ("terminal", check_terminal),
)
