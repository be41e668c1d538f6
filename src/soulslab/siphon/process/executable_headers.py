"""Headers of executables: the result type of the ELF and PE readers."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["elf", "pe"]


class Section(msgspec.Struct, frozen=True):
    """A section of a program in memory.

    Attributes:
        name: ``.text``; of an ELF program whose file cannot be read, ``load0``, ``load1``, ...
        start: Address.
        size: Size in memory in bytes.
        is_executable: Whether it contains code.
        is_writable: Whether the program may write to it.
    """

    name: str
    start: int
    size: int
    is_executable: bool
    is_writable: bool


class Headers(msgspec.Struct, frozen=True):
    """Contents of the headers of a loaded program or library.

    Attributes:
        kind: Format of the executable.
        size: Bytes from its base to its end.
        sections: Sections, ascending.
        preferred_base: Address that it was linked for; 0 for any.
        is_library: Whether it is a DLL; ELF headers do not distinguish programs from libraries.
        version: Version from the version resource; "" without one.
        export_name: Name in the export table of a DLL; "" for none.
    """

    kind: Kind
    size: int
    sections: tuple[Section, ...]
    preferred_base: int = 0
    is_library: bool = False
    version: str = ""
    export_name: str = ""
