"""Keys and mouse on a real X server, received by a program with a window."""

from __future__ import annotations

import itertools
import subprocess
from contextlib import contextmanager
from shutil import which

import pytest

from soulslab.errors import ConfigError, InputError, WindowGoneError
from soulslab.siphon.input.x_input import open_input, read_keycodes
from soulslab.siphon.keys import KEYS
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, find_window
from soulslab.siphon.process.x11 import XConnection
from support.input_contract import InputContract
from support.key_listener import listening

BACKENDS = ("xtest", "xsendevent")
SCREEN_PX = (640, 480)


class Rig:
    """An input and the program that receives it."""

    def __init__(self, listener, window, keys):
        self.listener = listener
        self.window = window
        self.input = keys
        codes = read_keycodes(window.x)
        self._names = {code: name for name, code in codes.items()}
        self._names |= {-key.button: key.name for key in KEYS.values() if key.is_mouse}

    def new_events(self):
        events = [event for event in self.listener.drain() if event["kind"] != "move"]
        return [(self.name_of(event), event["kind"] == "press") for event in events]

    def name_of(self, event):
        return self._names[-event["detail"] if event["is_button"] else event["detail"]]


@pytest.fixture(scope="module")
def listener(display):
    with listening(display.name) as listener:
        yield listener


@contextmanager
def opened(listener, display, backend="auto", **options):
    x = XConnection(display.name)
    window = find_window(x, listener.pid)
    keys = open_input(window, backend, **options)
    listener.drain()  # what an earlier test released at its end
    try:
        yield Rig(listener, window, keys)
    finally:
        keys.close()
        x.close()


def set_keyboard(display, *arguments):
    program = which("setxkbmap")
    assert program, "setxkbmap is not installed: apt-get install x11-xkb-utils"
    subprocess.run([program, "-display", display.name, *arguments], check=True, env=display.environment())


@pytest.fixture(params=BACKENDS)
def rig(request, listener, display):
    with opened(listener, display, request.param, is_private=True) as rig:
        yield rig


class TestOnARealServer(InputContract):
    @pytest.fixture
    def rig(self, rig):
        return rig

    def test_every_key_of_the_table_reaches_the_game(self, rig):
        names = sorted(KEYS)
        rig.input.type(names)
        assert rig.new_events() == [(name, down) for name in names for down in (True, False)]
        # Locks would stay in the server for the other tests.
        rig.input.type(["CAPSLOCK", "NUMLOCK"])

    def test_modifiers_and_buttons_show_in_the_state(self, rig):
        rig.input.set_held(["LEFT_SHIFT"])
        rig.input.set_held(["LEFT_SHIFT", "RIGHT_CTRL"])
        rig.input.set_held(["LEFT_SHIFT", "RIGHT_CTRL", "MOUSE_LEFT"])
        rig.input.set_held(["W"])
        states = [event["state"] for event in rig.listener.drain() if event["kind"] != "move"]
        assert states == [0, 1, 5, 5 + 256, 4 + 256, 4, 0]  # Shift 1, Control 4, Button1 256; as before the event

    def test_time_never_decreases_and_two_taps_are_not_a_repetition(self, rig):
        """SDL drops a release and a press of one key less than 2 ms apart."""
        rig.input.set_held(["D"])
        rig.input.type(["A", "A", "A"])
        rig.input.set_held([])
        events = rig.listener.drain()
        times = [event["time"] for event in events]
        assert times == sorted(times)
        typed = [event for event in events if rig.name_of(event) == "A"]
        gaps = [after["time"] - before["time"] for before, after in itertools.pairwise(typed)][1::2]
        assert len(gaps) == 2
        assert all(gap >= 2 for gap in gaps)

    def test_the_mouse_moves_by_so_many_pixels(self, rig):
        rig.input.move_mouse(1, 1)
        start = rig.listener.drain()[-1]
        rig.input.move_mouse(-30, 12)
        end = rig.listener.drain()[-1]
        assert (end["x"] - start["x"], end["y"] - start["y"]) == (-30, 12)
        assert end["root_x"] - end["x"] == 10

    def test_a_closed_window_is_reported(self, display, rig):
        with (
            listening(display.name, "5", "6", "30", "20") as short_lived,
            opened(short_lived, display, rig.input.backend, is_private=True) as other,
        ):
            other.input.set_held(["W"])
            short_lived.ask("close")
            other.window.x.sync()
            with pytest.raises(WindowGoneError):
                other.input.set_held(["A"])

    def test_sent_events_are_marked_and_complete(self, rig):
        rig.input.set_held(["W"])
        (event,) = [event for event in rig.listener.drain() if event["kind"] == "press"]
        assert event["is_sent"] == (rig.input.backend == "xsendevent")
        assert event["is_same_screen"]

    def test_the_server_itself_knows_of_keys_by_xtest_only(self, rig):
        rig.input.set_held(["W"])
        assert rig.listener.ask("keymap") == ([25] if rig.input.backend == "xtest" else [])


