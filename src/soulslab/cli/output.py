"""Output of the commands: exit codes, tables and JSON files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
#: Width of tables that are not printed on a terminal: wide enough that other programs find whole names.
PIPE_COLUMNS: Final = 240


def table_console() -> Console:
    """Return the console for tables: as wide as the terminal or the variable COLUMNS, else `PIPE_COLUMNS`."""
    from rich.console import Console  # noqa: PLC0415  (`soulslab --help` has to answer at once)

    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if has_width else PIPE_COLUMNS)


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
