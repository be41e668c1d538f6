"""Reading of untrusted files: limits first, then one type of error for every failure.

The caller passes a function that creates its own exception. No other exception is raised for a file that is damaged,
malicious or too large. Time and memory grow at most linearly with the size of the input.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from soulslab.errors import SoulslabError, cut

T = TypeVar("T")

Fail: TypeAlias = Callable[[str], SoulslabError]
"""Returns the exception for a problem, such as ``"cannot be read: Permission denied"``."""

MAX_TEXT_BYTES: Final = 512 << 10
"""Maximum size of TOML and hand-written JSON files: 512 KiB, which tomllib reads within 2 s; profiles have 50 KiB."""

MAX_DEPTH: Final = 64
"""Maximum nesting depth of tables and lists."""

_MAX_KEY_PARTS: Final = 32
# tomllib needs quadratic time and memory in the number of parts of a dotted key.
_KEY_PART: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_KEY_PART}){{{_MAX_KEY_PARTS}}}")
_SHOWN_ERROR_CHARACTERS: Final = 300


def read_bytes(path: Path, max_bytes: int, fail: Fail, *, n_first_bytes: int | None = None) -> bytes:
    """Read a regular file of limited size; a pipe, a device or a folder is rejected without blocking.

    With ``n_first_bytes``, only the start of the file is read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise fail("cannot be read: it is not a regular file")
            if status.st_size > max_bytes:
                raise fail(f"is too large: {status.st_size} bytes, the limit is {max_bytes}")
            data = file.read(n_first_bytes if n_first_bytes is not None else max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        raise fail(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > max_bytes:  # the file grew during the read
        raise fail(f"is too large: more than {max_bytes} bytes")
    return data


def read_text(path: Path, fail: Fail, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a UTF-8 file, with or without a byte order mark; see `read_bytes`."""
    data = read_bytes(path, max_bytes, fail)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise fail(f"is not UTF-8 text (byte {error.start})") from error


def parse_toml(text: str, fail: Fail) -> dict[str, Any]:
    """Return the tables of a TOML document of limited length and depth."""
    if len(text) > MAX_TEXT_BYTES:
        raise fail(f"is too large: {len(text)} characters, the limit is {MAX_TEXT_BYTES}")
    if _LONG_KEY.search(text):
        raise fail(f"is nested too deeply: a key has more than {_MAX_KEY_PARTS} parts")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also numbers with more than 4300 digits
        raise fail(f"is not valid TOML: {cut(str(error), _SHOWN_ERROR_CHARACTERS)}") from error
    _check_depth(data, fail)
    return data


def parse_json(data: bytes | str, kind: type[T], fail: Fail) -> T:
    """Return a JSON document of limited depth as a type; the caller limits its size."""
    try:
        value = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a too large number
        problem = cut(str(error), _SHOWN_ERROR_CHARACTERS)
        raise fail(f"is not valid JSON of the expected form: {problem}") from error
    _check_depth(value, fail)
    return value


def _check_depth(value: Any, fail: Fail) -> None:
    """Reject tables and lists that are nested too deeply for recursive functions."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise fail(f"is nested too deeply: tables or lists are more than {MAX_DEPTH} deep")
