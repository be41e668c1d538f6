"""Files and folders that commands write their tables to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from soulslab.errors import ConfigError


def check_json(path: Path | None) -> None:
    """Check that a file can be written, before the work that fills it.

    Raises:
        ConfigError: It cannot.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise ConfigError(f"cannot be written: there is no folder {path.parent}", source=path)
    if path.is_dir():
        raise ConfigError("cannot be written: it is a folder; name a file", source=path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError("cannot be written: permission denied", source=path)


def make_folder(path: Path) -> None:
    """Make a folder unless it is there.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be made: {error.strerror or error}", source=path) from error


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a table, one object each.

    Raises:
        ConfigError: The file cannot be written.
    """
    import msgspec  # noqa: PLC0415  (`soulslab --help` has to answer at once)

    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", source=path) from error
