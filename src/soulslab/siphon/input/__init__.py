"""Keyboard, mouse and gamepad: one Protocol, one module per backend, one fake.

`soulslab.siphon.keys` has the names of the keys, `soulslab.siphon.pad` those of the controls of a gamepad.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from soulslab.siphon.pad import Pad


class Input(Protocol):
    """Sends keys, mouse and gamepad to one game; it keeps track of the held keys and sends only changes.

    `backend` is ``xtest``, ``xsendevent``, ``sendinput`` (Windows), ``pad`` or ``fake``.
    """

    backend: str

    @property
    def held(self) -> frozenset[str]:
        """Keys and mouse buttons that are held now."""

    def set_held(self, keys: Collection[str], again: Collection[str] = ()) -> None:
        """Hold exactly these keys: releases first, then presses, each in the order of the names.

        Returns once the events are in the game's own queue, so that the game sees them when time is advanced next.

        Args:
            keys: Physical key names (``W``, ``SPACE``, ``MOUSE_LEFT``).
            again: Keys of `keys` that are released first if they are held already, so that the game sees a new press.

        Raises:
            UnknownKeyError: The key does not exist; nothing was sent.
            WindowGoneError: The game's window is closed.
            InputError: The events cannot be sent.
        """

    def type(self, keys: Collection[str]) -> None:
        """Press and release keys one after another, without changing the held keys. Raises as `set_held`."""

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse relative to its position. Raises as `set_held`."""

    def set_pad(self, pad: Pad) -> None:
        """Set the state of the gamepad; keys that are held through it (backend ``pad``) are added.

        Returns once the game can read the state. Every session accepts a pad at rest.

        Raises `InputError` if the session has no gamepad.
        """

    def close(self) -> None:
        """Release all held keys and the gamepad, and close the backend; a second call does nothing."""
