"""The table of keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soulslab.errors import UnknownKeyError
from soulslab.siphon.input.x_input import match_keycodes
from soulslab.siphon.keys import KEYS, PUBLIC_MOUSE_NAMES, key_named, key_of_public_name

HEADER = Path("/usr/include/linux/input-event-codes.h")
# Our names where the header's are others.
HEADER_NAMES = {
    "EQUALS": "EQUAL",
    "LEFT_BRACKET": "LEFTBRACE",
    "RIGHT_BRACKET": "RIGHTBRACE",
    "PERIOD": "DOT",
    "ANGLE_BRACKET": "102ND",
    "PRINT_SCREEN": "SYSRQ",
    "LEFT_SUPER": "LEFTMETA",
    "RIGHT_SUPER": "RIGHTMETA",
    "MENU": "COMPOSE",
    "KEYPAD_MULTIPLY": "KPASTERISK",
    "KEYPAD_DIVIDE": "KPSLASH",
    "KEYPAD_PERIOD": "KPDOT",
}
PUBLIC_NAMES = """
LEFT_SHIFT RIGHT_SHIFT LEFT_CTRL LEFT_ALT ESC ENTER SPACE TAB BACKSPACE CAPSLOCK NUMLOCK SCROLLLOCK MINUS EQUALS
LEFT_BRACKET RIGHT_BRACKET SEMICOLON APOSTROPHE GRAVE BACKSLASH COMMA PERIOD SLASH UP_ARROW DOWN_ARROW LEFT_ARROW
RIGHT_ARROW LEFT RIGHT MIDDLE BUTTON4 BUTTON5
"""


def public_names():
    yield from PUBLIC_NAMES.split()
    yield from "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    yield from (f"F{i}" for i in range(1, 13))
    yield from (f"KEYPAD_{i}" for i in range(10))


def header_name(key):
    name = HEADER_NAMES.get(key.name) or key.name.removesuffix("_ARROW").replace("KEYPAD_", "KP").replace("_", "")
    return f"KEY_{name}"


@pytest.mark.parametrize("name", [*public_names()])
def test_every_name_of_the_public_protocol_is_a_key(name):
    assert key_of_public_name(name).name == PUBLIC_MOUSE_NAMES.get(name, name)


@pytest.mark.parametrize("name", [*PUBLIC_MOUSE_NAMES])
def test_public_names_of_buttons_differ_from_key_names(name):
    assert name not in KEYS


def test_codes_are_unique():
    keys = [key for key in KEYS.values() if not key.is_mouse]
    for field in ("evdev_code", "xkb_name", "scan_code"):
        values = [getattr(key, field) for key in keys]
        assert len(set(values)) == len(values), field
        assert all(values), field
    buttons = [key.button for key in KEYS.values() if key.is_mouse]
    assert len(set(buttons)) == len(buttons)


def test_plain_keys_have_the_same_code_in_evdev_and_on_the_wire():
    """The kernel's key numbers follow scan code set 1; later keys have a prefix there."""
    for key in KEYS.values():
        if not key.is_mouse and key.evdev_code <= 88:
            assert key.scan_code == key.evdev_code, key.name
        elif not key.is_mouse:
            assert key.scan_code >> 8 in (0xE0, 0xE1), key.name


@pytest.mark.parametrize("key", [*KEYS.values()], ids=lambda key: key.name)
def test_evdev_codes_equal_those_of_the_kernel(key):
    names = {
        name: int(value, 0)
        for name, value in re.findall(
            r"^#define ((?:KEY|BTN)_\w+)\s+(0x[0-9a-f]+|\d+)", HEADER.read_text(), re.MULTILINE
        )
    }
    button_names = {
        "MOUSE_LEFT": "BTN_LEFT",
        "MOUSE_RIGHT": "BTN_RIGHT",
        "MOUSE_MIDDLE": "BTN_MIDDLE",
        "MOUSE_4": "BTN_SIDE",
        "MOUSE_5": "BTN_EXTRA",
    }
    if "WHEEL" in key.name:
        assert "REL_WHEEL\t\t0x08" in HEADER.read_text()
    else:
        assert names[button_names.get(key.name) or header_name(key)] == key.evdev_code


def test_an_unknown_name_suggests_a_close_one():
    with pytest.raises(UnknownKeyError, match="did you mean 'LEFT_SHIFT'") as caught:
        key_named("LEFT_SHIF")
    assert caught.value.name == "LEFT_SHIF"
    with pytest.raises(UnknownKeyError):
        key_named("w")


def test_keycodes_are_found_by_key_names():
    assert match_keycodes({"AD02": 7, "SPCE": 99}, {}) == {"W": 7, "SPACE": 99}


def test_other_names_of_a_place_count_too():
    assert match_keycodes({"LMTA": 5, "LatW": 6}, {"LMTA": "LWIN", "LatW": "AD02"}) == {"LEFT_SUPER": 5, "W": 6}
    assert match_keycodes({"AD02": 6}, {"LatW": "AD02"}) == {"W": 6}
