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
#: Width of tables in a pipe or file: wide enough for whole names.
PIPE_COLUMNS: Final = 240


def plain_console(**options: Any) -> Console:
    """Return a console of rich that prints texts as they are: names in files and games may look like its markup."""
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)


def table_console() -> Console:
    """Return the console for tables, with the width of the terminal, of the variable COLUMNS, or `PIPE_COLUMNS`."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return plain_console(width=None if has_width else PIPE_COLUMNS)


def print_line(text: str) -> None:
    """Print a line as it is, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def counted(n: int, what: str) -> str:
    """Return a number with its noun, as ``1 fight`` or ``2 fights``."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def check_file(path: Path | None) -> None:
    """Raise `ConfigError` if a file cannot be written, before the work for its contents."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise ConfigError(f"cannot be written: the folder {path.parent} does not exist", source=path)
    if path.is_dir():
        raise ConfigError("cannot be written: it is a folder; name a file", source=path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError("cannot be written: permission denied", source=path)


def make_folder(path: Path) -> None:
    """Create a folder if it does not exist. Raises `ConfigError`."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be created: {error.strerror or error}", source=path) from error


def write_json(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a table as JSON, one object per row; nothing without a path. Raises `ConfigError`."""
    import msgspec

    if path is None:
        return
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", source=path) from error
