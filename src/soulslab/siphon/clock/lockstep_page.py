"""The memory page that a game with the clock library and its controller share (see ``native/clock_page.h``)."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self, TypeAlias

from soulslab.errors import (
    AttachDeniedError,
    ClockError,
    ClockUnavailableError,
    ConfigError,
    ProcessExitedError,
)
from soulslab.siphon.clock.native_library import error_text, library_path, native_library

OnOrphan: TypeAlias = Literal["end", "run", "paused"]

VARIABLE = "SOULSLAB_CLOCK"
PAGE_LINK = "/memfd:soulslab-clock"
#: Numbers of `enum clock_orphan`.
_ORPHAN = {"end": 0, "run": 1, "paused": 2}


class LockstepPage:
    """Memory shared with the clock library in the game; freed with the last process that maps it.

    Args:
        fd: Descriptor of the page; the new object owns it.
        on_orphan: See `create`.

    Attributes:
        address: Address of the mapping; 0 after `close`.

    Raises:
        ClockError: Another process controls it.
        ClockUnavailableError: Another version of soulslab created it, or the library was not built.
    """

    def __init__(self, fd: int, on_orphan: OnOrphan | str) -> None:
        self.address = 0
        self._fd = fd
        self._preload_fd = -1
        try:
            self._native = native_library()
            self.address = self._map()
            self._own(on_orphan)
        except BaseException:
            self._release()
            raise

    @classmethod
    def create(cls, on_orphan: OnOrphan | str = "end", *, is_held: bool = False) -> Self:
        """Create a page for a game that is about to be started.

        Args:
            on_orphan: What the game does when this process dies: ``end``, ``run`` on at 1x, or stay ``paused``.
            is_held: Whether no game time passes from the start of the program; otherwise it runs at 1x.

        Raises:
            ClockUnavailableError: The library was not built.
        """
        fd = native_library().create(is_held)
        if fd < 0:
            raise ClockUnavailableError(f"cannot make the page of the clock: {error_text(fd)}")
        return cls(fd, on_orphan)

    def fix_start(self, epoch_ns: int, boot_ns: int, seed: int) -> None:
        """Set the initial times and random sources of the game; call it before the start.

        Args:
            epoch_ns: CLOCK_REALTIME at game time 0.
            boot_ns: CLOCK_MONOTONIC and the other clocks at game time 0.
            seed: Seed of its random sources, 0 to 2**64 - 1 (``native/random.c``).
        """
        self._native.fix_start(self.address, epoch_ns, boot_ns, seed)

    def environment(self) -> dict[str, str]:
        """Return the environment variables for the start of the game, while this page is open."""
        path = str(library_path("_preload"))
        if any(character in path for character in " :;"):
            # The loader would split such a path; it follows links.
            if self._preload_fd < 0:
                self._preload_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            path = _own_file(self._preload_fd)
        key = self._native.key(self.address)
        return {"LD_PRELOAD": path, VARIABLE: f"{_own_file(self._fd)}#{key:016x}"}

    def was_loaded_by(self, pid: int) -> bool:
        """Return whether a process has this page; False also for one that has ended."""
        try:
            return PAGE_LINK in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        except PermissionError as error:
            raise _denied(pid) from error

    def close(self) -> None:
        """Release the control and the page; a second call does nothing. The game continues with its time as set."""
        if self.address:
            self._native.disown(self.address, self._fd)
        self._release()

    def _own(self, on_orphan: str) -> None:
        if on_orphan not in _ORPHAN:
            raise ConfigError(f"is {on_orphan!r}, not one of {', '.join(_ORPHAN)}", path="on_orphan")
        if self._native.own(self.address, self._fd, _ORPHAN[on_orphan]) != 0:
            owner = self._native.owner(self.address)
            raise ClockError(f"process {owner} controls the time of this game; close its session first")

    def _map(self) -> int:
        address = ctypes.c_void_p()
        status = self._native.map(self._fd, ctypes.byref(address))
        if status != 0 or address.value is None:
            raise ClockUnavailableError(
                f"the clock of this game cannot be used ({error_text(status)}); if another version of soulslab started "
                "it, start it again with this one"
            )
        return address.value

    def _release(self) -> None:
        if self.address:
            self._native.unmap(self.address)
            self.address = 0
        for fd in (self._fd, self._preload_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._preload_fd = -1


def open_page_of(pid: int) -> int:
    """Open the page of a running game again, because a lock belongs to the open file. Returns a file descriptor.

    Raises:
        ClockUnavailableError: The game was not started with the library.
        AttachDeniedError: The operating system denies access.
        ProcessExitedError: The game has ended.
    """
    fds = Path(f"/proc/{pid}/fd")
    try:
        for fd in fds.iterdir():
            with suppress(FileNotFoundError):
                if str(fd.readlink()).startswith(PAGE_LINK):
                    return os.open(fd, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessExitedError(f"process {pid} has ended", pid=pid) from error
    except PermissionError as error:
        raise _denied(pid) from error
    raise ClockUnavailableError(
        f"process {pid} was not started with the clock library, which cannot be loaded later; let soulslab start the "
        "game (--start on the command line, launch='always' in Python), or use the grade scaled or realtime"
    )


def _own_file(fd: int) -> str:
    """Return the path of a descriptor of this process for other processes; its length does not depend on the ids."""
    return f"/proc/{str(os.getpid()).rjust(7, '/')}/fd/{str(fd).rjust(5, '/')}"


def _denied(pid: int) -> AttachDeniedError:
    return AttachDeniedError(
        f"not allowed to look into process {pid}, as it belongs to another user; run soulslab as that user", pid=pid
    )
