"""Installing the clock library beside a Windows game, so that any start of the game loads it, such as one by Steam.

A small library (``windows/beside.c``) gets the name of the XInput library that the game imports. A library of that name
that was in the folder before is kept as ``NAME.soulslab-original`` and still used; `uninstall` restores it.

The record of the installation is written before the first change and removed after the last one. All files are replaced
atomically. So `uninstall` restores the folder after an interruption at any point.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from soulslab.errors import ImageError, InstallError
from soulslab.siphon.clock.lockstep_page import windows_library
from soulslab.siphon.process.discovery import is_anti_cheat, running
from soulslab.siphon.process.program_imports import read_imports
from soulslab.siphon.profile import Process

#: XInput libraries of games; the first one that a game imports is replaced.
XINPUT_LIBRARIES = ("xinput1_4.dll", "xinput1_3.dll", "xinput9_1_0.dll")
#: Functions of the library that is installed (``windows/beside.def``).
FUNCTIONS: frozenset[str | int] = frozenset({
    "XInputGetState", "XInputSetState", "XInputGetCapabilities", "XInputEnable", "XInputGetDSoundAudioDeviceGuids",
    "XInputGetBatteryInformation", "XInputGetKeystroke", "XInputGetAudioDeviceIds",
})  # fmt: skip
NUMBERS: frozenset[str | int] = frozenset({2, 3, 4, 5, 6, 7, 8, 10, 100, 101, 102, 103, 104, 108})
#: The only library whose functions have other numbers.
_OTHER_NUMBERS = "xinput9_1_0.dll"
PROXY, CLOCK = "soulslab_xinput.dll", "soulslab_clock.dll"
ORIGINAL_SUFFIX, RECORD = ".soulslab-original", "soulslab_install.json"
_TEMPORARY = ".soulslab-tmp"
_OTHER_WAY = "Let soulslab start the game instead (launch in Python, --start on the command line)"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Record of the changes of an installation to the folder of a game; SHA-256 hashes are in hexadecimal.

    Attributes:
        library: Name of the replaced XInput library.
        proxy_sha256: Hash of the library that has its name now.
        original_sha256: Hash of the library that was there before; "" for none.
    """

    library: str
    proxy_sha256: str
    original_sha256: str


def install(program: Path, process: Process) -> Record:
    """Install the clock library beside a program; an earlier installation is replaced.

    Args:
        program: Path of the game's program.
        process: Facts of its profile, which name its anti-cheat.

    Raises:
        InstallError: The game runs or has an anti-cheat; it is not a 64-bit program that imports XInput; the folder
            cannot be written, or has files of unknown origin. Nothing has been changed.
        ClockUnavailableError: Files of the clock library are missing.
    """
    folder = program.parent
    name = _find_library(program)
    _refuse_anti_cheat(folder, process)
    _refuse_running(program)
    proxy, clock = (windows_library(one).read_bytes() for one in (PROXY, CLOCK))
    if (folder / RECORD).exists():
        uninstall(program)
    with _changing(folder):
        library = next((one for one in folder.iterdir() if one.name.casefold() == name), folder / name)
        original = _original_of(library)
        _refuse_unknown(library, original, _hash(proxy))
        before = library.read_bytes() if library.exists() else b""
        record = Record(library.name, _hash(proxy), _hash(before) if before else "")
        try:
            _write(folder / RECORD, msgspec.json.format(msgspec.json.encode(record)))
            if before:
                _write(original, before)
            _write(folder / CLOCK, clock)
            _write(library, proxy)
        except BaseException:
            _restore(folder, record)
            raise
    return record


def uninstall(program: Path) -> Record:
    """Remove the clock library beside a program, and restore the library that was there before.

    If another program, such as an update of the game, has replaced the library since then, the folder keeps its library
    and the kept original.

    Raises `InstallError` if nothing is installed, the game runs, or the folder cannot be written.
    """
    folder = program.parent
    record = _read_record(folder)
    _refuse_running(program)
    with _changing(folder):
        _restore(folder, record)
    return record


