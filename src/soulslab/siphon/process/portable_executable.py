"""The headers of a Windows program in memory (PE32+; the format: Microsoft, "PE Format").

All headers are in memory, so no file is read; the version comes from the version resource, as in Windows Explorer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct

from soulslab.errors import ImageError, MemoryAccessError
from soulslab.siphon.memory import Memory
from soulslab.siphon.process.executable_headers import Headers, Section

MAGIC = b"MZ"
_PE_AT = Struct("<60xI")
#: Signature, n_sections, size of the optional header, characteristics.
_FILE_HEADER = Struct("<4s2xH12xHH")
#: Magic, image base, size of the image, number of data directories.
_OPTIONAL = Struct("<H22xQ24xI48xI")
_DIRECTORIES_AT, _DIRECTORY = 112, Struct("<II")
_SECTION = Struct("<8sII20xI")
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

_log = logging.getLogger(__name__)


def read_pe(memory: Memory, base: int) -> Headers:
    """Read the headers of a Windows program or DLL.

    Args:
        memory: Memory of its process.
        base: Address of its header.

    Raises:
        ImageError: The header is missing or malformed.
        MemoryAccessError: It cannot be read.
    """
    start = memory.read(base, _PE_AT.size)
    (header_at,) = _PE_AT.unpack(start)
    if start[:2] != MAGIC or not _PE_AT.size <= header_at <= 4096 - _FILE_HEADER.size:
        raise ImageError(f"at {base:#x} is not a header of a Windows program", pid=memory.pid)
    header = memory.read(base + header_at, _FILE_HEADER.size)
    signature, n_sections, optional_size, characteristics = _FILE_HEADER.unpack(header)
    optional_at = base + header_at + _FILE_HEADER.size
    if signature != b"PE\0\0" or n_sections > _MAX_SECTIONS or optional_size < _DIRECTORIES_AT:
        raise ImageError(f"the header of the Windows program at {base:#x} is malformed", pid=memory.pid)
    optional = memory.read(optional_at, optional_size)
    magic, preferred_base, size, n_directories = _OPTIONAL.unpack_from(optional)
    if magic != _PE32_PLUS:
        raise ImageError(f"the Windows program at {base:#x} is not a 64-bit one (magic {magic:#x})", pid=memory.pid)
    n_directories = min(n_directories, (optional_size - _DIRECTORIES_AT) // _DIRECTORY.size)
    directories = [_DIRECTORY.unpack_from(optional, _DIRECTORIES_AT + 8 * i) for i in range(n_directories)]
    directories += [(0, 0)] * (_RESOURCES + 1 - n_directories)
    table = memory.read(optional_at + optional_size, n_sections * _SECTION.size)
    return Headers(
        kind="pe",
        size=size,
        sections=tuple(_sections(table, base)),
        preferred_base=preferred_base,
        is_library=bool(characteristics & _IS_DLL),
        version=_read_version(memory, base, size, directories[_RESOURCES][0]),
        export_name=_read_export_name(memory, base, size, directories[_EXPORTS][0]),
    )


def _sections(table: bytes, base: int) -> Iterator[Section]:
    for name, size, address, flags in _SECTION.iter_unpack(table):
        yield Section(
            name=name.rstrip(b"\0").decode(errors="replace"),
            start=base + address,
            size=size,
            is_executable=bool(flags & (_IS_CODE | _IS_EXECUTABLE)),
            is_writable=bool(flags & _IS_WRITABLE),
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
