"""Conversion of key, mouse and pad events to commands.

The names are panda3d's, which name pad buttons by position: ``face_a`` is the lower one on pads of every manufacturer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from soulslab.arena.live_fight import DIRECTIONS
from soulslab.arena.vocabulary import ACTIONS, N_DIRECTIONS
from soulslab.arena.window.settings import PAD_BUTTONS, PAD_PREFIX, PANDA_NAMES

#: A trigger counts as pressed from this position on.
TRIGGER_DOWN: Final = 0.5

#: Deflections below this count as rest, because a worn stick does not return to 0.
DEAD_ZONE: Final = 0.35
#: A held direction is released only beyond this margin, so that it does not flicker at the edge of a sector.
_HOLD_RAD: Final = math.radians(6.0)
_SECTOR_RAD: Final = math.pi / 4
#: The sectors, clockwise from forward.
_SECTORS: Final = tuple(frozenset(keys) for keys in ACTIONS[:N_DIRECTIONS])


class ButtonEvent(msgspec.Struct, frozen=True):
    """Press or release of a key, mouse button or pad button, with panda3d's name; keys are named by position."""

    name: str
    is_press: bool


class PadState(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of the axes of a pad: the left stick, -1 to 1, and both triggers, 0 to 1."""

    right: float = 0.0
    forward: float = 0.0
    left_trigger: float = 0.0
    right_trigger: float = 0.0


class Stick:
    """Conversion of a stick to the four directions of a keyboard: eight sectors and a dead zone."""

    def __init__(self) -> None:
        self.held: frozenset[str] = frozenset()

    def move(self, right: float, forward: float) -> frozenset[str]:
        """Set the position of the stick, -1 to 1 each; return the directions that are held."""
        if math.hypot(right, forward) < DEAD_ZONE:
            self.held = frozenset()
            return self.held
        angle = math.atan2(right, forward)
        if self.held:
            middle = _SECTORS.index(self.held) * _SECTOR_RAD
            if abs(math.remainder(angle - middle, math.tau)) <= _SECTOR_RAD / 2 + _HOLD_RAD:
                return self.held
        self.held = _SECTORS[round(angle / _SECTOR_RAD) % len(_SECTORS)]
        return self.held


class Controls:
    """The commands that the player holds and presses, given the key and the pad button of each command."""

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
        is_any_gone = len(pads) < len(self._sticks)
        while len(self._sticks) < len(pads):
            self._sticks.append(Stick())
        del self._sticks[len(pads) :]
        down: set[str] = set()  # many pads report triggers as axes and not as buttons
        for stick, pad in zip(self._sticks, pads, strict=True):
            stick.move(pad.right, pad.forward)
            depths = (("ltrigger", pad.left_trigger), ("rtrigger", pad.right_trigger))
            down.update(name for name, depth in depths if depth >= TRIGGER_DOWN)
        if is_any_gone:
            self._release_pads(down)
        changed = down ^ self._triggers
        self._triggers ^= changed
        return self.process_events([ButtonEvent(PAD_PREFIX + name, is_press=name in down) for name in sorted(changed)])

    def _release_pads(self, triggers: set[str]) -> None:
        """Release the buttons of all pads, except for ``triggers``: a pad that disappears sends no release events.

        Events do not tell the pads apart, so the buttons of the other pads have to be pressed again.
        """
        kept = {PAD_PREFIX + name for name in triggers}
        self._down = {name for name in self._down if name in kept or not name.startswith(PAD_PREFIX)}
        self._triggers &= triggers

    def next_tick(self) -> None:
        """Clear the taps: buttons that were pressed and released between two ticks have had their tick."""
        self._tapped.clear()

    def release_all(self) -> None:
        """Release everything, because the window has lost the keyboard focus and receives no release events."""
        self._down.clear()
        self._triggers.clear()
        self._sticks.clear()
        self._tapped.clear()
