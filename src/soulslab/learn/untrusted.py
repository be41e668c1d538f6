"""Checks of environments that are named in files: policies, runs and studies from other people.

A file may name any registered environment, and describe it with numbers and plain words. It must not determine which
programs run, which modules are imported, which servers are connected to, or which processes and files are opened; only
the command line does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from soulslab.config import read_overrides
from soulslab.errors import UntrustedFileError
from soulslab.learn.training import AnySettings

_REFUSED: Final = frozenset(
    {
        "allow_unknown_version",
        "display",
        "folder",
        "launch",
        "pid",
        "profile",
        "proton",
        "server",
        "session",
        "tls",
        "token",
    }
)
"""Options of soulslab's environments that select a program, a process, a server or a screen."""

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,63}")
"""Text that is neither a path nor ``module:name``."""

_GENERATED: Final = re.compile(r"generated:\d{1,10}(?:-\d{1,10})?")
"""Generated bosses, as the option ``boss`` of the arena; as another option it might be a module that is imported."""

FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")
"""Name of a function in a file."""
_FUNCTION: Final = re.compile(f"<function {FUNCTION_NAME.pattern}>")
"""Name of a function, which selects nothing by itself: only Python or the owner of a machine passes functions."""


def check_named_environment(env_id: str, options: Mapping[str, Any], source: str | Path) -> None:
    """Raise UntrustedFileError if the id of a file ("" for none) imports a module, or one of its options can run code.

    ``source`` is the file or folder, for the error message.
    """
    for place, value in find_decisions(env_id, options):
        raise UntrustedFileError(place, value, source)


def check_stored_settings(settings: AnySettings, source: str | Path, overrides: Sequence[str] = ()) -> None:
    """Check the settings of a run that is resumed, except for overrides of the command line."""
    given = read_overrides(overrides, "--set").get("env", {})
    options = {name: value for name, value in settings.env.options.items() if name not in given.get("options", {})}
    check_named_environment("" if "id" in given else settings.env.id, options, source)


def trust_flag(settings: AnySettings) -> str:
    """Return the suffix of a command that resumes a run or a study: `` --trust``, or "" if it is not needed."""
    return " --trust" if any(find_decisions(settings.env.id, settings.env.options)) else ""


def find_decisions(env_id: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings that only a trusted file may contain, as path (``env.options.profile``) and value."""
    if ":" in env_id:  # Gymnasium imports the module before the colon
        yield "env.id", env_id
    for name, value in options.items():
        # False, 0, "" and None switch the option off.
        is_generated = name == "boss" and isinstance(value, str) and _GENERATED.fullmatch(value)
        if (name in _REFUSED and value) or not _is_plain(name) or not (is_generated or _is_plain(value)):
            yield f"env.options.{name}", value


def _is_plain(value: Any) -> bool:
    """Return whether a value consists of numbers, plain words, and lists and tables of those."""
    if isinstance(value, str):
        return not value or any(pattern.fullmatch(value) for pattern in (_WORD, _FUNCTION))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | None)
