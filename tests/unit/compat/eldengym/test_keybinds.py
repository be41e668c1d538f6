"""EldenGym's keybinds: default and user files, and the errors for malformed files."""

import json
from pathlib import Path

import eldengym as public
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.compat.eldengym.eldengym_options import KeybindActions, read_keybinds
from soulslab.errors import ConfigError, EnvironmentUsageError, InvalidActionError
from soulslab.siphon.keys import KEYS

FILE = Path(public.__file__).parent / "files" / "Margit-v0" / "keybinds_v2.json"
ALL = KeybindActions()


def table(**actions):
    return {"version": "2.0", "actions": actions or {"attack": {"index": 0, "key": "P", "mouse": "LEFT"}}}


def test_eldengym_s_file_is_the_default():
    content = json.loads(FILE.read_text())
    for given_one in (FILE, str(FILE), content):
        assert read_keybinds(given_one)[0] == read_keybinds()[0]
    assert ALL.names == tuple(sorted(content["actions"], key=lambda name: content["actions"][name]["index"]))
    assert [KEYS[key].name for key in ALL.keys] == [*"WSAD", "LEFT_SHIFT", "SPACE", *"CBPLFRE"]


def test_actions_have_the_requested_order():
    actions = KeybindActions(FILE, ["jump", "attack"])
    assert (actions.names, actions.keys) == (("jump", "attack"), ("SPACE", "P"))
    assert actions.held([0, 1]) == ("P",)


def test_the_mouse_device_uses_mouse_buttons():
    actions = KeybindActions(None, ["dodge_roll/dash", "attack", "jump"], "mouse")
    assert actions.keys == ("MOUSE_5", "MOUSE_LEFT", "SPACE")


@given(st.lists(st.booleans(), min_size=13, max_size=13))
def test_each_bit_holds_a_key(bits):
    assert ALL.held(bits) == tuple(key for key, bit in zip(ALL.keys, bits, strict=True) if bit)


def test_bits_can_have_any_numeric_type():
    for one in (np.zeros(13), np.ones(13, np.float32), np.ones(13, bool), [1] * 13, np.ones(13, np.uint8)):
        assert ALL.held(one) == ALL.held(np.asarray(one, np.int8))


def test_actions_can_share_a_key_and_indices_can_have_gaps():
    actions = KeybindActions(table(b={"index": 9, "key": "W"}, a={"index": 2, "key": "W"}))
    assert (actions.names, actions.held([1, 1]), actions.held([0, 1])) == (("a", "b"), ("W",), ("W",))


@pytest.mark.parametrize("action", [[1] * 12, [[1] * 13], [0.5] * 13, [2] + [0] * 12, 3, "W", None, [[1], [1, 2]]])
def test_wrong_actions_are_refused(action):
    with pytest.raises(InvalidActionError, match="must be 13 bits"):
        ALL.held(action)


@pytest.mark.parametrize(
    ("content", "place", "problem"),
    [
        ({"actions": {}}, "version", "must be '2.0'"),
        ({"version": "1.0", "keybinds": {"W": "move_forward"}}, "version", "not '1.0'"),
        ({"version": "2.0"}, "actions", "is missing"),
        ({"version": "2.0", "actions": {}}, "actions", "length"),
        ({"version": "2.0", "actions": {}, "action": {}}, "action", "unknown setting; did you mean 'actions'"),
        (table(attack={"index": 0}), "actions.attack.key", "is missing"),
        (table(attack={"index": "0", "key": "P"}), "actions.attack.index", "whole number"),
        (table(attack={"index": 0, "key": "P", "mouse": 3}), "actions.attack.mouse", "text"),
        (table(attack={"index": 0, "kye": "P"}), "actions.attack.kye", "did you mean 'key'"),
        (table(attack={"index": 0, "key": "SPACEBAR"}), "actions.attack.key", "SPACE"),
        (table(a={"index": 1, "key": "P"}, b={"index": 1, "key": "W"}), "actions.b.index", "'a' has the same index"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, content, place, problem):
    (tmp_path / "keys.json").write_text(json.dumps(content))
    for given_one, source in ((content, "keybinds"), (tmp_path / "keys.json", "keys.json")):
        with pytest.raises(ConfigError) as caught:
            KeybindActions(given_one)
        assert (caught.value.path, problem in str(caught.value), source in caught.value.source) == (place, True, True)


@pytest.mark.parametrize("text", ["{", "[1, 2]", '"W"', ""])
def test_a_file_without_a_table_is_named(tmp_path, text):
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ConfigError, match=r"keys\.json"):
        KeybindActions(tmp_path / "keys.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        KeybindActions(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"source": 5}, "keybinds_filepath must be"),
        ({"actions": ["atack"]}, "'atack'; did you mean 'attack'"),
        ({"actions": "attack"}, "must be a list of names"),
        ({"actions": []}, "must be a list of names"),
        ({"actions": ["jump", "jump"]}, "only once"),
        ({"device": "keys"}, "'keys'; did you mean 'key'"),
    ],
)
def test_wrong_options_are_refused(options, problem):
    with pytest.raises(EnvironmentUsageError, match=problem):
        KeybindActions(**options)
