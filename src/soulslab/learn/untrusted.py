"""Environments that a file names: what a policy, a run or a study of somebody else may decide, and what not.

A file may name any registered environment, and describe it with numbers and plain words. It may not decide which
programs run, which modules are imported, which servers are connected to, or which processes and files are opened: that
is decided on the command line.
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
"""Options of soulslab's environments that choose a program, a process, a server or a screen."""

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,63}")
"""Text that is neither a path nor ``module:name``."""


def check_named_environment(env_id: str, options: Mapping[str, Any], source: str | Path) -> None:
    """Check that an environment which a file names can be made without trust in the file.

    Args:
        env_id: Gymnasium id; "" if it does not come from the file.
        options: Those options of the environment that come from the file.
        source: The file or folder, for the message.

    Raises:
        UntrustedFileError: The id imports a module, or an option decides what runs.
    """
    for place, value in find_decisions(env_id, options):
        raise UntrustedFileError(place, value, source)


def check_stored_settings(settings: AnySettings, source: str | Path, overrides: Sequence[str] = ()) -> None:
    """Check the environment in the settings of a run that is resumed; see `check_named_environment`.

    Args:
        settings: The settings, with the overrides.
        source: The file that they were read from.
        overrides: Changes on the command line, as ``env.options.profile=game.toml``; these settings are not checked.

    Raises:
        UntrustedFileError: The id imports a module, or an option decides what runs.
    """
    given = read_overrides(overrides, "--set").get("env", {})
    options = {name: value for name, value in settings.env.options.items() if name not in given.get("options", {})}
    check_named_environment("" if "id" in given else settings.env.id, options, source)


def trust_flag(settings: AnySettings) -> str:
    """Return what to append to a command that resumes a run or a study: `` --trust``, or nothing."""
    return " --trust" if any(find_decisions(settings.env.id, settings.env.options)) else ""


def find_decisions(env_id: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what only a trusted file may decide, as its place (``env.options.profile``) and its value."""
    if ":" in env_id:  # Gymnasium imports the module before the colon
        yield "env.id", env_id
    for name, value in options.items():
        # False, 0, "" and None switch the option off.
        if (name in _REFUSED and value) or not _is_plain(name) or not _is_plain(value):
            yield f"env.options.{name}", value


def _is_plain(value: Any) -> bool:
    """Return whether a value consists of numbers, plain words, and lists and tables of them."""
    if isinstance(value, str):
        return not value or _WORD.fullmatch(value) is not None
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float)
