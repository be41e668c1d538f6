"""File names of programs, as Linux and Windows write them."""

from __future__ import annotations

import re


def file_name(path: str) -> str:
    """Return the last part of a path of Linux or Windows."""
    return re.split(r"[/\\]", path)[-1]


def same_name(name: str, wanted: str) -> bool:
    """Tell whether two file names are the same; those of Windows are, whatever their case."""
    if wanted.casefold().endswith((".exe", ".dll")):
        return name.casefold() == wanted.casefold()
    return name == wanted
