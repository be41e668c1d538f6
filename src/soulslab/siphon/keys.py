"""Physical keys and mouse buttons by name, with their codes on each system.

A key is a position on the keyboard, named after the American layout: ``W`` is the second key right of Tab, even where
it types ``Z``. Games bind positions, and every backend sends codes of positions; sending characters breaks on other
layouts.

Sources: evdev codes from Linux ``input-event-codes.h``; XKB names from xkeyboard-config ``keycodes/evdev`` (X keycodes
are looked up by them, see `soulslab.siphon.input.x_input`); scan codes (set 1, make) from Microsoft, "Keyboard Input
Overview", table of scan codes; virtual-key codes from Microsoft, "Virtual-Key Codes"; X buttons from the X protocol and
the convention that 4 and 5 are the wheel, 8 and 9 the side buttons. The names are those of the public Siphon protocol
as far as it has them (`PUBLIC_MOUSE_NAMES` lists the differences).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from soulslab.errors import UnknownKeyError


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the keyboard or a button of the mouse.

    Attributes:
        name: ``W``, ``LEFT_SHIFT``, ``MOUSE_LEFT``.
        evdev_code: Code of the Linux input system.
        xkb_name: XKB name of the key's position, such as ``AD02``; "" for a mouse button.
        scan_code: Scan code of a PC keyboard (set 1); 0xE0xx for extended keys; 0 for a mouse button.
        virtual_key: Windows virtual-key code on an American layout; it differs on other layouts, the scan code does
            not.
        button: Button of the X protocol; 0 for a key of the keyboard.
    """

    name: str
    evdev_code: int
    xkb_name: str = ""
    scan_code: int = 0
    virtual_key: int = 0
    button: int = 0

    @property
    def is_mouse(self) -> bool:
        """Whether it is a button or the wheel of the mouse."""
        return self.button > 0


# Name, evdev code, XKB name, scan code, virtual key; the letters and digits are rows of the keyboard, see below.
_TABLE: Final = (
    ("ESC", 1, "ESC", 0x01, 0x1B),
    ("MINUS", 12, "AE11", 0x0C, 0xBD),
    ("EQUALS", 13, "AE12", 0x0D, 0xBB),
    ("BACKSPACE", 14, "BKSP", 0x0E, 0x08),
    ("TAB", 15, "TAB", 0x0F, 0x09),
    ("LEFT_BRACKET", 26, "AD11", 0x1A, 0xDB),
    ("RIGHT_BRACKET", 27, "AD12", 0x1B, 0xDD),
    ("ENTER", 28, "RTRN", 0x1C, 0x0D),
    ("LEFT_CTRL", 29, "LCTL", 0x1D, 0xA2),
    ("SEMICOLON", 39, "AC10", 0x27, 0xBA),
    ("APOSTROPHE", 40, "AC11", 0x28, 0xDE),
    ("GRAVE", 41, "TLDE", 0x29, 0xC0),
    ("LEFT_SHIFT", 42, "LFSH", 0x2A, 0xA0),
    ("BACKSLASH", 43, "BKSL", 0x2B, 0xDC),
    ("COMMA", 51, "AB08", 0x33, 0xBC),
    ("PERIOD", 52, "AB09", 0x34, 0xBE),
    ("SLASH", 53, "AB10", 0x35, 0xBF),
    ("RIGHT_SHIFT", 54, "RTSH", 0x36, 0xA1),
    ("KEYPAD_MULTIPLY", 55, "KPMU", 0x37, 0x6A),
    ("LEFT_ALT", 56, "LALT", 0x38, 0xA4),
    ("SPACE", 57, "SPCE", 0x39, 0x20),
    ("CAPSLOCK", 58, "CAPS", 0x3A, 0x14),
    ("NUMLOCK", 69, "NMLK", 0x45, 0x90),
    ("SCROLLLOCK", 70, "SCLK", 0x46, 0x91),
    ("KEYPAD_7", 71, "KP7", 0x47, 0x67),
    ("KEYPAD_8", 72, "KP8", 0x48, 0x68),
    ("KEYPAD_9", 73, "KP9", 0x49, 0x69),
    ("KEYPAD_MINUS", 74, "KPSU", 0x4A, 0x6D),
    ("KEYPAD_4", 75, "KP4", 0x4B, 0x64),
    ("KEYPAD_5", 76, "KP5", 0x4C, 0x65),
    ("KEYPAD_6", 77, "KP6", 0x4D, 0x66),
    ("KEYPAD_PLUS", 78, "KPAD", 0x4E, 0x6B),
    ("KEYPAD_1", 79, "KP1", 0x4F, 0x61),
    ("KEYPAD_2", 80, "KP2", 0x50, 0x62),
    ("KEYPAD_3", 81, "KP3", 0x51, 0x63),
    ("KEYPAD_0", 82, "KP0", 0x52, 0x60),
    ("KEYPAD_PERIOD", 83, "KPDL", 0x53, 0x6E),
    ("ANGLE_BRACKET", 86, "LSGT", 0x56, 0xE2),  # left of Z, on European keyboards only
    ("F11", 87, "FK11", 0x57, 0x7A),
    ("F12", 88, "FK12", 0x58, 0x7B),
    ("KEYPAD_ENTER", 96, "KPEN", 0xE01C, 0x0D),
    ("RIGHT_CTRL", 97, "RCTL", 0xE01D, 0xA3),
    ("KEYPAD_DIVIDE", 98, "KPDV", 0xE035, 0x6F),
    ("PRINT_SCREEN", 99, "PRSC", 0xE037, 0x2C),
    ("RIGHT_ALT", 100, "RALT", 0xE038, 0xA5),
    ("HOME", 102, "HOME", 0xE047, 0x24),
    ("UP_ARROW", 103, "UP", 0xE048, 0x26),
    ("PAGE_UP", 104, "PGUP", 0xE049, 0x21),
    ("LEFT_ARROW", 105, "LEFT", 0xE04B, 0x25),
    ("RIGHT_ARROW", 106, "RGHT", 0xE04D, 0x27),
    ("END", 107, "END", 0xE04F, 0x23),
    ("DOWN_ARROW", 108, "DOWN", 0xE050, 0x28),
    ("PAGE_DOWN", 109, "PGDN", 0xE051, 0x22),
    ("INSERT", 110, "INS", 0xE052, 0x2D),
    ("DELETE", 111, "DELE", 0xE053, 0x2E),
    ("PAUSE", 119, "PAUS", 0xE11D, 0x13),
    ("LEFT_SUPER", 125, "LWIN", 0xE05B, 0x5B),
    ("RIGHT_SUPER", 126, "RWIN", 0xE05C, 0x5C),
    ("MENU", 127, "COMP", 0xE05D, 0x5D),
)