def test_a_game_alone_on_its_display_gets_keys_by_xtest_another_by_events(listener, display):
    with opened(listener, display) as alone:
        assert alone.input.backend == "xtest"
    with listening(display.name, "400", "300", "100", "100"):
        with opened(listener, display) as one_of_two:
            assert one_of_two.input.backend == "xsendevent"
        with opened(listener, display, is_private=True) as private:
            assert private.input.backend == "xtest"


def test_events_reach_a_window_without_the_focus(listener, display):
    with listening(display.name, "400", "300", "100", "100") as other:
        other.ask("focus")
        with opened(listener, display, "xsendevent") as rig:
            rig.input.set_held(["W", "MOUSE_LEFT"])
            assert rig.new_events() == [("MOUSE_LEFT", True), ("W", True)]
        assert not other.drain()


def test_xtest_does_not_type_into_other_windows(listener, display):
    with listening(display.name, "400", "300", "100", "100") as other, opened(listener, display, "xtest") as rig:
        other.ask("focus")
        with pytest.raises(InputError, match="has not the focus"):
            rig.input.set_held(["W"])
        assert rig.input.held == frozenset()
        listener.ask("focus")
        rig.input.set_held(["W"])
        rig.input.set_held([])
        assert rig.new_events() == [("W", True), ("W", False)]
        assert not [event for event in other.drain() if event["kind"] != "move"]


def test_a_single_game_gets_the_focus_back(listener, display):
    with (
        listening(display.name, "400", "300", "100", "100") as other,
        opened(listener, display, "xtest", is_private=True) as rig,
    ):
        rig.input.set_held(["W"])
        other.ask("focus")
        rig.input.set_held(["A"])
        assert rig.new_events() == [("W", True), ("W", False), ("A", True)]


def test_held_keys_are_repeated_except_on_private_displays():
    """Key repetition happens in wall time, so a game with controlled time would receive it at random."""
    with PrivateDisplay((320, 240)) as display, listening(display.name) as listener:
        for is_private in (False, True):
            with opened(listener, display, "xtest", is_private=is_private) as rig, rig.window.x.using("look"):
                control = rig.window.x.core.GetKeyboardControl().reply()
            assert bool(control.global_auto_repeat) != is_private


def test_an_unknown_backend_is_reported(listener, display):
    with pytest.raises(ConfigError, match="did you mean 'xtest'"), opened(listener, display, "xtset"):
        pass


def test_keycodes_are_equal_for_every_layout():
    """On a French keyboard the key W types z; the physical key counts."""
    with PrivateDisplay((320, 240)) as display, listening(display.name) as listener:
        set_keyboard(display, "fr")
        for backend in BACKENDS:
            with opened(listener, display, backend, is_private=True) as rig:
                rig.input.set_held(["W"])
                (event,) = [event for event in listener.drain() if event["kind"] == "press"]
                assert event["detail"] == 25  # <AD02>
                assert chr(listener.ask("keysym", event["detail"])) == "z"


def test_a_table_of_keycodes_of_another_kind_is_followed():
    """``xfree86`` numbers the keys after the letters differently from Linux."""
    with PrivateDisplay((320, 240)) as display:
        set_keyboard(display, "-keycodes", "xfree86", "us")
        x = XConnection(display.name)
        codes = read_keycodes(x)
        x.close()
    assert (codes["W"], codes["UP_ARROW"], codes["RIGHT_CTRL"]) == (25, 98, 109)


def test_windows_are_found_by_the_program(listener, display):
    x = XConnection(display.name)
    window = find_window(x, listener.pid)
    assert isinstance(window, Window)
    assert window.id == listener.window
    x.close()
