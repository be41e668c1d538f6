"""State of a gamepad with the layout of an Xbox controller, and the names of its controls.

A button or a direction of the directional pad is pressed or not; a trigger has a depth, and a stick two coordinates.
Profiles name controls (`CONTROLS`), where a trigger and a direction of a stick are names as well: ``LEFT_TRIGGER`` is
the trigger at its full depth, ``LEFT_STICK_UP`` the stick at its upper end.

Source: Microsoft, "XINPUT_GAMEPAD structure" (bits of the buttons, ranges of the axes). The bit of the Guide button is
not documented there; it is that of ``XInputGetStateEx``, as in SDL (``SDL_xinput.h``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from soulslab.errors import InputError, did_you_mean

Coordinates: TypeAlias = tuple[Annotated[float, Meta(ge=-1, le=1)], Annotated[float, Meta(ge=-1, le=1)]]
"""Deflection of a stick to the right and upwards, -1 to 1 each."""
Depth: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

BUTTONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "DPAD_UP": 0x0001,
        "DPAD_DOWN": 0x0002,
        "DPAD_LEFT": 0x0004,
        "DPAD_RIGHT": 0x0008,
        "START": 0x0010,
        "BACK": 0x0020,
        "LEFT_STICK": 0x0040,
        "RIGHT_STICK": 0x0080,
        "LEFT_BUMPER": 0x0100,
        "RIGHT_BUMPER": 0x0200,
        "GUIDE": 0x0400,
        "A": 0x1000,
        "B": 0x2000,
        "X": 0x4000,
        "Y": 0x8000,
    }
)
"""Bit of each button by name; ``LEFT_STICK`` and ``RIGHT_STICK`` are presses of the sticks."""

TRIGGERS: Final = ("LEFT_TRIGGER", "RIGHT_TRIGGER")
STICKS: Final = ("LEFT_STICK", "RIGHT_STICK")
_DIRECTIONS: Final = {"UP": (0.0, 1.0), "DOWN": (0.0, -1.0), "LEFT": (-1.0, 0.0), "RIGHT": (1.0, 0.0)}
CONTROLS: Final = (*BUTTONS, *TRIGGERS, *(f"{stick}_{direction}" for stick in STICKS for direction in _DIRECTIONS))
"""Names of all controls: buttons, triggers, and directions of the sticks."""

_STATE = struct.Struct("<HBB4h")
_TRIGGER_MAX, _STICK_MAX = 255, 32767


class Pad(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """State of a gamepad; by default all of it is at rest.

    Attributes:
        buttons: Pressed buttons (`BUTTONS`).
        left_stick: Deflection to the right and upwards, -1 to 1 each.
        right_stick: The same of the right stick.
        left_trigger: Depth, 0 to 1.
        right_trigger: Depth, 0 to 1.

    Raises `InputError` for an unknown button, or a value outside its range.
    """

    buttons: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=64)] = ()
    left_stick: Coordinates = (0.0, 0.0)
    right_stick: Coordinates = (0.0, 0.0)
    left_trigger: Depth = 0.0
    right_trigger: Depth = 0.0

    def __post_init__(self) -> None:
        """Refuse what no gamepad can report."""
        for name in self.buttons:
            if name not in BUTTONS:
                raise InputError(f"a gamepad has no button {name!r}{did_you_mean(name, BUTTONS)}")
        for what, values, least in (
            ("left_stick", self.left_stick, -1.0),
            ("right_stick", self.right_stick, -1.0),
            ("left_trigger", (self.left_trigger,), 0.0),
            ("right_trigger", (self.right_trigger,), 0.0),
        ):
            if not all(least <= value <= 1.0 for value in values):  # also not for NaN
                raise InputError(f"{what} of a gamepad is {getattr(self, what)}; its range is {least:g} to 1")

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is pressed or deflected."""
        return self == Pad()

    def with_controls(self, controls: Collection[str]) -> Pad:
        """Return this state with further controls pressed (`CONTROLS`).

        A stick that is pressed in two directions is at the edge of its circle, as it is on a real pad.
        """
        depths = [1.0 if name in controls else depth for name, depth in zip(TRIGGERS, self._triggers, strict=True)]
        sticks = [_deflect(stick, at, controls) for stick, at in zip(STICKS, self._sticks, strict=True)]
        pressed = dict.fromkeys((*self.buttons, *(name for name in controls if name in BUTTONS)))
        return Pad(
            buttons=tuple(pressed),
            left_stick=sticks[0],
            right_stick=sticks[1],
            left_trigger=depths[0],
            right_trigger=depths[1],
        )

    def to_bytes(self) -> bytes:
        """Return the state as ``XINPUT_GAMEPAD``, 12 bytes."""
        bits = 0
        for name in self.buttons:
            bits |= BUTTONS[name]
        depths = (round(depth * _TRIGGER_MAX) for depth in self._triggers)
        axes = (round(value * _STICK_MAX) for stick in self._sticks for value in stick)
        return _STATE.pack(bits, *depths, *axes)

    @property
    def _triggers(self) -> tuple[float, float]:
        return self.left_trigger, self.right_trigger

    @property
    def _sticks(self) -> tuple[Coordinates, Coordinates]:
        return self.left_stick, self.right_stick


def _deflect(stick: str, at: tuple[float, float], controls: Collection[str]) -> tuple[float, float]:
    """Return the coordinates of a stick with further directions."""
    ways = [way for name, way in _DIRECTIONS.items() if f"{stick}_{name}" in controls]
    right, up = (sum(way[axis] for way in ways) for axis in (0, 1))
    length = math.hypot(right, up) or 1.0
    return _within_range(at[0] + right / length), _within_range(at[1] + up / length)


def _within_range(value: float) -> float:
    return max(-1.0, min(1.0, value))
