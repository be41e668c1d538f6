"""Writing what a scan has found into a profile."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from soulslab.errors import ProfileError
from soulslab.siphon.profile import Attribute, Profile, ValueType
from soulslab.siphon.profile_loading import parse_profile
from soulslab.siphon.scanner.pointers import PointerPath
from soulslab.siphon.scanner.signature import Signature

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A value that was found, as an attribute of a profile (see `Attribute` for what the names mean).

    Attributes:
        name: Of the attribute.
        path: How it is reached.
        type: Its type.
        range: Least and most plausible value; needed for numbers.
        length: See `Attribute`.
        scale: See `Attribute`.
        unit: See `Attribute`.
        source: How it was found.
        signature: Pattern for the start of the path; None for the offset from the module.
    """

    name: str
    path: PointerPath
    type: ValueType
    range: tuple[float, float] | None = None
    length: int = 1
    scale: float = 1.0
    unit: str = ""
    source: str
    signature: Signature | None = None


def profile_entry(found: Found) -> str:
    """Return the TOML of a base and an attribute for a value; their names are the same."""
    key = _key(found.name)
    signature = found.signature
    if signature is None:
        base: dict[str, object] = {"module": found.path.module, "offset": _Hex(found.path.offset)}
        base["source"] = found.source
    else:
        base = {
            name: value
            for name, value in msgspec.structs.asdict(signature.base).items()
            if name in ("pattern", "displacement_at", "instruction_end", "source")
        }
    offsets = (signature.distance if signature else 0, *found.path.offsets)
    attribute: dict[str, object] = {"base": found.name, "offsets": [_Hex(offset) for offset in offsets]}
    attribute["type"] = found.type
    defaults = {field.name: field.default for field in msgspec.structs.fields(Attribute)}
    for name in ("length", "scale", "unit"):
        value = getattr(found, name)
        if value != defaults[name]:
            attribute[name] = value
    if found.range is not None:
        attribute["range"] = list(found.range)
    attribute["source"] = found.source
    return f"[bases.{key}]\n{_lines(base)}\n[attributes.{key}]\n{_lines(attribute)}"


def create_profile(file: Path, profile: Profile) -> None:
    """Write a new profile that says how a game is recognised and started, for entries to be added to.

    Args:
        file: The file.
        profile: Only its name, process and grade of clock are written.

    Raises:
        ProfileError: The file is there already, or cannot be written.
    """
    process = {
        name: value
        for name, value in msgspec.structs.asdict(profile.process).items()
        if value and name not in ("environment", "options")
    }
    parts = [
        _lines({"format": profile.format, "name": profile.name}),
        f"[process]\n{_lines(process)}",
        *(
            f"[{name}]\n{_lines(table)}"
            for name, table in (
                ("process.environment", dict(profile.process.environment)),
                ("process.options", dict(profile.process.options)),
                ("clock", {"grade": profile.clock.grade}),
            )
            if table
        ),
    ]
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write("\n".join(parts))
    except OSError as error:
        raise ProfileError(f"cannot be written: {error.strerror or error}", source=file) from error


def append_entry(file: Path, entry: str) -> Profile:
    """Add an entry to a profile, below what is there; comments stay, and the file is never left half-written.

    Args:
        file: The profile.
        entry: From `profile_entry`.

    Returns:
        The profile as it is now.

    Raises:
        ProfileError: The file cannot be read or written, or would be no valid profile (it may have an attribute of
            that name already); it is unchanged.
    """
    file = file.resolve()  # a link stays one
    try:
        text = file.read_text(encoding="utf-8")
        new = f"{text.rstrip()}\n\n{entry}" if text.strip() else entry
        profile = parse_profile(tomllib.loads(new), str(file))
        _replace(file, new)
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot be read or written: {error}", source=file) from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"cannot take the entry: {error}", source=file) from error
    return profile


def set_values(file: Path, table: str, values: Mapping[str, object]) -> Profile:
    """Set values in a table of a profile; other lines and comments stay, and the file is never left half-written.

    Args:
        file: The profile.
        table: Name of the table; it is added at the end if the file does not have it.
        values: Strings and numbers by name. A line with that name is replaced.

    Returns:
        The profile with the values.

    Raises:
        ProfileError: The file cannot be read or written, would not be a valid profile, or writes the table in a form
            that cannot be edited; it is unchanged.
    """
    file = file.resolve()  # a link stays one
    try:
        new = _with_values(file.read_text(encoding="utf-8"), table, values)
        data = tomllib.loads(new)
        if any(data[table].get(name) != value for name, value in values.items()):
            raise ProfileError(f"cannot be edited: write the table as [{table}], one value on each line", source=file)
        profile = parse_profile(data, str(file))
        _replace(file, new)
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot be read or written: {error}", source=file) from error
    except (tomllib.TOMLDecodeError, KeyError, AttributeError) as error:
        raise ProfileError(f"cannot take the values of [{table}]: {error}", source=file) from error
    return profile


def _with_values(text: str, table: str, values: Mapping[str, object]) -> str:
    """Return a TOML text with values set in a table."""
    lines = text.splitlines(keepends=True)
    headers = [i for i, line in enumerate(lines) if _HEADER.match(line)]
    start = next((i for i in headers if lines[i].split("#")[0].strip() == f"[{table}]"), None)
    if start is None:
        return f"{text.rstrip()}\n\n[{table}]\n{_lines(values)}"
    end = next((i for i in headers if i > start), len(lines))
    body = [line for line in lines[start + 1 : end] if line.partition("=")[0].strip() not in values]
    n_kept = len(body)
    while n_kept and not body[n_kept - 1].strip():
        n_kept -= 1
    return "".join([*lines[: start + 1], *body[:n_kept], _lines(values), *body[n_kept:], *lines[end:]])


class _Hex(int):
    """A number that is written in hexadecimal digits."""


def _replace(file: Path, text: str) -> None:
    """Put a new file in the place of the old one, all at once."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as new:
        try:
            new.write(text)
            new.flush()
            os.fchmod(new.fileno(), file.stat().st_mode & 0o7777)
            os.fsync(new.fileno())
            Path(new.name).replace(file)
        except BaseException:
            Path(new.name).unlink()
            raise


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """Return a basic string of TOML: JSON's escapes are also TOML's, but for characters beyond 16 bits."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _value(value: object) -> str:
    match value:
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _Hex() if value >= 0:
            return f"{value:#x}"
        case _:
            return repr(value)
