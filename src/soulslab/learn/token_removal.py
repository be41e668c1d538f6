"""Removing the token of a server from the files of a run, a study or a data set of an earlier version.

Earlier versions wrote ``env.options.token`` as plain text into settings, policies, checkpoints and data sets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from soulslab.config.input_files import MAX_TEXT_BYTES, parse_json, parse_toml, read_bytes
from soulslab.errors import CheckpointError, ConfigError, CorruptCheckpointError
from soulslab.learn.archive import read_archive, read_archive_header, write_archive, write_atomically, writing
from soulslab.learn.demonstrations.data_set_metadata import METADATA_NAME

_OPTIONS: Final = ("options", "env_options", "kwargs")
"""Names of the tables in which earlier versions wrote the options of an environment."""

_NAME: Final = "token"
_TOML_LINE: Final = re.compile(r'^[ \t]*token\s*=\s*(".*"|\'.*\')\s*(#.*)?\n?', re.MULTILINE)
_IN_MALFORMED: Final = re.compile(rb"""\btoken\b[\\"']*\s*[=:]\s*[\\"']+([^\\"'\r\n]+)""")
"""A token in text that cannot be parsed, such as TOML with a mistake or JSON in JSON."""


class Removal(NamedTuple):
    """Files from which a token was removed, and files that still hold one and must be removed manually."""

    changed: tuple[Path, ...]
    left: tuple[Path, ...]


def remove_tokens(path: Path) -> Removal:
    """Remove tokens from the settings, policies, checkpoints and data sets below a folder, or from one file.

    A token that was in such a file is then searched for in all other files. Raises CorruptCheckpointError for a damaged
    policy or checkpoint; the files before it are done.
    """
    if not path.exists():
        raise CheckpointError(path, "cannot be read: No such file or directory")
    with writing(path):
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    cleaned = {file: _clean(file) for file in files}
    tokens = set().union(*(each.tokens for each in cleaned.values()))
    changed = tuple(file for file, each in cleaned.items() if each.tokens and each.is_removed)
    left = (file for file, each in cleaned.items() if not each.is_removed or _holds_any(file, tokens))
    return Removal(changed, tuple(left))


class _Cleaned(NamedTuple):
    """The tokens that one file held, and whether they were removed from it."""

    tokens: set[str]
    is_removed: bool = True


def _clean(file: Path) -> _Cleaned:
    """Remove the tokens of one file, if that is possible without other changes."""
    if file.suffix == ".safetensors":
        return _clean_archive(file)
    if file.suffix == ".toml":
        return _clean_toml(file)
    if file.name == METADATA_NAME:
        return _clean_metadata(file)
    return _Cleaned(set())


def _clean_archive(file: Path) -> _Cleaned:
    try:
        if not set(_pop_tokens(read_archive_header(file))):
            return _Cleaned(set())
    except CorruptCheckpointError:
        return _Cleaned(set())  # a file of another program; it is searched for the tokens later
    tensors, header = read_archive(file)
    found = set(_pop_tokens(header))
    write_archive(file, tensors, header)
    return _Cleaned(found)


def _clean_toml(file: Path) -> _Cleaned:
    """Remove the lines with a token, so that comments are kept; other notations of a token are left."""
    data = read_bytes(file, MAX_TEXT_BYTES, partial(CheckpointError, file))
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        tables = parse_toml(text, partial(ConfigError, source=file))
    except (UnicodeDecodeError, ConfigError):
        return _search_malformed(data)
    found = set(_pop_tokens(tables))
    cleaned = _TOML_LINE.sub("", text)
    is_removed = not found or tomllib.loads(cleaned) == tables
    if found and is_removed:
        write_atomically(file, cleaned.encode())
    return _Cleaned(found, is_removed)


def _clean_metadata(file: Path) -> _Cleaned:
    fail = partial(ConfigError, source=file)
    content = _read(file)
    try:
        data = parse_json(content, dict[str, Any], fail)
        spec = parse_json(str(data.get("env_spec", "")), object, fail)
    except ConfigError:
        return _search_malformed(content)
    found = set(_pop_tokens(spec))
    if found:
        data["env_spec"] = msgspec.json.encode(spec).decode()
        write_atomically(file, msgspec.json.encode(data))
    return _Cleaned(found)


def _search_malformed(data: bytes) -> _Cleaned:
    found = {token.decode(errors="replace") for token in _IN_MALFORMED.findall(data)}
    return _Cleaned(found, is_removed=not found)


def _pop_tokens(value: Any, *, are_options: bool = False) -> Iterator[str]:
    """Remove the tokens from tables of options, at any depth, and yield them."""
    if isinstance(value, dict):
        if are_options and isinstance(value.get(_NAME), str):
            token = value.pop(_NAME)
            if token:
                yield token
        for name, each in value.items():
            yield from _pop_tokens(each, are_options=name in _OPTIONS)
    elif isinstance(value, list):
        for each in value:
            yield from _pop_tokens(each)


def _holds_any(file: Path, tokens: set[str]) -> bool:
    data = _read(file) if tokens else b""
    return any(token.encode() in data for token in tokens)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CheckpointError(file, f"cannot be read: {error.strerror or error}") from error
