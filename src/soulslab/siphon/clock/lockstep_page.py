"""The clock library: its functions for the controller, and the page shared with the game.

The library consists of two files, one for the game and one for the controller. Their sources are in ``native/`` for
Linux and in ``windows/`` for Windows; both have the same page and the same functions for the controller.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from contextlib import suppress
from pathlib import Path
from struct import Struct
from types import SimpleNamespace
from typing import Literal, Self, TypeAlias

from soulslab.errors import ClockError, ClockUnavailableError, ConfigError
from soulslab.siphon.memory.linux import denied, examining
from soulslab.siphon.process.executable_headers import ELF_MAGIC
from soulslab.siphon.win32 import explain

#: Units of speed in the page: integers give the same result in the game and here.
UNIT_SPEED = 2**32
FOREVER_NS = 2**63 - 1
#: Results of `soulslab_clock_wait`: the game runs; all of its threads wait for time; it is proven that none can run;
#: there are more than `MAX_THREADS`; none can run, and `soulslab_clock_take_loop` returns a loop to report.
RUNS, PARKED, STILL, CROWDED, LOOPED = 0, 1, 2, 3, 4
#: `CLOCK_N_SLOTS`: number of threads of a game and of its other processes that can be held.
MAX_THREADS = 4096
#: Numbers of `enum clock_boundary`.
BOUNDARIES = {"auto": 0, "frame": 1, "idle": 2, "sleep": 3}

IS_WINDOWS = sys.platform == "win32"
_WINDOWS_LIBRARIES = {"_preload": "soulslab_clock.dll", "_control": "soulslab_control.dll"}

_PAGE, _INT, _NS = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_SIGNATURES = {
    "create": (_INT, (_INT,)),
    "fix_start": (None, (_PAGE, _NS, _NS, ctypes.c_uint64)),
    "map": (_INT, (_INT, ctypes.POINTER(ctypes.c_void_p))),
    "unmap": (None, (_PAGE,)),
    "own": (_INT, (_PAGE, _INT, _INT)),
    "disown": (None, (_PAGE, _INT)),
    "owner": (_INT, (_PAGE,)),
    "connect_pad": (_INT, (_PAGE,)),
    "set_pad": (None, (_PAGE, ctypes.c_char_p)),
    "key": (ctypes.c_uint64, (_PAGE,)),
    "set_boundary": (None, (_PAGE, ctypes.c_uint32, ctypes.c_uint32)),
    "publish": (None, (_PAGE, _NS, _NS, _NS)),
    "now": (_NS, (_PAGE, ctypes.POINTER(_NS), ctypes.POINTER(_NS))),
    "time_reads": (ctypes.c_uint64, (_PAGE,)),
    "counter_at": (ctypes.c_uint64, (_PAGE,)),
    "take_loop": (ctypes.c_uint64, (_PAGE,)),
    "wait": (_INT, (_PAGE, _INT, _NS)),
    "step": (_INT, (_PAGE, _INT, _NS, _NS)),
    "parked": (_INT, (_PAGE, _INT, ctypes.POINTER(_INT), _INT)),
    "set_servers": (None, (_PAGE, ctypes.POINTER(_INT), _INT)),
    "is_still": (_INT, (_PAGE, _INT)),
}
#: Functions on Windows only. A page is a named file mapping there, and a descriptor is its handle.
_WINDOWS_SIGNATURES = {
    "open": (_INT, (ctypes.c_uint32,)),
    "close": (None, (_INT,)),
    "has_process": (_INT, (_PAGE, _INT)),
}


_MISSING_ADVICE = (
    "An antivirus program may have removed it, as Windows Defender does with unsigned libraries that are loaded into "
    "other programs: see docs/clock.md for its hash and for an exclusion, or use the grade scaled or realtime"
)


def library_path(name: str) -> Path:
    """Return the path of ``_preload``, which the game loads, or ``_control``.

    Raises `ClockUnavailableError` if the library is missing.
    """
    if IS_WINDOWS:
        return windows_library(_WINDOWS_LIBRARIES[name])
    if not sys.platform.startswith("linux"):
        raise ClockUnavailableError(
            f"the lockstep clock needs Linux or Windows; this is {sys.platform}. Use another clock grade"
        )
    found = sorted(Path(__file__).parent.glob(f"{name}*.so"))
    if not found:
        raise ClockUnavailableError(
            "the clock library was not built when soulslab was installed, because no C compiler was found; install gcc "
            "and libc6-dev (on Debian: sudo apt-get install gcc libc6-dev), then install soulslab again from its "
            "clone, wheel or git address: pip install --force-reinstall --no-deps PLACE"
        )
    return found[0]


def windows_library(name: str) -> Path:
    """Return the path of a library for Windows in this package; raises `ClockUnavailableError` if it is missing."""
    path = Path(__file__).parent / "windows" / name
    if not path.exists():
        raise ClockUnavailableError(f"the clock library is missing: {path}. {_MISSING_ADVICE}")
    return path


@functools.cache
def native_library() -> SimpleNamespace:
    """Return the controller's functions, without ``soulslab_clock_``. Raises `ClockUnavailableError`."""
    path = library_path("_control")
    functions = SimpleNamespace()
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in (_SIGNATURES | (_WINDOWS_SIGNATURES if IS_WINDOWS else {})).items():
            function = getattr(library, f"soulslab_clock_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(functions, name, function)
    except (OSError, AttributeError) as error:
        raise ClockUnavailableError(
            f"the clock library cannot be loaded ({error}); install soulslab again from its clone, wheel or git "
            "address: pip install --force-reinstall --no-deps PLACE"
        ) from error
    return functions


_CLASS_32 = 1
#: e_phoff, e_phentsize, e_phnum.
_ELF_HEADER = Struct("<32xQ14xHH6x")
_PT_INTERP = 3
_PRELOAD_ADVICE = "Use the grade realtime, or scaled if the profile has an attribute for the speed"


def check_can_preload(pid: int) -> None:
    """Refuse a process whose executable cannot load the clock library: a 32-bit, statically linked, or setuid program.

    Only a program that the dynamic loader starts can load it (man 5 elf, man 8 ld.so). The loader ignores
    ``LD_PRELOAD`` for programs with the privileges of another user or group. A process that has ended is not refused.
    """
    if IS_WINDOWS:
        return  # checked before the library is loaded (windows_start)
    path = Path(f"/proc/{pid}/exe")
    name = reason = ""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        if _has_privileges(pid):
            reason = "a program with additional privileges (setuid or setgid)"
        name = str(path.readlink())
        with path.open("rb") as file:
            reason = reason or _find_reason(file.fileno())
        if str(path.readlink()) != name:  # the process has executed another program in the meantime
            return
    if reason:
        raise ClockUnavailableError(
            f"process {pid} cannot load the clock library: {name or 'it'} is {reason}. {_PRELOAD_ADVICE}"
        )


def _has_privileges(pid: int) -> bool:
    """Return whether the effective user or group differs from the real one (proc(5), ``status``)."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    ids = [line.split()[1:3] for line in text.splitlines() if line.startswith(("Uid:", "Gid:"))]
    return any(real != effective for real, effective in ids)


def _find_reason(file: int) -> str:
    """Return the property of the executable that prevents loading the library; "" for none."""
    header = os.pread(file, _ELF_HEADER.size, 0)
    if header[:4] != ELF_MAGIC or len(header) < _ELF_HEADER.size:
        return ""
    if header[4] == _CLASS_32:
        return "a 32-bit program"
    table_at, entry_size, n_segments = _ELF_HEADER.unpack(header)
    table = os.pread(file, entry_size * n_segments, table_at)
    kinds = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), entry_size or 1)]
    return "statically linked" if _PT_INTERP not in kinds else ""


OnOrphan: TypeAlias = Literal["end", "run", "paused"]

VARIABLE = "SOULSLAB_CLOCK"
PAGE_LINK = "/memfd:soulslab-clock"
#: Device of the gamepad in a game on Linux (``native/pad.c``).
PAD_DEVICE = "/dev/input/event0"
#: Numbers of `enum clock_orphan`.
_ORPHAN = {"end": 0, "run": 1, "paused": 2}


class LockstepPage:
    """Memory shared with the clock library in the game; freed with the last process that maps it.

    It owns the descriptor `fd`. `address` is that of the mapping; 0 after `close`. `has_pad` states that the session
    uses the page for a gamepad, so that a clock leaves it open. Raises `ClockError` if another process controls it, and
    `ClockUnavailableError` if the library is missing or of another version of soulslab.
    """

    def __init__(self, fd: int, on_orphan: OnOrphan | str) -> None:
        self.address = 0
        self.has_pad = False
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

        Raises `ClockUnavailableError` if the library was not built.
        """
        fd = native_library().create(is_held)
        if fd < 0:
            raise ClockUnavailableError(f"cannot make the page of the clock: {_explain(-fd)}")
        return cls(fd, on_orphan)

    def fix_start(self, epoch_ns: int, boot_ns: int, seed: int) -> None:
        """Set the initial times and random sources of the game; call it before the start.

        Args:
            epoch_ns: CLOCK_REALTIME at game time 0.
            boot_ns: CLOCK_MONOTONIC and the other clocks at game time 0.
            seed: Seed of its random sources, 0 to 2**64 - 1 (``native/random.c``).
        """
        self._native.fix_start(self.address, epoch_ns, boot_ns, seed)

    def connect_pad(self) -> bool:
        """Connect a gamepad to the game, at rest; return whether it was connected before.

        On Linux a game finds it only if this is called before its start.
        """
        self.has_pad = True
        return bool(self._native.connect_pad(self.address))

    def set_pad(self, state: bytes, must_be_seen: bool) -> None:
        """Set the state of the gamepad (`soulslab.siphon.pad.Pad.to_bytes`); a closed page has it at rest.

        With `must_be_seen` the game sees the state for one read at least, also if a later state replaces it at once.
        """
        if self.address:
            self._native.set_pad(self.address, state + must_be_seen.to_bytes(4, "little"))

    def environment(self) -> dict[str, str]:
        """Return the environment variables for the start of the game, while this page is open.

        On Windows the library has to be loaded as well (`soulslab.siphon.clock.windows_start`).
        """
        if IS_WINDOWS:
            return {VARIABLE: f"Local\\soulslab-clock-{self._native.key(self.address):016x}"}
        path = str(library_path("_preload"))
        if any(character in path for character in " :;"):
            # The loader would split such a path; it follows links.
            if self._preload_fd < 0:
                self._preload_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            path = _own_file(self._preload_fd)
        key = self._native.key(self.address)
        # SDL asks udev for devices, which does not know this one, and ignores pads while a game has no focus.
        pad = {"SDL_JOYSTICK_DEVICE": PAD_DEVICE, "SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS": "1"} if self.has_pad else {}
        return {"LD_PRELOAD": path, VARIABLE: f"{_own_file(self._fd)}#{key:016x}", **pad}

    def was_loaded_by(self, pid: int) -> bool:
        """Return whether a process has this page; False also for one that has ended."""
        if IS_WINDOWS:
            return bool(self._native.has_process(self.address, pid))
        try:
            return PAGE_LINK in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        except PermissionError as error:
            raise denied(pid) from error

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
                f"the clock of this game cannot be used ({_explain(-status)}); if another version of soulslab "
                "started it, start it again with this one; if it was installed beside the game, install it again"
            )
        return address.value

    def _release(self) -> None:
        if self.address:
            self._native.unmap(self.address)
            self.address = 0
        for fd in (self._fd, self._preload_fd):
            if fd >= 0:
                _close(fd)
        self._fd = self._preload_fd = -1


