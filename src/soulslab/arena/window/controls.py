"""From keys to what the player does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from soulslab.arena.window.key_table import PANDA_NAMES
from soulslab.arena.window.window import ButtonEvent


class Controls:
    """What the player holds and presses.

    Args:
        keys: Key of each command (`soulslab.arena.window.settings.COMMANDS`), by the names of `soulslab.siphon.keys`.

    Attributes:
        held: Commands that are down.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._commands = {PANDA_NAMES[key]: command for command, key in keys.items()}
        self.held: set[str] = set()

    def take(self, events: Iterable[ButtonEvent]) -> list[str]:
        """Take in events; return the commands that went down, in their order."""
        pressed = []
        for event in events:
            command = self._commands.get(event.name)
            if command is None:
                continue
            if event.is_press:
                self.held.add(command)
                pressed.append(command)
            else:
                self.held.discard(command)
        return pressed
