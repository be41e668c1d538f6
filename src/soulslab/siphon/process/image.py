"""The program in the memory of its process: where it is loaded, its sections, its version.

All is read from the headers in memory. Names of files only help to find the headers: Wine maps the sections of a
Windows program as anonymous memory, and what a file holds now need not be what was loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

import msgspec

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory, Region
from soulslab.siphon.process import elf, portable_executable
from soulslab.siphon.process.executable_headers import Headers, Kind, Section

__all__ = ["Image", "Section", "module_base", "read_image"]


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A program in memory.

    Attributes:
        path: Its file; "" if its memory does not name one.
        kind: Format of its headers.
        base: Where it is loaded.
        size: Bytes from there to its end.
        version: Of its version resource, as ``2.6.1.0``; "" if it carries none, as ELF programs do.
        sections: Ascending.
        pid: Its process.
    """

    path: str
    kind: Kind
    base: int
    size: int
    version: str
    sections: tuple[Section, ...]
    pid: int = 0


class _Loaded(msgspec.Struct, frozen=True):
    """A program or library in memory: where, from which file, and what its headers say."""

    base: int
    path: str
    headers: Headers

    def describe(self) -> str:
        """Return a part of a message."""
        return f"{file_name(self.path) or self.headers.export_name or 'unnamed'} at {self.base:#x}"


def read_image(memory: Memory, executable: str) -> Image:
    """Find the program of a process and read its headers.

    Args:
        memory: Of the process.
        executable: Name of its file, with or without a path of Linux or Windows.

    Raises:
        ImageError: It is not loaded (yet), its headers are malformed, or several may be it.
        ProcessExitedError: The process has ended.
    """
    wanted = file_name(executable)
    regions = [region for region in memory.regions() if region.is_readable]
    found = list(_loaded(memory, regions, lambda region: same_name(file_name(region.path), wanted)))
    if not found and wanted.casefold().endswith(".exe"):
        # Nothing says which file it is, but a process has one Windows program, and the rest of it are DLLs.
        unnamed = _loaded(memory, regions, _has_no_file)
        found = [one for one in unnamed if one.headers.kind == "pe" and not one.headers.is_library]
    one = _only(found, wanted, regions, memory.pid)
    headers = one.headers
    return Image(
        path=one.path,
        kind=headers.kind,
        base=one.base,
        size=headers.size,
        version=headers.version,
        sections=headers.sections,
        pid=memory.pid,
    )


def module_base(memory: Memory, name: str) -> int:
    """Return where a library is loaded.

    Args:
        memory: Of the process.
        name: File name of the library; ``libSDL2-2.0.so.0`` also finds ``libSDL2-2.0.so.0.2800.5``.

    Raises:
        ImageError: It is not loaded (yet), or several may be it.
        ProcessExitedError: The process has ended.
    """
    wanted = file_name(name)
    regions = [region for region in memory.regions() if region.is_readable]
    found = list(_loaded(memory, regions, lambda region: same_name(file_name(region.path), wanted)))
    if not found:
        found = list(_loaded(memory, regions, lambda region: file_name(region.path).startswith(f"{wanted}.")))
    if not found:
        unnamed = _loaded(memory, regions, _has_no_file)
        found = [one for one in unnamed if same_name(one.headers.export_name, wanted)]
    return _only(found, wanted, regions, memory.pid).base


def _has_no_file(region: Region) -> bool:
    return not region.path


def _loaded(memory: Memory, regions: list[Region], fits: Callable[[Region], bool]) -> Iterator[_Loaded]:
    """Yield the programs and libraries whose header begins one of the regions that fit."""
    for region in regions:
        if not fits(region):
            continue
        try:
            start = memory.read(region.start, 4)
            if start == elf.MAGIC:
                headers = elf.read_elf(memory, region.start, region.path)
            elif start[:2] == portable_executable.MAGIC:
                headers = portable_executable.read_pe(memory, region.start)
            else:
                continue
        except MemoryAccessError:
            continue  # memory of a device, or unmapped just now: no header
        except ImageError:
            # Data that begins like a header; where the file's name says that it is one, the mistake is worth telling.
            if region.path:
                raise
            continue
        yield _Loaded(region.start, region.path, headers)


def _only(found: list[_Loaded], wanted: str, regions: list[Region], pid: int) -> _Loaded:
    """Return the one that was found; of several, the one that lies where it was built to be."""
    if not found:
        raise ImageError(f"{wanted!r} is not loaded in process {pid}{_close_names(wanted, regions)}", pid=pid)
    if len(found) == 1:
        return found[0]
    # A program that reads its own file as data has it in memory once more, but elsewhere.
    at_home = [one for one in found if one.base == one.headers.preferred_base]
    if len(at_home) == 1:
        return at_home[0]
    listed = ", ".join(one.describe() for one in found)
    raise ImageError(f"several modules of process {pid} may be {wanted!r}: {listed}", pid=pid)


def _close_names(wanted: str, regions: list[Region]) -> str:
    names = {file_name(region.path) for region in regions if region.path}
    close = get_close_matches(wanted, sorted(names), n=3)
    return f"; loaded are {', '.join(map(repr, close))}" if close else "; is it still starting?"


def file_name(path: str) -> str:
    """Return the last part of a path of Linux or Windows."""
    return re.split(r"[/\\]", path)[-1]


def same_name(name: str, wanted: str) -> bool:
    """Tell whether two file names are the same; those of Windows are, whatever their case."""
    if wanted.casefold().endswith((".exe", ".dll")):
        return name.casefold() == wanted.casefold()
    return name == wanted
