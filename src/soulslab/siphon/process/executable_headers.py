"""Headers of executables in memory: 64-bit ELF programs (man 5 elf) and Windows programs (Microsoft, "PE Format").

Of an ELF program only the segments are in memory. The names of its sections are in its file, which is used only if its
headers equal the headers in memory. All headers of a Windows program are in memory, so no file is read; the version
comes from the version resource, as in Windows Explorer.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from struct import Struct
from typing import Literal

import msgspec

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory

Kind = Literal["elf", "pe"]


class Section(msgspec.Struct, frozen=True):
    """A section of a program in memory; of an ELF program whose file cannot be read, ``load0``, ``load1``, ..."""

    name: str
    start: int
    size: int
    is_executable: bool
    is_writable: bool


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A program or library in memory.

    Attributes:
        path: Path of its file; "" if the memory map does not name one.
        size: Bytes from its base to its end.
        version: Version from its version resource, as ``2.6.1.0``; "" without one, as for ELF programs.
        sections: Sections, ascending.
        preferred_base: Address that it was linked for; 0 for any.
        is_library: Whether it is a DLL; ELF headers do not distinguish programs from libraries.
        export_name: Name in the export table of a DLL; "" for none.
    """

    path: str
    kind: Kind
    base: int
    size: int
    version: str
    sections: tuple[Section, ...]
    pid: int = 0
    preferred_base: int = 0
    is_library: bool = False
    export_name: str = ""

    @property
    def code_ranges(self) -> list[tuple[int, int]]:
        """Start and end of each executable section."""
        return [(section.start, section.start + section.size) for section in self.sections if section.is_executable]


ELF_MAGIC = b"\x7fELF"
_PAGE = 4096
#: e_phoff, e_shoff, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx.
_ELF_HEADER = Struct("<32xQQ6xHHHHH")
#: p_type, p_flags, p_offset, p_vaddr, p_memsz.
_ELF_SEGMENT = Struct("<IIQQ16xQ8x")
#: sh_name, sh_type, sh_flags, sh_addr, sh_size.
_ELF_SECTION = Struct("<IIQQ8xQ24x")
_STRING_TABLE = Struct("<24xQQ24x")
_PT_LOAD = 1
_CLASS_64, _LITTLE_ENDIAN = 2, 1
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_TLS = 1, 2, 4, 0x400
_SHT_NOBITS = 8
_PF_X, _PF_W = 1, 2

_log = logging.getLogger(__name__)


