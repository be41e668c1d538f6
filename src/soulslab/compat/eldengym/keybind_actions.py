"""EldenGym's keybinds: JSON files of version 2 that assign keys to actions.

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
from soulslab.games.elden_ring import Keybind, load_keybinds
from soulslab.siphon.keys import key_of_public_name

KeybindSource: TypeAlias = str | Path | Mapping[str, Any] | None
"""Path of a file, content of a file, or None for EldenGym's default keybinds."""

DEVICES = ("key", "mouse")
VERSION = "2.0"


class _KeybindFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of a file of keybinds."""

    version: str
    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]
    description: str = ""


class KeybindActions:
    """Converts EldenGym's actions into keys.

    Args:
        source: The keybinds.
        actions: Names of the actions, in the order of the bits; None for all, in the order of their indices.
        device: One of `DEVICES`; with ``"mouse"``, an action with a mouse button uses it instead of its key.

    Attributes:
        names: Names of the actions, in the order of the bits.
        keys: Key of each action (`soulslab.siphon.keys`).

    Raises:
        ConfigError: The keybinds are malformed; ``error.path`` is the place of the mistake.
        EnvironmentUsageError: The action or the device does not exist.
    """

    def __init__(self, source: KeybindSource = None, actions: Sequence[str] | None = None, device: str = "key") -> None:
        if device not in DEVICES:
            raise EnvironmentUsageError(f"use_device: unknown kind {device!r}{did_you_mean(str(device), DEVICES)}")
        binds, source_name = read_keybinds(source)
        chosen = _choose_actions(binds, actions)
        self.names = tuple(chosen)
        self.keys = tuple(_find_key(name, bind, device, source_name) for name, bind in chosen.items())

    def held(self, action: Any) -> tuple[str, ...]:
        """Return the keys that an action holds, without duplicates.

        Args:
            action: (A,) bits, one for each action.

        Raises:
            InvalidActionError: The action has another shape or other values.
        """
        try:
            bits = np.asarray(action)
        except ValueError:  # a ragged list
            bits = np.zeros(0, object)
        if bits.shape != (len(self.names),) or bits.dtype.kind not in "biuf" or not ((bits == 0) | (bits == 1)).all():
            raise InvalidActionError(
                f"action {action!r}: must be {len(self.names)} bits of 0 and 1, one for each of {', '.join(self.names)}"
            )
        # Two actions can have the same key.
        return tuple(dict.fromkeys(key for key, bit in zip(self.keys, bits.tolist(), strict=True) if bit))


def read_keybinds(source: KeybindSource = None) -> tuple[dict[str, Keybind], str]:
    """Return the actions in the order of their indices, and the name of their source.

    Raises:
        ConfigError: The keybinds are malformed; ``error.path`` is the place of the mistake.
        EnvironmentUsageError: The source is neither a file nor its content.
    """
    if source is None:
        return dict(load_keybinds()), "keybinds.toml"
    if not isinstance(source, str | Path | Mapping):
        raise EnvironmentUsageError(f"keybinds_filepath must be a path or a table, not {source!r}")
    name = "keybinds" if isinstance(source, Mapping) else str(source)
    data = dict(source) if isinstance(source, Mapping) else _read_json(Path(source))

    def error(problem: str, place: str) -> ConfigError:
        return ConfigError(problem, path=place, source=name)

    if data.get("version") != VERSION:
        problem = f"must be {VERSION!r}, the format with a table of actions, not {data.get('version')!r}"
        raise error(problem, "version")
    actions = sorted(check(data, _KeybindFile, error).actions.items(), key=lambda item: item[1].index)
    for (one, bind), (other, next_bind) in pairwise(actions):
        if bind.index == next_bind.index:
            raise error(f"{one!r} has the same index", f"{join_place('actions', other)}.index")
    return dict(actions), name


def _read_json(path: Path) -> dict[str, Any]:
    fail = partial(ConfigError, source=path)
    data: Any = parse_json(read_text(path, fail), object, fail)
    if not isinstance(data, dict):
        raise ConfigError(f"must be a table of actions, not {type(data).__name__}", source=path)
    return data


def _choose_actions(binds: dict[str, Keybind], actions: Sequence[str] | None) -> dict[str, Keybind]:
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


def _find_key(name: str, bind: Keybind, device: str, source: str) -> str:
    field = "mouse" if device == "mouse" and bind.mouse else "key"
    try:
        return key_of_public_name(getattr(bind, field)).name
    except UnknownKeyError as error:
        raise ConfigError(str(error), path=f"{join_place('actions', name)}.{field}", source=source) from error