def open_page_of(pid: int) -> int:
    """Open the page of a running game again, because a lock belongs to the open file; return a descriptor.

    Raises `ClockUnavailableError` if the game was started without the library; `AttachDeniedError`,
    `ProcessExitedError`.
    """
    if IS_WINDOWS:
        handle = int(native_library().open(pid))
        if handle > 0:
            return handle
        raise ClockUnavailableError(
            f"process {pid} was not started with the clock library ({_explain(-handle)}), and it cannot be loaded "
            "into a running game: the game has already looked up the functions that it replaces. Let soulslab start "
            "the game (--start on the command line, launch='always' in Python), install the library beside the game "
            "(soulslab siphon install) and start the game again, or use the grade scaled or realtime"
        )
    fds = Path(f"/proc/{pid}/fd")
    with examining(pid):
        for fd in fds.iterdir():
            with suppress(FileNotFoundError):
                if str(fd.readlink()).startswith(PAGE_LINK):
                    return os.open(fd, os.O_RDWR | os.O_CLOEXEC)
    raise ClockUnavailableError(
        f"process {pid} was not started with the clock library, which cannot be loaded later; let soulslab start the "
        "game (--start on the command line, launch='always' in Python), or use the grade scaled or realtime"
    )


def _explain(code: int) -> str:
    """Return the text of the system for an error code of the library."""
    return explain(code) if IS_WINDOWS else os.strerror(code)


def _close(fd: int) -> None:
    if IS_WINDOWS:
        native_library().close(fd)
    else:
        os.close(fd)


def _own_file(fd: int) -> str:
    """Return the path of a descriptor of this process for other processes; its length does not depend on the ids."""
    return f"/proc/{str(os.getpid()).rjust(7, '/')}/fd/{str(fd).rjust(5, '/')}"