# Keys, evdev code of the first, XKB row: one row of the keyboard has consecutive codes in evdev, XKB and set 1, and up
# to F10 the evdev code is the scan code.
_ROWS: Final = (("1234567890", 2, "AE"), ("QWERTYUIOP", 16, "AD"), ("ASDFGHJKL", 30, "AC"), ("ZXCVBNM", 44, "AB"))

# Name, evdev code, X button, virtual key (the wheel has none).
_MOUSE: Final = (
    ("MOUSE_LEFT", 0x110, 1, 0x01),
    ("MOUSE_RIGHT", 0x111, 3, 0x02),
    ("MOUSE_MIDDLE", 0x112, 2, 0x04),
    ("MOUSE_4", 0x113, 8, 0x05),
    ("MOUSE_5", 0x114, 9, 0x06),
)
# The wheel is an axis in evdev (REL_WHEEL, 0x08); in X a notch is a click of a button.
_WHEEL: Final = (("MOUSE_WHEEL_UP", 4), ("MOUSE_WHEEL_DOWN", 5))


def _all_keys() -> Iterator[Key]:
    for name, code, xkb_name, scan_code, virtual_key in _TABLE:
        yield Key(name=name, evdev_code=code, xkb_name=xkb_name, scan_code=scan_code, virtual_key=virtual_key)
    for letters, first, row in _ROWS:
        for i, letter in enumerate(letters):
            code = first + i
            yield Key(
                name=letter, evdev_code=code, xkb_name=f"{row}{i + 1:02}", scan_code=code, virtual_key=ord(letter)
            )
    for i in range(10):  # F1 to F10
        yield Key(
            name=f"F{i + 1}", evdev_code=59 + i, xkb_name=f"FK{i + 1:02}", scan_code=0x3B + i, virtual_key=0x70 + i
        )
    for name, code, button, virtual_key in _MOUSE:
        yield Key(name=name, evdev_code=code, button=button, virtual_key=virtual_key)
    for name, button in _WHEEL:
        yield Key(name=name, evdev_code=0x08, button=button)


KEYS: Final[Mapping[str, Key]] = MappingProxyType({key.name: key for key in _all_keys()})
"""All keys and mouse buttons, by name."""

PUBLIC_MOUSE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "LEFT": "MOUSE_LEFT",
        "RIGHT": "MOUSE_RIGHT",
        "MIDDLE": "MOUSE_MIDDLE",
        "BUTTON4": "MOUSE_4",
        "BUTTON5": "MOUSE_5",
    }
)
"""Names of the mouse buttons in the public Siphon protocol; no key has one of these names."""


def key_named(name: str) -> Key:
    """Return the key with a name of `KEYS`. Raises `UnknownKeyError`, which suggests a similar name."""
    key = KEYS.get(name)
    if key is None:
        raise UnknownKeyError(name, KEYS)
    return key


def key_of_public_name(name: str) -> Key:
    """Return the key with a name of the public Siphon protocol. Raises `UnknownKeyError`."""
    return key_named(PUBLIC_MOUSE_NAMES.get(name, name))
