"""EldenGym's keybinds: its JSON files of version 2, which actions of them are played, and with which keys.

::

    {"version": "2.0", "actions": {"attack": {"index": 8, "key": "P", "mouse": "LEFT"}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from soulslab.config.checking import check, join_place
from soulslab.config.input_files import parse_json, read_text
from soulslab.errors import ConfigError, EnvironmentUsageError, InvalidActionError, UnknownKeyError, did_you_mean
from soulslab.games.elden_ring.keybinds import Keybind, load_keybinds
from soulslab.siphon.keys import key_of_public_name

Given: TypeAlias = str | Path | Mapping[str, Any] | None
"""A file, its content, or None for EldenGym's own."""

DEVICES = ("key", "mouse")
VERSION = "2.0"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of keybinds."""

    version: str
    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]
    description: str = ""


class Keyboard:
    """From EldenGym's actions to the keys that are held.

    Args:
        given: The keybinds.
        actions: Names of the actions that are played, in this order; None for all, in the order of their indices.
        device: One of `DEVICES`; with ``"mouse"`` an action that has a button of the mouse is done with it.

    Attributes:
        names: Of the actions, in the order of the bits.
        keys: Key of each (`soulslab.siphon.keys`).

    Raises:
        ConfigError: The keybinds are malformed; ``error.path`` says where.
        EnvironmentUsageError: There is no such action or device.
    """

    def __init__(self, given: Given = None, actions: Sequence[str] | None = None, device: str = "key") -> None:
        if device not in DEVICES:
            raise EnvironmentUsageError(f"use_device: unknown kind {device!r}{did_you_mean(str(device), DEVICES)}")
        binds, source = read_keybinds(given)
        chosen = _chosen(binds, actions)
        self.names = tuple(chosen)
        self.keys = tuple(_key(name, bind, device, source) for name, bind in chosen.items())

    def held(self, action: Any) -> tuple[str, ...]:
        """Return the keys that are down, for a bit per action.

        Raises:
            InvalidActionError: It is not so many bits.
        """
        try:
            bits = np.asarray(action)
        except ValueError:  # a ragged list
            bits = np.zeros(0, object)
        if bits.shape != (len(self.names),) or bits.dtype.kind not in "biuf" or not ((bits == 0) | (bits == 1)).all():
            raise InvalidActionError(
                f"action {action!r}: must be {len(self.names)} bits of 0 and 1, one for each of {', '.join(self.names)}"
            )
        # Two actions may share a key.
        return tuple(dict.fromkeys(key for key, bit in zip(self.keys, bits.tolist(), strict=True) if bit))


def read_keybinds(given: Given = None) -> tuple[dict[str, Keybind], str]:
    """Return the actions in the order of their indices, and where they come from.

    Raises:
        ConfigError: They are malformed; ``error.path`` says where.
        EnvironmentUsageError: They are neither a file nor its content.
    """
    if given is None:
        return dict(load_keybinds()), "keybinds.toml"
    if not isinstance(given, str | Path | Mapping):
        raise EnvironmentUsageError(f"keybinds_filepath must be a path or a table, not {given!r}")
    source = "keybinds" if isinstance(given, Mapping) else str(given)
    data = dict(given) if isinstance(given, Mapping) else _read_json(Path(given))

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=source)

    if data.get("version") != VERSION:
        problem = f"must be {VERSION!r}, the format with a table of actions, not {data.get('version')!r}"
        raise error(problem, "version")
    actions = sorted(check(data, _File, error).actions.items(), key=lambda item: item[1].index)
    for (one, bind), (other, next_bind) in pairwise(actions):
        if bind.index == next_bind.index:
            raise error(f"{one!r} has it, too", f"{join_place('actions', other)}.index")
    return dict(actions), source


def _read_json(path: Path) -> dict[str, Any]:
    fail = partial(ConfigError, source=path)
    data: Any = parse_json(read_text(path, fail), object, fail)
    if not isinstance(data, dict):
        raise ConfigError(f"must be a table with the actions, not {type(data).__name__}", source=path)
    return data


def _chosen(binds: dict[str, Keybind], actions: Sequence[str] | None) -> dict[str, Keybind]:
    if actions is None:
        return binds
    if isinstance(actions, str) or not isinstance(actions, Sequence) or not actions:
        raise EnvironmentUsageError(f"actions must be a list of names, such as {list(binds)[:3]}, not {actions!r}")
    for name in actions:
        if name not in binds:
            raise EnvironmentUsageError(f"actions: unknown action {name!r}{did_you_mean(str(name), binds)}")
    if len(set(actions)) < len(actions):
        raise EnvironmentUsageError(f"actions: each name only once, not {list(actions)}")
    return {name: binds[name] for name in actions}


def _key(name: str, bind: Keybind, device: str, source: str) -> str:
    field = "mouse" if device == "mouse" and bind.mouse else "key"
    try:
        return key_of_public_name(getattr(bind, field)).name
    except UnknownKeyError as error:
        raise ConfigError(str(error), path=f"{join_place('actions', name)}.{field}", source=source) from error
