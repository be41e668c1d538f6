"""The headers of an ELF program in memory (64-bit, little-endian; the format: man 5 elf).

Only the segments of the program are in memory. The names of its sections are in its file, which is used only if its
headers equal the headers in memory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from soulslab.errors import ImageError
from soulslab.siphon.memory import Memory
from soulslab.siphon.process.executable_headers import Headers, Section

MAGIC = b"\x7fELF"
_PAGE = 4096
#: e_phoff, e_shoff, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx.
_HEADER = Struct("<32xQQ6xHHHHH")
#: p_type, p_flags, p_offset, p_vaddr, p_memsz.
_SEGMENT = Struct("<IIQQ16xQ8x")
#: sh_name, sh_type, sh_flags, sh_addr, sh_size.
_SECTION = Struct("<IIQQ8xQ24x")
_STRING_TABLE = Struct("<24xQQ24x")
_PT_LOAD = 1
_CLASS_64, _LITTLE_ENDIAN = 2, 1
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_TLS = 1, 2, 4, 0x400
_SHT_NOBITS = 8
_PF_X, _PF_W = 1, 2

_log = logging.getLogger(__name__)


def read_elf(memory: Memory, base: int, path: str = "") -> Headers:
    """Read the headers of an ELF program or library.

    Args:
        memory: Memory of its process.
        base: Address of its header.
        path: Path of its file, which may name its sections; "" for none.

    Raises:
        ImageError: The header is missing or malformed.
        MemoryAccessError: It cannot be read.
    """
    header = memory.read(base, _HEADER.size)
    if header[:4] != MAGIC or header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN:
        raise ImageError(f"at {base:#x} is not a header of a 64-bit ELF program", pid=memory.pid)
    table_at, _, entry_size, n_segments = _HEADER.unpack(header)[:4]
    if entry_size != _SEGMENT.size or not n_segments or table_at > _PAGE:
        raise ImageError(f"the ELF header at {base:#x} is malformed", pid=memory.pid)
    table = memory.read(base + table_at, entry_size * n_segments)
    loads = [segment for segment in _SEGMENT.iter_unpack(table) if segment[0] == _PT_LOAD]
    if not loads:
        raise ImageError(f"the ELF program at {base:#x} loads nothing", pid=memory.pid)
    first = loads[0]
    bias = base - (first[3] - first[2])
    end = max(at + size for *_, at, size in loads)
    sections = _file_sections(Path(f"/proc/{memory.pid}/root{path}"), header, table, bias) if path else ()
    return Headers("elf", bias + -(-end // _PAGE) * _PAGE - base, sections or _segments(loads, bias))


def _segments(loads: Sequence[tuple[int, ...]], bias: int) -> tuple[Section, ...]:
    """Return the segments as sections."""
    return tuple(
        Section(f"load{i}", bias + at, size, bool(flags & _PF_X), bool(flags & _PF_W))
        for i, (_, flags, _, at, size) in enumerate(loads)
    )


def _file_sections(path: Path, header: bytes, table: bytes, bias: int) -> tuple[Section, ...]:
    """Return the sections that a file names; none if another file was loaded."""
    segments_at, sections_at, _, _, entry_size, n_sections, names_index = _HEADER.unpack(header)
    try:
        with path.open("rb") as file:
            is_same = file.read(len(header)) == header and _read_at(file.fileno(), segments_at, len(table)) == table
            if not is_same or entry_size != _SECTION.size or names_index >= n_sections:
                return ()
            entries = _read_at(file.fileno(), sections_at, entry_size * n_sections)
            if len(entries) != entry_size * n_sections:
                return ()
            names_at, names_size = _STRING_TABLE.unpack_from(entries, entry_size * names_index)
            names = _read_at(file.fileno(), names_at, min(names_size, 2**20))
    except OSError as error:
        _log.debug("sections of %s are unnamed: %s", path, error)
        return ()
    found = (
        Section(_name(names, at), bias + address, size, bool(flags & _SHF_EXECINSTR), bool(flags & _SHF_WRITE))
        for at, kind, flags, address, size in _SECTION.iter_unpack(entries)
        # .tbss has an address, but each thread has its own copy elsewhere.
        if flags & _SHF_ALLOC and size and not (flags & _SHF_TLS and kind == _SHT_NOBITS)
    )
    return tuple(sorted(found, key=lambda section: section.start))


def _read_at(file: int, offset: int, size: int) -> bytes:
    return os.pread(file, size, offset)


def _name(names: bytes, at: int) -> str:
    return names[at : names.find(b"\0", at)].decode(errors="replace")