def _restore(folder: Path, record: Record) -> None:
    """Undo an installation, also one that was interrupted at any point; the record is removed last."""
    library = folder / record.library
    original = _original_of(library)
    if _hash_of(library) in ("", record.proxy_sha256):
        if not record.original_sha256:
            library.unlink(missing_ok=True)
        elif _hash_of(original) == record.original_sha256:
            original.replace(library)
        else:
            raise InstallError(
                original,
                f"is missing or was changed, so {record.library} cannot be restored from it. Restore it from a copy, "
                "or with Steam (verify the files of the game), and then uninstall again",
            )
    elif _hash_of(library) == record.original_sha256:
        original.unlink(missing_ok=True)
    for path in (folder / CLOCK, *folder.glob(f"*{_TEMPORARY}"), folder / RECORD):
        path.unlink(missing_ok=True)


def _find_library(program: Path) -> str:
    """Return the name of the XInput library that a program imports."""
    try:
        imports = read_imports(program)
    except FileNotFoundError as error:
        raise InstallError(program, "does not exist; name the folder of the game's program") from error
    except ImageError as error:
        raise InstallError(program, f"the clock library cannot be loaded by it: {error}") from error
    except OSError as error:
        raise InstallError(program, f"cannot be read: {error.strerror}") from error
    name = next((one for one in XINPUT_LIBRARIES if one in imports), None)
    if name is None:
        raise InstallError(
            program, f"imports none of {', '.join(XINPUT_LIBRARIES)}, whose name the library would get. {_OTHER_WAY}"
        )
    unknown = imports[name] - FUNCTIONS - (frozenset() if name == _OTHER_NUMBERS else NUMBERS)
    if unknown:
        listed = ", ".join(sorted(map(str, unknown)))
        raise InstallError(program, f"imports functions of {name} that soulslab does not know: {listed}. {_OTHER_WAY}")
    return name


def _refuse_anti_cheat(folder: Path, process: Process) -> None:
    found = sorted(one.name for one in folder.iterdir() if is_anti_cheat(one.name, process))
    if found:
        raise InstallError(
            folder,
            f"contains an anti-cheat ({', '.join(found)}), which would find the library when it starts with the game. "
            f"{_OTHER_WAY}, without the anti-cheat",
        )


def _refuse_running(program: Path) -> None:
    found = next((one for one in running() if one.rank(program.name)), None)
    if found is not None:
        raise InstallError(program, f"runs (process {found.pid}); end the game first")


def _refuse_unknown(library: Path, original: Path, proxy_sha256: str) -> None:
    """Refuse files of an installation that has no record."""
    for path in (original, library.parent / CLOCK):
        if path.exists():
            raise InstallError(
                path, "exists, but there is no record of an installation; move it to another folder, and install again"
            )
    if _hash_of(library) == proxy_sha256:
        raise InstallError(
            library,
            "is the library of soulslab, but there is no record of its installation, so the file that was there before "
            "is unknown; remove it, restore the file with Steam (verify the files of the game), and install again",
        )


def _read_record(folder: Path) -> Record:
    path = folder / RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError as error:
        raise InstallError(folder, "soulslab is not installed there") from error
    except OSError as error:
        raise InstallError(path, f"cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InstallError(path, f"is not a record of an installation: {error}") from error
    if record.library.casefold() not in XINPUT_LIBRARIES:  # the name of a file that will be removed
        raise InstallError(path, f"names {record.library!r}, which is not a library of XInput")
    return record


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InstallError(
            folder,
            f"cannot be changed: {error.strerror} ({Path(error.filename or folder).name}). End the programs that use "
            "the files, and allow your user to write to the folder",
        ) from error


def _original_of(library: Path) -> Path:
    return library.with_name(library.name + ORIGINAL_SUFFIX)


def _write(path: Path, data: bytes) -> None:
    """Write a file so that it has either the old or the new contents, or does not exist, after a crash."""
    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_of(path: Path) -> str:
    """Return the hash of a file; "" if it does not exist."""
    try:
        return _hash(path.read_bytes())
    except FileNotFoundError:
        return ""
