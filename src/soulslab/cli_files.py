"""Files and folders that commands read and write: tables and tokens."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from soulslab.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

#: Width of tables that are not printed on a terminal: wide enough that other programs find whole names.
PIPE_COLUMNS = 240
#: The flag ``--token-file``; see `token_options`. Its value may be ``-``.
TokenFile: TypeAlias = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]


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


def check_run(path: Path) -> None:
    """Check that there is a run or a policy file, before anything else is done.

    Args:
        path: Folder of a run, or a policy file.

    Raises:
        ConfigError: There is no such file or folder, or the folder holds no run.
    """
    if not path.exists():
        raise ConfigError("there is no such run or policy file", source=path)
    from soulslab.learn.runs import CHECKPOINTS_NAME, CONFIG_NAME, POLICY_NAME  # noqa: PLC0415  (loads torch)

    if path.is_dir() and not any((path / name).exists() for name in (CHECKPOINTS_NAME, CONFIG_NAME, POLICY_NAME)):
        raise ConfigError("holds no run; name the folder of a run, or a policy file", source=path)


def token_options(token_file: Path | None) -> dict[str, str]:
    """Return the options of an environment for the flag ``--token-file``.

    With ``-`` the token is asked for, or read from standard input where that is no terminal. It is put into the
    environment variable ``SOULSLAB_TOKEN``, so that the processes of a run find it; no other user can read it there.

    Args:
        token_file: The flag; None without it.

    Returns:
        The absolute path of the file by the name of its option; empty without a file.

    Raises:
        ConfigError: The file cannot be used, or the token that was entered is empty.
    """
    if token_file is None:
        return {}
    from soulslab.siphon.rpc import tokens  # noqa: PLC0415  (gRPC only where it is needed)

    if token_file == Path("-"):
        from getpass import getpass  # noqa: PLC0415

        token = getpass("token of the server: ") if sys.stdin.isatty() else sys.stdin.readline()
        if not token.strip():
            raise ConfigError("no token was entered", source="--token-file -")
        os.environ[tokens.TOKEN_VARIABLE] = token.strip()
        return {}
    tokens.read_token(token_file)  # an error is reported before anything else is done
    return {"token_file": str(token_file.resolve())}


def token_overrides(token_file: Path | None) -> list[str]:
    """Return the settings of a run for the flag ``--token-file``, in the form of ``--set``; see `token_options`."""
    from soulslab.config.writing import toml_value  # noqa: PLC0415

    return [f"env.options.{name}={toml_value(value)}" for name, value in token_options(token_file).items()]


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
