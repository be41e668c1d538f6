"""Builds the memory of a Windows program (headers, sections, version resource), and the file of one with imports."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

HEADER_AT = 0x80
SECTION_SIZE = 0x1000
#: Name and flags of the sections; each is a page, after the page of the headers.
SECTIONS = ((b".text", 0x60000020), (b".data", 0xC0000040), (b".rsrc", 0x40000040))
SIZE = SECTION_SIZE * (1 + len(SECTIONS))
BASE = 0x140000000


def windows_program(
    version: tuple[int, int, int, int] | None = (2, 6, 1, 0),
    *,
    base: int = BASE,
    is_library: bool = False,
    export_name: str = "",
    magic: int = 0x20B,
) -> bytearray:
    """Return the memory of a program."""
    memory = bytearray(SIZE)
    memory[:2] = b"MZ"
    struct.pack_into("<I", memory, 0x3C, HEADER_AT)
    optional_size = 112 + 16 * 8
    flags = 0x22 | (0x2000 if is_library else 0)
    struct.pack_into("<4sHHIIIHH", memory, HEADER_AT, b"PE\0\0", 0x8664, len(SECTIONS), 0, 0, 0, optional_size, flags)
    optional_at = HEADER_AT + 24
    struct.pack_into("<H", memory, optional_at, magic)
    struct.pack_into("<Q", memory, optional_at + 24, base)
    struct.pack_into("<I", memory, optional_at + 56, SIZE)
    struct.pack_into("<I", memory, optional_at + 108, 16)
    for i, (name, section_flags) in enumerate(SECTIONS):
        at = optional_at + optional_size + 40 * i
        struct.pack_into("<8sII20xI", memory, at, name, SECTION_SIZE, SECTION_SIZE * (i + 1), section_flags)
    if version is not None:
        resources_at = SECTION_SIZE * 3
        struct.pack_into("<II", memory, optional_at + 112 + 16, resources_at, SECTION_SIZE)
        memory[resources_at : resources_at + 0x400] = _resources(version, resources_at)
    if export_name:
        exports_at = SECTION_SIZE * 2
        struct.pack_into("<II", memory, optional_at + 112, exports_at, 0x100)
        struct.pack_into("<I", memory, exports_at + 12, exports_at + 40)
        memory[exports_at + 40 : exports_at + 41 + len(export_name)] = export_name.encode() + b"\0"
    return memory


def _resources(version: tuple[int, int, int, int], at: int) -> bytes:
    """Return a resource tree with an icon and a version."""
    tree = bytearray(0x400)
    struct.pack_into("<12xHHIIII", tree, 0, 0, 2, 3, 0x80000100, 16, 0x80000040)
    struct.pack_into("<12xHHII", tree, 0x40, 0, 1, 1, 0x80000060)
    struct.pack_into("<12xHHII", tree, 0x60, 0, 1, 0x409, 0x80)
    struct.pack_into("<II", tree, 0x80, at + 0x200, 0x5C)
    major, minor, build, revision = version
    text = "VS_VERSION_INFO\0".encode("utf-16-le")
    tree[0x200 : 0x200 + 6 + len(text)] = struct.pack("<HHH", 0x5C, 52, 0) + text
    struct.pack_into("<IIHHHH", tree, 0x228, 0xFEEF04BD, 0x10000, minor, major, revision, build)
    return bytes(tree)


#: Offset and address of the only section of a file with imports.
FILE_AT, IMPORTS_AT = 0x400, 0x1000


def program_file(imports: Mapping[str, Sequence[str | int]], *, machine: int = 0x8664) -> bytes:
    """Return the file of a program that imports functions, by their names or numbers, of libraries."""
    size = 20 * (len(imports) + 1)
    descriptors, rest = b"", b""
    for library, functions in imports.items():
        slots_at = IMPORTS_AT + size + len(rest)
        texts_at = slots_at + 8 * (len(functions) + 1)
        slots, texts = b"", b""
        for one in functions:
            slots += struct.pack("<Q", (1 << 63) | one if isinstance(one, int) else texts_at + len(texts))
            texts += b"" if isinstance(one, int) else b"\0\0" + one.encode() + b"\0"
        descriptors += struct.pack("<IIIII", slots_at, 0, 0, texts_at + len(texts), slots_at)
        rest += slots + bytes(8) + texts + library.encode() + b"\0"
    section = descriptors + bytes(20) + rest
    file = bytearray(FILE_AT)
    file[:2] = b"MZ"
    struct.pack_into("<I", file, 0x3C, HEADER_AT)
    optional_size = 112 + 16 * 8
    struct.pack_into("<4sHHIIIHH", file, HEADER_AT, b"PE\0\0", machine, 1, 0, 0, 0, optional_size, 0x22)
    optional_at = HEADER_AT + 24
    struct.pack_into("<H", file, optional_at, 0x20B)
    struct.pack_into("<II", file, optional_at + 112 + 8, IMPORTS_AT, len(section))
    struct.pack_into("<8sIIII", file, optional_at + optional_size, b".idata", 0x1000, IMPORTS_AT, len(section), FILE_AT)
    return bytes(file) + section
