"""Conversion of key, mouse and pad events to commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from soulslab.arena.live_fight import DIRECTIONS
from soulslab.arena.window.gamepad import PAD_BUTTONS, PAD_PREFIX, PadState, Stick
from soulslab.arena.window.key_table import PANDA_NAMES
from soulslab.arena.window.panda_window import ButtonEvent


class Controls:
    """The commands that the player holds and presses.

    Args:
        keys: Key of each command (`soulslab.arena.window.settings.COMMANDS`), with the names of
            `soulslab.siphon.keys`.
        pad: Command of each pad button, with panda3d's names.
    """

    def __init__(self, keys: Mapping[str, str], pad: Mapping[str, str] = PAD_BUTTONS) -> None:
        self._commands = {PANDA_NAMES[key]: command for command, key in keys.items()}
        self._commands |= {PAD_PREFIX + button: command for button, command in pad.items()}
        # Inputs that are down, by their own names: a key and a pad button may hold the same command.
        self._down: set[str] = set()
        self._sticks: list[Stick] = []
        self._tapped: set[str] = set()
        self._triggers: set[str] = set()

    @property
    def held(self) -> set[str]:
        """Commands that are down, and directions that were tapped since `next_tick`."""
        down = {self._commands[name] for name in self._down}
        return down.union(self._tapped, *(stick.held for stick in self._sticks))

    def process_events(self, events: Iterable[ButtonEvent]) -> list[str]:
        """Process events; return the commands that were pressed, in order."""
        pressed = []
        for event in events:
            command = self._commands.get(event.name)
            if command is None:
                continue
            if not event.is_press:
                self._down.discard(event.name)
            elif event.name not in self._down:  # otherwise it is a key repeat
                self._down.add(event.name)
                pressed.append(command)
        self._tapped.update(command for command in pressed if command in DIRECTIONS)
        return pressed

    def process_pads(self, pads: Sequence[PadState]) -> list[str]:
        """Process the positions of sticks and triggers; return the commands of triggers that were pressed."""
        while len(self._sticks) < len(pads):
            self._sticks.append(Stick())
        del self._sticks[len(pads) :]
        triggers: dict[str, bool] = {}
        for stick, pad in zip(self._sticks, pads, strict=True):
            stick.move(pad.right, pad.forward)
            for name, is_down in pad.triggers.items():
                triggers[name] = triggers.get(name, False) or is_down
        changed = {name for name, is_down in triggers.items() if is_down != (name in self._triggers)}
        self._triggers ^= changed
        return self.process_events(
            [ButtonEvent(PAD_PREFIX + name, is_press=triggers[name]) for name in sorted(changed)]
        )

    def next_tick(self) -> None:
        """Clear the taps: buttons that were pressed and released between two ticks have had their tick."""
        self._tapped.clear()

    def release_all(self) -> None:
        """Release everything, because the window has lost the keyboard focus and receives no release events."""
        self._down.clear()
        self._triggers.clear()
        self._sticks.clear()
        self._tapped.clear()
