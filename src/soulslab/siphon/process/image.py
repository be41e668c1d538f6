"""The executable image of a process: its base address, sections and version.

Everything is read from the headers in memory. File names only help to find the headers: Wine maps the sections of a
Windows program as anonymous memory, and a file may have changed since it was loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory, Region
from soulslab.siphon.process.executable_headers import ELF_MAGIC, PE_MAGIC, Image, Section, read_elf, read_pe

__all__ = ["Image", "Section", "module_base", "read_image"]


def read_image(memory: Memory, executable: str, regions: Iterable[Region] | None = None) -> Image:
    """Return the executable of a process by its file name. Raises `ImageError`: missing, malformed, ambiguous.

    `regions` are those of the memory if the caller has just listed them, which takes long in large processes.
    """
    wanted = file_name(executable)
    regions = [region for region in (memory.regions() if regions is None else regions) if region.is_readable]
    found = list(_loaded(memory, regions, lambda region: same_name(file_name(region.path), wanted)))
    if not found and wanted.casefold().endswith(".exe"):
        # The file is unknown, but a Windows process has one program; its other modules are DLLs.
        unnamed = _loaded(memory, regions, lambda region: not region.path)
        found = [image for image in unnamed if image.kind == "pe" and not image.is_library]
    return _only(found, wanted, regions, memory.pid)


def module_base(memory: Memory, name: str) -> int:
    """Return the base of a library; ``libX.so.0`` also finds ``libX.so.0.2800.5``. Raises as `read_image`."""
    wanted = file_name(name)
    regions = [region for region in memory.regions() if region.is_readable]
    found = list(_loaded(memory, regions, lambda region: same_name(file_name(region.path), wanted)))
    if not found:
        found = list(_loaded(memory, regions, lambda region: file_name(region.path).startswith(f"{wanted}.")))
    if not found:
        unnamed = _loaded(memory, regions, lambda region: not region.path)
        found = [image for image in unnamed if same_name(image.export_name, wanted)]
    return _only(found, wanted, regions, memory.pid).base


def _loaded(memory: Memory, regions: list[Region], fits: Callable[[Region], bool]) -> Iterator[Image]:
    """Yield the programs and libraries whose header is at the start of a matching region."""
    for region in regions:
        if not fits(region):
            continue
        try:
            start = memory.read(region.start, 4)
            if start == ELF_MAGIC:
                yield read_elf(memory, region.start, region.path)
            elif start[:2] == PE_MAGIC:
                yield read_pe(memory, region.start, region.path)
        except MemoryAccessError:
            continue  # device memory, or unmapped since: no header
        except ImageError:
            # Data that resembles a header is skipped; a malformed header of the named file is an error.
            if region.path:
                raise


def _only(found: list[Image], wanted: str, regions: list[Region], pid: int) -> Image:
    """Return the single match; of several, the one at the address that it was linked for."""
    if not found:
        raise ImageError(f"{wanted!r} is not loaded in process {pid}{_close_names(wanted, regions)}", pid=pid)
    if len(found) == 1:
        return found[0]
    # A program that maps its own file as data has it in memory twice, at different addresses.
    at_home = [one for one in found if one.base == one.preferred_base]
    if len(at_home) == 1:
        return at_home[0]
    listed = ", ".join(f"{file_name(one.path) or one.export_name or 'unnamed'} at {one.base:#x}" for one in found)
    raise ImageError(f"several modules of process {pid} may be {wanted!r}: {listed}", pid=pid)


def _close_names(wanted: str, regions: list[Region]) -> str:
    names = {file_name(region.path) for region in regions if region.path}
    close = get_close_matches(wanted, sorted(names), n=3)
    return f"; loaded are {', '.join(map(repr, close))}" if close else "; is it still starting?"


def file_name(path: str) -> str:
    """Return the last part of a Linux or Windows path."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]


def same_name(name: str, wanted: str) -> bool:
    """Return whether two file names are equal; Windows names are compared without regard to case."""
    if wanted.casefold().endswith((".exe", ".dll")):
        return name.casefold() == wanted.casefold()
    return name == wanted
