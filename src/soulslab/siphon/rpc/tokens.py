"""The token of a server: read from a secret, a file or the environment."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

from soulslab.config import Secret
from soulslab.errors import ConfigError
from soulslab.siphon.rpc.access import MIN_TOKEN

#: Environment variable with the token, for clients that are given neither a token nor a file.
TOKEN_VARIABLE: Final = "SOULSLAB_TOKEN"  # noqa: S105  (the name of the variable, not a token)
_MAX_BYTES: Final = 4096


def find_token(token: Secret | None = None, file: Path | str | None = None) -> Secret:
    """Return the token for a server.

    Args:
        token: The token.
        file: File that holds the token, read if no token is given.

    Returns:
        The token, the token of the file, or the value of the environment variable ``SOULSLAB_TOKEN``; an empty secret
        if there is none.

    Raises:
        ConfigError: The file cannot be used.
    """
    if token:
        return token
    if file:
        return read_token(Path(file))
    return Secret(os.environ.get(TOKEN_VARIABLE, ""))


def read_token(file: Path) -> Secret:
    """Return the token in a file.

    Raises:
        ConfigError: The file cannot be read, another user owns it or may write to it, or its token has fewer than 16
            characters.
    """
    try:
        with file.open("rb") as stream:
            _check_owner(file, os.fstat(stream.fileno()))
            token = stream.read(_MAX_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", source=file) from error
    if len(token) < MIN_TOKEN:
        raise ConfigError(
            f"holds a token of {len(token)} characters, and {MIN_TOKEN} are needed; remove it, and the server writes "
            f"a token into it",
            source=file,
        )
    return Secret(token)


def _check_owner(file: Path, about: os.stat_result) -> None:
    """Raise `ConfigError` if another user could have chosen the token in a file."""
    if not stat.S_ISREG(about.st_mode):
        raise ConfigError("is not a regular file", source=file)
    if sys.platform == "win32":
        return
    if about.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"belongs to user {about.st_uid}, who knows the token; use a file of your own", source=file)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"may be written by other users (mode {stat.S_IMODE(about.st_mode):o}), who may have chosen the token: "
            f"make a new one, in a file with the mode 600",
            source=file,
        )
