"""EldenGym's actions and their keys: the places of its ``MultiBinary(13)``."""

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
    """How an action is done.

    Attributes:
        index: Its place among the actions.
        key: Its key (`soulslab.siphon.keys`).
        mouse: Its button of the mouse, as EldenGym names it; "" for none.
    """

    index: Annotated[int, Meta(ge=0, le=63)]
    key: Text
    mouse: str = ""


class Keybinds(FactFile, frozen=True, kw_only=True):
    """The file ``keybinds.toml``.

    Attributes:
        actions: By their names.
    """

    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]


def load_keybinds(path: Path = PATH) -> Mapping[str, Keybind]:
    """Return the actions in the order of their places.

    Raises:
        ConfigError: The file is malformed, or the places are not 0, 1, 2 and so on.
    """
    actions = sorted(read_facts(path, Keybinds).actions.items(), key=lambda item: item[1].index)
    if [action.index for _, action in actions] != list(range(len(actions))):
        raise ConfigError("must count from 0 without a gap", path="actions.*.index", source=path)
    return dict(actions)
