"""Contract of all input backends; subclasses provide the fixture `rig`."""

from __future__ import annotations

import numpy as np
import pytest

from soulslab.errors import SessionStateError, UnknownKeyError
from support.long_form import examples

SOME_KEYS = ("W", "A", "LEFT_SHIFT", "SPACE", "UP_ARROW", "KEYPAD_5", "F12", "MOUSE_LEFT", "MOUSE_RIGHT")
#: Changes of the held keys.
N_CHANGES = examples(75)


class InputContract:
    """`rig.input` is an open `Input`; `rig.new_events()` returns the events that reached the game since the last call.

    Each event is the name of the key and whether it was pressed.
    """

    def test_held_keys_reach_the_game(self, rig):
        rig.input.set_held(["W", "LEFT_SHIFT"])
        assert rig.new_events() == [("LEFT_SHIFT", True), ("W", True)]
        assert rig.input.held == {"W", "LEFT_SHIFT"}

    def test_only_changes_are_sent_and_releases_are_first(self, rig):
        rig.input.set_held({"W", "A"})
        rig.new_events()
        rig.input.set_held({"A", "SPACE"})
        assert rig.new_events() == [("W", False), ("SPACE", True)]
        rig.input.set_held({"A", "SPACE"})
        assert rig.new_events() == []

    def test_pressing_a_held_key_again_releases_and_presses_it(self, rig):
        rig.input.set_held({"W", "SPACE"})
        rig.new_events()
        rig.input.set_held({"W", "SPACE"}, again={"SPACE"})
        assert rig.new_events() == [("SPACE", False), ("SPACE", True)]
        assert rig.input.held == {"W", "SPACE"}

    def test_pressing_a_released_key_again_presses_it(self, rig):
        rig.input.set_held({"W"}, again={"W", "A"})
        assert rig.new_events() == [("W", True)]

    def test_buttons_are_held_like_keys(self, rig):
        rig.input.set_held(["MOUSE_LEFT", "MOUSE_4"])
        rig.input.set_held(["MOUSE_LEFT"])
        assert rig.new_events() == [("MOUSE_4", True), ("MOUSE_LEFT", True), ("MOUSE_4", False)]

    def test_the_wheel_turns_by_a_notch(self, rig):
        rig.input.type(["MOUSE_WHEEL_UP", "MOUSE_WHEEL_DOWN"])
        expected = [(name, down) for name in ("MOUSE_WHEEL_UP", "MOUSE_WHEEL_DOWN") for down in (True, False)]
        assert rig.new_events() == expected

    def test_typed_keys_are_pressed_and_released_in_order(self, rig):
        rig.input.set_held(["W"])
        rig.new_events()
        rig.input.type(["A", "A", "ENTER"])
        assert rig.new_events() == [(key, down) for key in ("A", "A", "ENTER") for down in (True, False)]
        assert rig.input.held == {"W"}

    def test_a_typed_key_that_is_held_remains_pressed(self, rig):
        rig.input.set_held(["W"])
        rig.input.type(["W"])
        assert rig.new_events() == [("W", True), ("W", False), ("W", True)]
        assert rig.input.held == {"W"}

    @pytest.mark.parametrize("call", ["set_held", "type"])
    def test_an_unknown_key_sends_nothing_and_keeps_held_keys(self, rig, call):
        rig.input.set_held(["W"])
        rig.new_events()
        with pytest.raises(UnknownKeyError, match="did you mean 'SPACE'"):
            getattr(rig.input, call)(["A", "SPAC"])
        assert rig.new_events() == []
        assert rig.input.held == {"W"}

    def test_close_releases_everything(self, rig):
        rig.input.set_held(["W", "MOUSE_LEFT"])
        rig.new_events()
        rig.input.close()
        assert rig.new_events() == [("MOUSE_LEFT", False), ("W", False)]
        assert rig.input.held == frozenset()
        rig.input.close()
        assert rig.new_events() == []

    def test_nothing_is_sent_after_close(self, rig):
        rig.input.close()
        with pytest.raises(SessionStateError):
            rig.input.set_held(["W"])
        with pytest.raises(SessionStateError):
            rig.input.type(["W"])
        with pytest.raises(SessionStateError):
            rig.input.move_mouse(1, 0)
        assert rig.new_events() == []

    def test_the_game_receives_exactly_the_held_keys(self, rig):
        # Without hypothesis, which reads the sources of all modules for it: that takes 10 s under Wine.
        rng, before = np.random.default_rng(1), set()
        rig.input.set_held([])
        rig.new_events()
        for _ in range(N_CHANGES):
            held = set(rng.choice(SOME_KEYS, rng.integers(len(SOME_KEYS) + 1), replace=False).tolist())
            rig.input.set_held(held)
            events = rig.new_events()
            changed = [name for name, _ in events]
            assert sorted(changed) == sorted(before ^ held)
            assert {name for name, is_press in events if is_press} == held - before
            before = held
