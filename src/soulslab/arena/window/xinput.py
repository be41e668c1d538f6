"""The first pad of XInput on Windows, for windows in which panda3d finds no pad.

panda3d uses XInput only for pads that are raw input devices, too (``winInputDeviceManager.cxx``). The pad that a
session connects to a game is none. Source: Microsoft, "XInputGetState function", "XINPUT_GAMEPAD structure".
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import wintypes
from typing import Final

from soulslab.arena.window.controls import ButtonEvent, PadState
from soulslab.arena.window.settings import PAD_PREFIX, PANDA_CONTROLS
from soulslab.siphon.pad import BUTTONS
from soulslab.siphon.win32 import function

#: Packet number, buttons, left and right trigger, and the axes of the left and the right stick.
_STATE: Final = struct.Struct("<IHBB4h")
_TRIGGER_MAX, _STICK_MAX = 255, 32767
#: Polls between two queries while no pad is connected: Windows then searches for one, which takes long.
_N_POLLS: Final = 120


class XInputPad:
    """The pad number 0."""

    def __init__(self) -> None:
        self._get_state = function("xinput1_4", "XInputGetState", wintypes.DWORD, wintypes.DWORD, ctypes.c_void_p)
        self._buttons = 0
        self._n_polls_left = 0

    def poll(self) -> tuple[list[ButtonEvent], list[PadState]]:
        """Return the presses and releases since the last call, and the position of the pad, if one is connected."""
        if self._n_polls_left:
            self._n_polls_left -= 1
            return [], []
        state = ctypes.create_string_buffer(_STATE.size)
        if self._get_state(0, state) != 0:
            self._n_polls_left = _N_POLLS
            return self._change_buttons(0), []
        _, buttons, left_trigger, right_trigger, right, forward, _, _ = _STATE.unpack(state.raw)
        position = PadState(
            right=right / _STICK_MAX,
            forward=forward / _STICK_MAX,
            left_trigger=left_trigger / _TRIGGER_MAX,
            right_trigger=right_trigger / _TRIGGER_MAX,
        )
        return self._change_buttons(buttons), [position]

    def _change_buttons(self, buttons: int) -> list[ButtonEvent]:
        changed, self._buttons = self._buttons ^ buttons, buttons
        return [
            ButtonEvent(PAD_PREFIX + PANDA_CONTROLS[name], is_press=bool(buttons & bit))
            for name, bit in BUTTONS.items()
            if changed & bit
        ]
