"""Where a client takes the token of a server from: a secret, a file, or the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from soulslab.config import Secret
from soulslab.siphon.rpc.running import read_token

#: Environment variable with the token, for clients that are given neither a token nor a file.
TOKEN_VARIABLE: Final = "SOULSLAB_TOKEN"  # noqa: S105  (the name of the variable, not a token)


def find_token(token: Secret | None = None, file: Path | str | None = None) -> Secret:
    """Return the token for a server.

    Args:
        token: The token.
        file: File that holds the token, read if no token is given.

    Returns:
        The token, or that of the file, or that of the environment variable ``SOULSLAB_TOKEN``; an empty secret without
        any of these.

    Raises:
        ConfigError: The file cannot be used.
    """
    if token:
        return token
    if file:
        return read_token(Path(file))
    return Secret(os.environ.get(TOKEN_VARIABLE, ""))
