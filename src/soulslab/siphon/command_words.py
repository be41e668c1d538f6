"""Words of a typed command."""

from __future__ import annotations

import shlex
import sys

from soulslab.errors import ConfigError


def split_words(line: str) -> list[str]:
    r"""Split a line at its blanks; quotes hold words together.

    A backslash quotes the next character, but not on Windows, where it separates the parts of a path, as in
    ``capture C:\temp\a.png``. Raises ConfigError if a quote is not closed.
    """
    platform: str = sys.platform
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters = True, ""
    if platform == "win32":
        words.escape = ""
    try:
        return list(words)
    except ValueError as error:
        raise ConfigError(f"cannot be split into words: {error}", source=line) from error