def read_elf(memory: Memory, base: int, path: str) -> Image:
    """Read the headers of an ELF image, and its sections from `path`. Raises `ImageError`, `MemoryAccessError`."""
    header = memory.read(base, _ELF_HEADER.size)
    if header[:4] != ELF_MAGIC or header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN:
        raise ImageError(f"at {base:#x} is not a header of a 64-bit ELF program", pid=memory.pid)
    table_at, _, entry_size, n_segments = _ELF_HEADER.unpack(header)[:4]
    if entry_size != _ELF_SEGMENT.size or not n_segments or table_at > _PAGE:
        raise ImageError(f"the ELF header at {base:#x} is malformed", pid=memory.pid)
    table = memory.read(base + table_at, entry_size * n_segments)
    loads = [segment for segment in _ELF_SEGMENT.iter_unpack(table) if segment[0] == _PT_LOAD]
    if not loads:
        raise ImageError(f"the ELF program at {base:#x} loads nothing", pid=memory.pid)
    first = loads[0]
    bias = base - (first[3] - first[2])
    end = max(at + size for *_, at, size in loads)
    sections = _file_sections(Path(f"/proc/{memory.pid}/root{path}"), header, table, bias) if path else ()
    segments = tuple(
        Section(f"load{i}", bias + at, size, bool(flags & _PF_X), bool(flags & _PF_W))
        for i, (_, flags, _, at, size) in enumerate(loads)
    )
    return Image(
        path=path,
        kind="elf",
        base=base,
        size=bias + -(-end // _PAGE) * _PAGE - base,
        version="",
        sections=sections or segments,
        pid=memory.pid,
    )


def _file_sections(path: Path, header: bytes, table: bytes, bias: int) -> tuple[Section, ...]:
    """Return the sections that a file names; none if another file was loaded."""
    segments_at, sections_at, _, _, entry_size, n_sections, names_index = _ELF_HEADER.unpack(header)
    try:
        with path.open("rb") as file:
            handle = file.fileno()
            is_same = os.pread(handle, len(header), 0) == header and os.pread(handle, len(table), segments_at) == table
            if not is_same or entry_size != _ELF_SECTION.size or names_index >= n_sections:
                return ()
            entries = os.pread(handle, entry_size * n_sections, sections_at)
            if len(entries) != entry_size * n_sections:
                return ()
            names_at, names_size = _STRING_TABLE.unpack_from(entries, entry_size * names_index)
            names = os.pread(handle, min(names_size, 2**20), names_at)
    except OSError as error:
        _log.debug("sections of %s are unnamed: %s", path, error)
        return ()
    found = (
        Section(_name(names, at), bias + address, size, bool(flags & _SHF_EXECINSTR), bool(flags & _SHF_WRITE))
        for at, kind, flags, address, size in _ELF_SECTION.iter_unpack(entries)
        # .tbss has an address, but each thread has its own copy elsewhere.
        if flags & _SHF_ALLOC and size and not (flags & _SHF_TLS and kind == _SHT_NOBITS)
    )
    return tuple(sorted(found, key=lambda section: section.start))


def _name(names: bytes, at: int) -> str:
    return names[at : names.find(b"\0", at)].decode(errors="replace")


PE_MAGIC = b"MZ"
_PE_AT = Struct("<60xI")
#: Signature, n_sections, size of the optional header, characteristics.
_FILE_HEADER = Struct("<4s2xH12xHH")
#: Magic, image base, size of the image, number of data directories.
_PE_OPTIONAL = Struct("<H22xQ24xI48xI")
_DIRECTORIES_AT, _DIRECTORY = 112, Struct("<II")
_PE_SECTION = Struct("<8sII20xI")
_RESOURCE_TABLE, _RESOURCE_ENTRY = Struct("<12xHH"), Struct("<II")
_EXPORT_NAME = Struct("<12xI")
_FIXED_INFO = Struct("<8xHHHH")
_PE32_PLUS = 0x20B
_EXPORTS, _RESOURCES = 0, 2
_RT_VERSION = 16
_IS_TABLE = 0x80000000
_IS_DLL, _IS_CODE, _IS_EXECUTABLE, _IS_WRITABLE = 0x2000, 0x20, 0x20000000, 0x80000000
_SIGNATURE = b"\xbd\x04\xef\xfe"
_MAX_SECTIONS, _MAX_ENTRIES, _MAX_VERSION_SIZE, _MAX_NAME = 96, 4096, 4096, 256


def read_pe(memory: Memory, base: int, path: str) -> Image:
    """Read the headers of a Windows program or DLL. Raises as `read_elf`."""
    start = memory.read(base, _PE_AT.size)
    (header_at,) = _PE_AT.unpack(start)
    if start[:2] != PE_MAGIC or not _PE_AT.size <= header_at <= 4096 - _FILE_HEADER.size:
        raise ImageError(f"at {base:#x} is not a header of a Windows program", pid=memory.pid)
    header = memory.read(base + header_at, _FILE_HEADER.size)
    signature, n_sections, optional_size, characteristics = _FILE_HEADER.unpack(header)
    optional_at = base + header_at + _FILE_HEADER.size
    if signature != b"PE\0\0" or n_sections > _MAX_SECTIONS or optional_size < _DIRECTORIES_AT:
        raise ImageError(f"the header of the Windows program at {base:#x} is malformed", pid=memory.pid)
    optional = memory.read(optional_at, optional_size)
    magic, preferred_base, size, n_directories = _PE_OPTIONAL.unpack_from(optional)
    if magic != _PE32_PLUS:
        raise ImageError(f"the Windows program at {base:#x} is not a 64-bit one (magic {magic:#x})", pid=memory.pid)
    n_directories = min(n_directories, (optional_size - _DIRECTORIES_AT) // _DIRECTORY.size)
    directories = [_DIRECTORY.unpack_from(optional, _DIRECTORIES_AT + 8 * i) for i in range(n_directories)]
    directories += [(0, 0)] * (_RESOURCES + 1 - n_directories)
    table = memory.read(optional_at + optional_size, n_sections * _PE_SECTION.size)
    sections = tuple(
        Section(
            name=name.rstrip(b"\0").decode(errors="replace"),
            start=base + address,
            size=section_size,
            is_executable=bool(flags & (_IS_CODE | _IS_EXECUTABLE)),
            is_writable=bool(flags & _IS_WRITABLE),
        )
        for name, section_size, address, flags in _PE_SECTION.iter_unpack(table)
    )
    return Image(
        path=path,
        kind="pe",
        base=base,
        size=size,
        version=_read_version(memory, base, size, directories[_RESOURCES][0]),
        sections=sections,
        pid=memory.pid,
        preferred_base=preferred_base,
        is_library=bool(characteristics & _IS_DLL),
        export_name=_read_export_name(memory, base, size, directories[_EXPORTS][0]),
    )


def _read_version(memory: Memory, base: int, size: int, resources_at: int) -> str:
    """Return the file version as ``2.6.1.0``; "" if there is none, or the resources are packed."""
    if not 0 < resources_at < size:
        return ""
    try:
        table_at = 0
        # The tree has three levels: type, name, language. The first name and language are sufficient.
        for wanted in (_RT_VERSION, None, None):
            entry = _find_entry(memory, base + resources_at + table_at, wanted)
            if entry is None:
                return ""
            table_at = entry & ~_IS_TABLE
        data_at, data_size = _DIRECTORY.unpack(memory.read(base + resources_at + table_at, _DIRECTORY.size))
        if not data_at + data_size <= size:
            return ""
        data = memory.read(base + data_at, min(data_size, _MAX_VERSION_SIZE))
    except MemoryAccessError as error:
        _log.debug("the version at %#x cannot be read: %s", base, error)
        return ""
    at = data.find(_SIGNATURE)
    if at < 0 or len(data) < at + _FIXED_INFO.size:
        return ""
    minor, major, revision, build = _FIXED_INFO.unpack_from(data, at)
    return f"{major}.{minor}.{build}.{revision}"


def _find_entry(memory: Memory, table: int, wanted: int | None) -> int | None:
    """Return the target of the entry with an id, or of the first entry; None if there is none."""
    n_entries = sum(_RESOURCE_TABLE.unpack(memory.read(table, _RESOURCE_TABLE.size)))
    if n_entries > _MAX_ENTRIES:
        return None
    entries = memory.read(table + _RESOURCE_TABLE.size, n_entries * _RESOURCE_ENTRY.size)
    for name, target in _RESOURCE_ENTRY.iter_unpack(entries):
        if wanted in (None, name):
            return int(target)
    return None


def _read_export_name(memory: Memory, base: int, size: int, exports_at: int) -> str:
    """Return the name in the export table of a DLL; "" if it has none."""
    if not 0 < exports_at < size:
        return ""
    try:
        (name_at,) = _EXPORT_NAME.unpack(memory.read(base + exports_at, _EXPORT_NAME.size))
        name = memory.read(base + name_at, min(_MAX_NAME, size - name_at)) if 0 < name_at < size else b""
    except MemoryAccessError as error:
        _log.debug("the name at %#x cannot be read: %s", base, error)
        return ""
    return name.partition(b"\0")[0].decode(errors="replace")
