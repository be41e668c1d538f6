"""EldenGym's actions, their keys, and their indices in its ``MultiBinary(13)`` action space."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.errors import ConfigError
from soulslab.games.facts import FactFile, Text, read_facts

PATH = Path(__file__).parent / "keybinds.toml"


class Keybind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Input of an action.

    Attributes:
        index: Index in the action space.
        key: Key of the action (`soulslab.siphon.keys`).
        mouse: Mouse button in EldenGym's notation; "" if the action has none.
    """

    index: Annotated[int, Meta(ge=0, le=63)]
    key: Text
    mouse: str = ""


class Keybinds(FactFile, frozen=True, kw_only=True):
    """The file ``keybinds.toml``.

    Attributes:
        actions: Actions by name.
    """

    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]


def load_keybinds(path: Path = PATH) -> Mapping[str, Keybind]:
    """Return the actions by name, ordered by index.

    Raises:
        ConfigError: The file is malformed, or the indices are not consecutive from 0.
    """
    actions = sorted(read_facts(path, Keybinds).actions.items(), key=lambda item: item[1].index)
    if [action.index for _, action in actions] != list(range(len(actions))):
        raise ConfigError("must be consecutive numbers from 0", path="actions.*.index", source=path)
    return dict(actions)
