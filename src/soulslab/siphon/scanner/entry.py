"""Editing of profiles: add, replace and remove scanned values."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Integer, Table, Trivia

from soulslab.config.atomic_file import replace_file
from soulslab.config.input_files import parse_toml, read_text
from soulslab.errors import ProfileError
from soulslab.siphon.profile import Attribute, Profile, ValueType
from soulslab.siphon.profile.loading import parse_profile
from soulslab.siphon.scanner.pointers import PointerPath
from soulslab.siphon.scanner.signature import Signature


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A found value, as an attribute of a profile (see `Attribute` for the fields).

    `signature` is a pattern for the start of the path; None for the offset from the module.
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


def profile_entry(found: Found) -> dict[str, Any]:
    """Return the tables of a base and an attribute for a value; both have the name of the value."""
    signature = found.signature
    base: dict[str, object] = {"module": found.path.module, "offset": found.path.offset, "source": found.source}
    if signature is not None:
        fields = ("pattern", "displacement_at", "instruction_end", "source")
        base = {name: getattr(signature.base, name) for name in fields}
    offsets = [signature.distance if signature else 0, *found.path.offsets]
    attribute: dict[str, object] = {"base": found.name, "offsets": offsets, "type": found.type}
    defaults = {field.name: field.default for field in msgspec.structs.fields(Attribute)}
    for name in ("length", "scale", "unit"):
        value = getattr(found, name)
        if value != defaults[name]:
            attribute[name] = value
    if found.range is not None:
        attribute["range"] = list(found.range)
    attribute["source"] = found.source
    return {"bases": {found.name: base}, "attributes": {found.name: attribute}}


@contextmanager
def edit_profile(file: Path, new: Profile) -> Iterator[tomlkit.TOMLDocument]:
    """Edit a profile in a block; comments and the order of lines are preserved.

    The file is replaced atomically when the block ends without an error. A new file gets the name, process and grade of
    the clock of `new`. Raises `ProfileError` if the file cannot be read or written, or would not be a valid profile; it
    is unchanged then.
    """
    file = file.resolve()  # a symbolic link is preserved
    fail = partial(ProfileError, source=file)
    try:
        if file.exists():
            text = read_text(file, fail)
            parse_toml(text, fail)  # tomlkit has no limits
            document = tomlkit.parse(text)
        else:
            document = _new_document(new)
        yield document
        edited = f"{tomlkit.dumps(document).rstrip()}\n"
        parse_profile(tomllib.loads(edited), str(file))
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644
        replace_file(file, edited.encode(), mode=mode)
    except OSError as error:
        raise ProfileError(f"cannot be written: {error}", source=file) from error
    except (TOMLKitError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProfileError(f"cannot be edited: {error}", source=file) from error


def add_entry(document: tomlkit.TOMLDocument, found: Found) -> None:
    """Add a base and an attribute to a profile. Raises `ProfileError` if it has an entry with the name."""
    for name, tables in profile_entry(found).items():
        if name not in document:
            document.append(name, tomlkit.table(is_super_table=True))
        for key, values in tables.items():
            if key in document[name]:
                raise ProfileError(f"has an entry {name}.{key} already")
            document[name][key] = _table(values)


def remove_entry(document: tomlkit.TOMLDocument, name: str) -> None:
    """Remove the base and the attribute with a name, if they exist."""
    for kind in ("bases", "attributes"):
        document.get(kind, {}).pop(name, None)


def set_values(document: tomlkit.TOMLDocument, table: str, values: Mapping[str, Any]) -> None:
    """Set values in a table of a profile, which is added if necessary; None removes a value."""
    if table not in document:
        document.append(table, tomlkit.table())
    part: Any = document[table]
    for name, value in values.items():
        if value is None:
            part.pop(name, None)
        else:
            part[name] = value


def _table(values: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for name, value in values.items():
        if name == "offset":
            table.append(name, _hex(value))
        elif name == "offsets":
            numbers = tomlkit.array()
            numbers.extend(map(_hex, value))
            table.append(name, numbers)
        else:
            table.append(name, value)
    table.add(tomlkit.nl())
    return table


def _hex(number: int) -> Integer:
    return Integer(number, Trivia(), hex(number) if number >= 0 else str(number))


def _new_document(profile: Profile) -> tomlkit.TOMLDocument:
    """Return the text of a new profile that only identifies and starts a game."""
    document = tomlkit.document()
    document.append("format", tomlkit.item(profile.format))
    document.append("name", tomlkit.item(profile.name))
    process = {name: value for name, value in msgspec.to_builtins(profile.process).items() if value}
    for name, table in (("process", process), ("clock", {"grade": profile.clock.grade})):
        document.add(tomlkit.nl())
        document.append(name, tomlkit.item(table))
    return document
