"""A small Windows game (``windows_game.c``) under Wine, with a Windows installation of the process."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import psutil

from soulslab.siphon.process.process_tree import living
from soulslab.siphon.profile import Profile, load_profile

SOURCE = Path(__file__).with_name("windows_game.c")
#: A program whose memory the tests read.
TARGET_SOURCE = Path(__file__).with_name("target.c")
PAINTER = SOURCE.with_name("windows_painter.c")
#: An XInput library of a game.
XINPUT = SOURCE.with_name("windows_xinput.c")
PROFILE: Profile = load_profile(SOURCE.with_suffix(".toml"))
COMPILER = "x86_64-w64-mingw32"
SET_UP_DEADLINE_S = 120
END_DEADLINE_S = 30
PACKAGES = "wine gcc-mingw-w64-x86-64-win32"


def program(name: str) -> str:
    """Return the path of a program; raise an error with installation instructions if it is missing."""
    path = which(name)
    assert path, f"{name} is not installed; scripts/bootstrap.py installs it, or: sudo apt-get install {PACKAGES}"
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel releases it when this process ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class WindowsInstallation:
    """A folder with a Windows installation of Wine and the game.

    Each installation has one server of Wine, and a game for lockstep starts its own server, so only one game can run at
    a time. Each process of a run has its own installation.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"
        self.game = folder / PROFILE.process.executable
        self.target = folder / "siphon_target_program.exe"
        self.painter = folder / "painter.exe"
        self.xinput = folder / "xinput.dll"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Create the installation; remove it at the end."""
        self.folder.mkdir()
        self._compile()
        self._set_up()
        try:
            yield
        finally:
            shutil.rmtree(self.prefix)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the installation; no process may run in it afterwards."""
        with self.occupied():
            yield
            assert self.processes() == []

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Use the installation; processes that still run in it afterwards are ended."""
        try:
            yield
        finally:
            self.end_all()

    def environment(self, display: str = "") -> dict[str, str]:
        """Return the environment variables of a program in the installation.

        Args:
            display: Display of its windows; "" for none.
        """
        own = {name: text.format(prefix=self.prefix) for name, text in PROFILE.process.environment.items()}
        inherited = {name: text for name, text in os.environ.items() if name != "DISPLAY"}
        return inherited | own | ({"DISPLAY": display} if display else {})

    def options(self, loop: str) -> dict[str, str]:
        """Return the options of the profile."""
        return {"program": str(self.game), "prefix": str(self.prefix), "loop": loop}

    def processes(self) -> list[str]:
        """Return the processes in the installation."""
        found = []
        for one in psutil.process_iter():
            try:
                if one.environ().get("WINEPREFIX") == str(self.prefix) and living([one.pid]):
                    found.append(f"{one.pid} {one.name()}")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def _compile(self) -> None:
        resources = self.folder / "resources.o"
        subprocess.run([program(f"{COMPILER}-windres"), SOURCE.with_suffix(".rc"), resources], check=True)
        compiler = [program(f"{COMPILER}-gcc"), "-O1", "-DWIN32_LEAN_AND_MEAN"]
        command = [*compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-mwindows"]
        libraries = ("-lwinmm", "-lxinput1_4", "-lsynchronization")
        subprocess.run([*command, "-o", self.game, SOURCE, resources, *libraries], check=True)
        subprocess.run([*command, "-o", self.painter, PAINTER, "-lgdi32"], check=True)
        subprocess.run([*command, "-shared", "-o", self.xinput, XINPUT], check=True)
        # Not at the address where its command "map" maps memory.
        command = [*compiler, "-Wl,--image-base=0x240000000", "-o", self.target, TARGET_SOURCE, "-ladvapi32"]
        subprocess.run(command, check=True)

    def _set_up(self) -> None:
        """Create the Windows installation; this takes about five seconds and 700 MB."""
        self._run(["wine", "wineboot", "-i"], SET_UP_DEADLINE_S)
        self.end_all()
        assert (self.prefix / "system.reg").exists()  # written when the server ends
        # No window manager runs. Wine would wait 2 s for it whenever a window is hidden or closed.
        with (self.prefix / "user.reg").open("a", encoding="utf-8") as registry:
            registry.write('\n[Software\\\\Wine\\\\X11 Driver]\n"Managed"="N"\n')
        service = "\n[System\\\\CurrentControlSet\\\\Services\\\\{}]\n{}\n"
        with (self.prefix / "system.reg").open("a", encoding="utf-8") as registry:
            # Wine asks SDL for gamepads every millisecond, which takes 3 % of a core, and delays its other drivers.
            registry.write(service.format("winebus", '"Enable SDL"=dword:00000000'))
            # Each `os.stat` asks this service for the number of the volume, and an import makes three of them. Without
            # it they are 0, and a start of Python with its imports makes 40 % fewer requests to the server of Wine.
            registry.write(service.format("MountMgr", '"Start"=dword:00000004'))

    def end_all(self) -> None:
        """End all processes in the installation, and wait for the end of Wine's server.

        The server ends some time after the last program, and a program that starts at that moment fails.
        """
        if self.processes():
            self._run(["wineserver", "-k"], END_DEADLINE_S)
            self._run(["wineserver", "-w"], END_DEADLINE_S)

    def _run(self, command: list[str], deadline_s: float) -> None:
        subprocess.run(
            [program(command[0]), *command[1:]],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=deadline_s,
            check=command[0] == "wine",  # the exit code is 1 if no server runs, because it ends by itself
        )
