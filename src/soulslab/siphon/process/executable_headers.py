"""Headers of programs: what the readers of ELF and PE have in common."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["elf", "pe"]


class Section(msgspec.Struct, frozen=True):
    """A part of a program in memory.

    Attributes:
        name: ``.text``; of an ELF program whose file cannot be read, ``load0``, ``load1``, ...
        start: Its address.
        size: In bytes, in memory.
        is_executable: It holds code.
        is_writable: The program may write it.
    """

    name: str
    start: int
    size: int
    is_executable: bool
    is_writable: bool


class Headers(msgspec.Struct, frozen=True):
    """What the headers of a loaded program or library say.

    Attributes:
        kind: Its format.
        size: Bytes from its base to its end.
        sections: Ascending.
        preferred_base: Where it was built to be loaded; 0 for anywhere.
        is_library: It is a DLL; an ELF program cannot be told from a library.
        version: Of the version resource; "" without one.
        export_name: Name that a DLL gives itself; "" for none.
    """

    kind: Kind
    size: int
    sections: tuple[Section, ...]
    preferred_base: int = 0
    is_library: bool = False
    version: str = ""
    export_name: str = ""
