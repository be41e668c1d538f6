"""Headers of a Windows program in memory (PE32+; source of the format: Microsoft, "PE Format")."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

#: Size reserved for the headers.
HEADERS_SIZE = 0x1000
#: Preferred base address of 64-bit programs (Microsoft, "/BASE").
PREFERRED_BASE = 0x140000000

_HEADER_AT = 0x80
_OPTIONAL_SIZE = 112 + 16 * 8
_SECTIONS_AT = _HEADER_AT + 24 + _OPTIONAL_SIZE
_AMD64, _EXECUTABLE = 0x8664, 0x22
_PE32_PLUS, _WINDOWS_GUI = 0x20B, 2
_RESOURCES, _RT_VERSION, _NEUTRAL = 2, 16, 0x409
_IS_TABLE = 0x80000000
_SIGNATURE = 0xFEEF04BD
#: Flags of sections: executable code, writable data, read-only data.
CODE, DATA, CONSTANTS = 0x60000020, 0xC0000040, 0x40000040
MAX_SECTIONS = (HEADERS_SIZE - _SECTIONS_AT) // 40


class ProgramSection(msgspec.Struct, frozen=True):
    """A section of the program.

    Attributes:
        name: At most 8 characters.
        start: Offset from the program's base.
        size: Size in bytes.
        flags: `CODE`, `DATA` or `CONSTANTS`.
    """

    name: str
    start: int
    size: int
    flags: int


def headers(base: int, size: int, sections: Sequence[ProgramSection], resources: tuple[int, int]) -> bytes:
    """Return the headers of a program.

    Args:
        base: Address at which it is loaded.
        size: Size of the program in memory.
        sections: At most `MAX_SECTIONS`.
        resources: Start and size of its resources; zeros for none.
    """
    start = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", _HEADER_AT)
    file_header = struct.pack("<4sHHIIIHH", b"PE\0\0", _AMD64, len(sections), 0, 0, 0, _OPTIONAL_SIZE, _EXECUTABLE)
    code = next((section for section in sections if section.flags == CODE), None)
    optional = struct.pack(
        "<HBBIIIIIQIIHHHHHHIIIIHHQQQQII",
        *(_PE32_PLUS, 14, 0),
        *((code.size, 0, 0, 0, code.start) if code else (0, 0, 0, 0, 0)),
        *(base, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0),
        *(size, HEADERS_SIZE, 0, _WINDOWS_GUI, 0),
        *(0x100000, 0x1000, 0x100000, 0x1000, 0, 16),
    )
    directories = bytearray(16 * 8)
    struct.pack_into("<II", directories, 8 * _RESOURCES, *resources)
    table = b"".join(
        struct.pack("<8sIIII12xI", one.name.encode(), one.size, one.start, one.size, one.start, one.flags)
        for one in sections
    )
    return start.ljust(_HEADER_AT, b"\0") + file_header + optional + bytes(directories) + table


def version_resource(start: int, version: Sequence[int]) -> bytes:
    """Return resources that contain only a file version.

    Args:
        start: Their offset from the program's base.
        version: The four numbers of the version.
    """
    tables = b""
    for level, name in enumerate((_RT_VERSION, 1, _NEUTRAL)):
        behind = 24 * (level + 1)
        leads_to = behind | _IS_TABLE if level < 2 else behind
        tables += struct.pack("<12xHHII", 0, 1, name, leads_to)
    major, minor, build, revision = version
    fixed = struct.pack("<IIHHHH9I", _SIGNATURE, 0x10000, minor, major, revision, build, *(0,) * 9)
    key = "VS_VERSION_INFO\0".encode("utf-16-le")
    value = struct.pack("<HHH", 6 + len(key) + 2 + len(fixed), len(fixed), 0) + key + b"\0\0" + fixed
    data_at = start + len(tables) + 16
    return tables + struct.pack("<IIII", data_at, len(value), 0, 0) + value
