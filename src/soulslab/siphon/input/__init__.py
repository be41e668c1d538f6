"""Keyboard and mouse: one Protocol, one module per backend, one fake; `soulslab.siphon.keys` has the key names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Input(Protocol):
    """What sends keys and mouse to one game. It remembers what it holds and sends only what changes.

    Attributes:
        backend: How it sends: ``xtest``, ``xsendevent``, ``fake``.
    """

    backend: str

    @property
    def held(self) -> frozenset[str]:
        """The keys and mouse buttons that are down now."""
        ...

    def set_held(self, keys: Collection[str], again: Collection[str] = ()) -> None:
        """Hold these and no others: releases first, then presses, each in the order of the names.

        Returns once they are in the game's own queue, so that time that is advanced afterwards sees them.

        Args:
            keys: Physical key names (``W``, ``SPACE``, ``MOUSE_LEFT``).
            again: Those of them that go up first where they are down already, so that the game sees a fresh press.

        Raises:
            UnknownKeyError: No such key; nothing was sent.
            WindowGoneError: The game's window is gone.
            InputError: They cannot be sent.
        """
        ...

    def type(self, keys: Collection[str]) -> None:
        """Press and release keys one after another, at once, without a change of what is held. Raises as `set_held`."""
        ...

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse relative to where it is. Raises as `set_held`."""
        ...

    def close(self) -> None:
        """Release everything that is held and let go; a second call does nothing."""
        ...
