"""Which keycode of an X server is which key: asked of the server, because tables of keycodes differ.

The server knows the places of its keys by XKB names (``AD02`` is where an American keyboard has W), whatever the
layout types there. Servers with Linux input number them evdev code + 8, and so does Xvfb; others (XQuartz, old
VNC servers) do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xcffib.xkb

from soulslab.errors import DisplayError
from soulslab.siphon.keys import KEYS
from soulslab.siphon.process.x11 import XConnection

_CORE_KEYBOARD = 0x100  # XkbUseCoreKbd


def read_keycodes(x: XConnection) -> dict[str, int]:
    """Ask the server for its keycodes.

    Args:
        x: The connection.

    Returns:
        Keycode of each key of `soulslab.siphon.keys.KEYS` that the server has, by our name.

    Raises:
        DisplayError: The connection is broken, or the server has no XKB.
    """
    xkb = x.extension(xcffib.xkb.key)
    with x.using("ask for the names of the keys"):
        if not xkb.UseExtension(1, 0).reply().supported:
            raise DisplayError(f"X display {x.display} has no XKB 1.0, so its keys cannot be told apart")
        which = xcffib.xkb.NameDetail.KeyNames | xcffib.xkb.NameDetail.KeyAliases
        reply = xkb.GetNames(_CORE_KEYBOARD, which).reply()
    names = [_text(item.name) for item in reply.keyNames]
    aliases = {_text(item.alias): _text(item.real) for item in reply.keyAliases}
    return match_keycodes({name: reply.firstKey + i for i, name in enumerate(names) if name}, aliases)


def match_keycodes(codes: Mapping[str, int], aliases: Mapping[str, str]) -> dict[str, int]:
    """Return the keycode of each of our keys that is there.

    Args:
        codes: Keycodes by XKB name.
        aliases: Other names of the same places: ``MENU`` for ``COMP`` (or the other way round).
    """
    codes = dict(codes)
    for alias, real in aliases.items():
        if real in codes:
            codes.setdefault(alias, codes[real])
        elif alias in codes:
            codes[real] = codes[alias]
    return {key.name: codes[key.xkb_name] for key in KEYS.values() if key.xkb_name in codes}


def _text(characters: Iterable[bytes]) -> str:
    """Return a name of XKB: four characters, filled up with zeros."""
    return b"".join(characters).rstrip(b"\0").decode("latin-1")
