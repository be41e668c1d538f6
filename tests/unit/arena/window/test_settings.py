"""The key table: all keys that panda3d supports, and errors for all others."""

import pytest
from panda3d.core import ButtonRegistry

from soulslab.arena.window.settings import (
    BUTTON_NAMES,
    COMMANDS,
    KEYS,
    PAD_BUTTONS,
    PANDA_NAMES,
    WindowSettings,
    key_names,
    pad_names,
    pad_of_profile,
    read_keys,
)
from soulslab.errors import ConfigError
from soulslab.games.facts import GAMES
from soulslab.siphon import keys as siphon
from soulslab.siphon.pad import BUTTONS, TRIGGERS
from soulslab.siphon.profile import load_profile


def test_every_key_but_the_keypad_has_a_name():
    assert set(siphon.KEYS) - set(PANDA_NAMES) == {name for name in siphon.KEYS if name.startswith("KEYPAD_")}


def test_panda_knows_each_name_and_none_is_used_twice():
    registry = ButtonRegistry.ptr()
    assert [name for name in PANDA_NAMES.values() if str(registry.findButton(name)) == "none"] == []
    assert len(set(PANDA_NAMES.values())) == len(PANDA_NAMES)


def test_every_command_has_a_different_key():
    assert set(KEYS) == set(COMMANDS)
    assert key_names(KEYS, {}, "") == KEYS
    assert WindowSettings().keys == KEYS


def test_keys_can_be_given_to_others():
    changed = key_names(KEYS, {"roll": "LEFT_SHIFT", "forward": "UP_ARROW"}, "--key")
    assert (changed["roll"], changed["forward"], changed["left"]) == ("LEFT_SHIFT", "UP_ARROW", "A")


def test_two_commands_may_swap_their_keys():
    assert key_names(KEYS, {"roll": "W", "forward": "SPACE"}, "--key")["roll"] == "W"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rol": "SPACE"}, "no such action; did you mean 'roll'"),
        ({"roll": "SHIFT"}, "no key 'SHIFT'; did you mean 'LEFT_SHIFT'"),
        ({"roll": "KEYPAD_0"}, "no key 'KEYPAD_0'"),
        ({"roll": "W"}, "W is already the key of forward"),
    ],
)
def test_invalid_keys_are_reported(changes, said):
    with pytest.raises(ConfigError, match=said):
        key_names(KEYS, changes, "keys.toml")


def test_keys_are_read_from_a_file(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text('roll = "LEFT_SHIFT"\n[pad]\nroll = "face_a"\n')
    assert read_keys(file) == ({"roll": "LEFT_SHIFT"}, {"roll": "face_a"})


def test_the_controls_of_a_profile_replace_the_default_buttons():
    assert pad_of_profile({}) == PAD_BUTTONS
    own = pad_of_profile({"roll": "A", "parry": "LEFT_BUMPER", "forward": "LEFT_STICK_UP", "jump": "X"})
    assert (own["face_a"], own["lshoulder"]) == ("roll", "parry")
    assert not {"face_b", "ltrigger", "face_x"} & own.keys()
    assert own["dpad_up"] == "forward"
    assert {pad_of_profile({"restart": name}).keys() <= set(BUTTON_NAMES) for name in (*BUTTONS, *TRIGGERS)} == {True}


@pytest.mark.parametrize("game", ["arena", "dark_souls_3", "elden_ring"])
def test_the_games_have_the_default_buttons(game):
    assert pad_of_profile(load_profile(GAMES / game / "profile.toml").pad) == PAD_BUTTONS


def test_pad_buttons_can_be_given_to_others():
    changed = pad_names(PAD_BUTTONS, {"roll": "face_a"}, "keys.toml")
    assert changed["face_a"] == "roll"
    assert "face_b" not in changed
    with pytest.raises(ConfigError, match=r"pad\.roll: start is already the pad button of pause|pause.*start"):
        pad_names(PAD_BUTTONS, {"roll": "start"}, "keys.toml")
    with pytest.raises(ConfigError, match="no pad button 'face_q'"):
        pad_names(PAD_BUTTONS, {"roll": "face_q"}, "keys.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("roll = 3", "roll: must be a name"),
        ("roll =", "is not valid TOML"),
        ("pad = 1", "pad: must be a table"),
        ("[pad]\nroll = 1", r"pad\.roll: must be a name"),
    ],
)
def test_a_malformed_file_is_reported(tmp_path, text, said):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_keys(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(tmp_path / "none.toml")
