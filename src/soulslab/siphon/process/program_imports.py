"""Imports of a Windows program, read from its file (Microsoft, "PE Format")."""

from __future__ import annotations

import struct
from pathlib import Path
from struct import Struct

from soulslab.errors import ImageError

#: Machine, number of sections, size of the optional header; after the signature.
_FILE_HEADER = Struct("<4sHH12xH2x")
_MACHINE_X64, _PE32_PLUS = 0x8664, 0x20B
#: Offset of the entry of the import table among the data directories, in the optional header.
_IMPORTS_AT = 112 + 8
#: Size, address, size in the file, offset in the file.
_SECTION = Struct("<8xIIII16x")
#: Address of the names, name of the library, address of the slots.
_IMPORT = Struct("<I8xII")
_BY_NUMBER = 1 << 63
_MAX_LIBRARIES, _MAX_FUNCTIONS, _MAX_NAME = 1024, 65536, 512


def read_imports(path: Path) -> dict[str, frozenset[str | int]]:
    """Return the functions that a 64-bit program imports at its start, by the name of their library in lower case.

    A function without a name is its number. Libraries that are loaded later are not among them.

    Raises `ImageError` if the file is not a 64-bit Windows program, or is malformed, and `OSError`.
    """
    data = path.read_bytes()
    try:
        (header_at,) = struct.unpack_from("<I", data, 0x3C)
        signature, machine, n_sections, optional_size = _FILE_HEADER.unpack_from(data, header_at)
        optional_at = header_at + _FILE_HEADER.size
        (magic,) = struct.unpack_from("<H", data, optional_at)
        if data[:2] != b"MZ" or signature != b"PE\0\0":
            raise ImageError(f"{path} is not a Windows program")
        if machine != _MACHINE_X64 or magic != _PE32_PLUS:
            raise ImageError(f"{path} is not a 64-bit program for x86 processors (machine {machine:#x})")
        table = data[optional_at + optional_size :][: n_sections * _SECTION.size]
        return _ImportTable(data, list(_SECTION.iter_unpack(table))).read(
            struct.unpack_from("<I", data, optional_at + _IMPORTS_AT)[0]
        )
    except (struct.error, IndexError) as error:
        raise ImageError(f"{path} is not a Windows program, or its headers are malformed: {error}") from error


class _ImportTable:
    """The import table in the bytes of a file; raises `struct.error` or `IndexError` where it is malformed."""

    def __init__(self, data: bytes, sections: list[tuple[int, ...]]) -> None:
        self._data = data
        self._sections = sections

    def read(self, address: int) -> dict[str, frozenset[str | int]]:
        found: dict[str, frozenset[str | int]] = {}
        at = self._offset(address) if address else 0
        for i in range(_MAX_LIBRARIES if address else 0):
            names, library, slots = _IMPORT.unpack_from(self._data, at + i * _IMPORT.size)
            if not slots:
                break
            name = self._text(library).casefold()
            found[name] = found.get(name, frozenset()) | self._functions(names or slots)
        return found

    def _functions(self, address: int) -> frozenset[str | int]:
        at, functions = self._offset(address), set[str | int]()
        for i in range(_MAX_FUNCTIONS):
            (entry,) = struct.unpack_from("<Q", self._data, at + 8 * i)
            if not entry:
                break
            functions.add(entry & 0xFFFF if entry & _BY_NUMBER else self._text(entry + 2))
        return frozenset(functions)

    def _text(self, address: int) -> str:
        at = self._offset(address)
        return self._data[at : at + _MAX_NAME].partition(b"\0")[0].decode("ascii", "replace")

    def _offset(self, address: int) -> int:
        """Return the offset in the file of an address of the program."""
        for size, start, file_size, offset in self._sections:
            if start <= address < start + max(size, file_size):
                return offset + address - start
        raise IndexError(f"no section contains the address {address:#x}")
