"""Keys and mouse by ``SendInput``, received by a program with a window."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import pytest

from soulslab.errors import ConfigError, InputError, SessionStateError, WindowGoneError
from soulslab.siphon.input import windows
from soulslab.siphon.input.windows import open_input, send_events
from soulslab.siphon.keys import KEYS
from soulslab.siphon.process.windows_integrity import HIGH, MEDIUM, integrity_level, why_refused
from soulslab.siphon.process.windows_window import find_window
from support.input_contract import InputContract
from support.waiting import wait_for
from support.windows_painter import EXTENDED, painting

BUTTONS = {1: "MOUSE_LEFT", 2: "MOUSE_RIGHT", 3: "MOUSE_MIDDLE", 4: "MOUSE_4", 5: "MOUSE_5"}
WHEEL = {120: "MOUSE_WHEEL_UP", -120: "MOUSE_WHEEL_DOWN"}
NAMES = {
    key.scan_code & 0xFF | (EXTENDED if key.scan_code >> 8 == 0xE0 else 0): key.name
    for key in KEYS.values()
    if not key.is_mouse and key.name != "PAUSE"
}
LEFT_SHIFT, W, A, D = 0xA0, ord("W"), ord("A"), ord("D")
HOLD = """
import sys
from soulslab.siphon.input.windows import open_input
from soulslab.siphon.process.windows_window import find_window

keys = open_input(find_window(int(sys.argv[1])))
keys.set_held(["A", "SPACE"])
keys.set_held(["W", "SPACE", "MOUSE_LEFT"])
print("holds", flush=True)
sys.stdin.readline()
"""


class Rig:
    """An input and the program that receives it."""

    def __init__(self, painter, window):
        self.painter = painter
        self.window = window
        self.input = open_input(window)

    def new_events(self):
        return [event for received in self.painter.events() for event in named(*received)]


def named(kind, code, value):
    """Yield the events of the contract; a turn of the wheel is a press and a release there."""
    if kind == "wheel":
        yield from ((WHEEL[code], True), (WHEEL[code], False))
    else:
        name = "PAUSE" if kind == "pause" else BUTTONS[code] if kind == "button" else NAMES[code]
        yield name, bool(value)


def wait_for_down(painter, keys):
    """Wait until a program sees these virtual keys down; Wine answers it from a cache for 50 ms."""
    generic = {0x10} if keys & {0xA0, 0xA1} else set()  # VK_SHIFT is down if one of the two keys is
    wait_for(lambda: painter.down() == keys | generic, f"the keys {keys}")


@pytest.fixture(scope="module")
def shared_painter():
    with painting() as painter:
        painter.open(10, 20, 300, 200)
        yield painter


def new_rig(painter):
    rig = Rig(painter, find_window(painter.pid))
    rig.new_events()
    painter.events("raw")
    return rig


@pytest.fixture(scope="module")
def rigs():
    """The inputs that were opened so far; the tests share the last one, because each starts a process."""
    opened = []
    yield opened
    for rig in opened:
        rig.input.close()


@pytest.fixture
def rig(shared_painter, rigs):
    if not rigs:
        rigs.append(new_rig(shared_painter))
    yield rigs[-1]
    try:
        rigs[-1].input.set_held([])
    except SessionStateError:  # the test has closed it
        rigs.clear()
    else:
        rigs[-1].new_events()
        shared_painter.events("raw")


class TestSendInput(InputContract):
    @pytest.fixture
    def rig(self, rig):
        return rig

    def test_every_key_of_the_table_reaches_the_game(self, rig):
        names = sorted(KEYS)
        rig.input.type(names)
        assert rig.new_events() == [(name, down) for name in names for down in (True, False)]
        # Locks would stay for the other tests.
        rig.input.type(["CAPSLOCK", "NUMLOCK", "SCROLLLOCK"])


def test_messages_key_states_and_raw_input_agree(rig):
    rig.input.set_held(["D", "LEFT_SHIFT", "RIGHT_ARROW", "MOUSE_RIGHT"])
    wait_for_down(rig.painter, {D, LEFT_SHIFT, KEYS["RIGHT_ARROW"].virtual_key, KEYS["MOUSE_RIGHT"].virtual_key})
    rig.input.set_held([])
    wait_for_down(rig.painter, set())
    pressed = {NAMES[code] for kind, code, value in rig.painter.events("raw") if kind == "key" and value}
    assert pressed == {"D", "LEFT_SHIFT", "RIGHT_ARROW"}


def test_raw_input_has_the_exact_movement(rig):
    rig.input.move_mouse(3, -2)
    rig.input.move_mouse(-5, 4)
    moves = []

    def has_arrived():
        moves.extend((x, y) for kind, x, y in rig.painter.events("raw") if kind == "move")
        return {(3, -2), (-5, 4)} <= set(moves) and tuple(map(sum, zip(*moves, strict=True))) == (-2, 2)

    # The X server reports the position of the pointer late, so Wine may add a movement back and the same again.
    wait_for(has_arrived)


def test_a_movement_that_is_too_far_is_refused(rig):
    with pytest.raises(InputError, match="32767 is the most"):
        rig.input.move_mouse(40_000, 0)


def test_events_are_in_the_queue_of_a_game_that_handles_no_messages(rig):
    rig.input.set_held(["W"])
    rig.new_events()
    rig.painter.ask("hold")
    rig.input.set_held(["A"])
    wait_for_down(rig.painter, {A})
    rig.painter.ask("go")
    assert rig.new_events() == [("W", False), ("A", True)]


def test_the_focus_is_taken_back_from_another_window(shared_painter, rig):
    rig.input.set_held(["W"])
    with painting() as other:
        other.ask("front", other.open(350, 20, 200, 200, "other"))
        assert not rig.window.is_in_front()
        other.events()
        rig.input.set_held(["A"])
        assert rig.window.is_in_front()
        assert [event for event in other.events() if event[0] == "key"] == []
    rig.input.set_held([])
    assert [event for event in rig.new_events() if event[0] == "A"] == [("A", True), ("A", False)]
    wait_for_down(shared_painter, set())


def test_events_that_were_lost_are_sent_again(monkeypatch, rig):
    sent = []

    def lose_the_first(events):
        sent.append(list(events))
        return len(sent[-1]) if len(sent) == 1 else send_events(events)

    monkeypatch.setattr(windows, "send_events", lose_the_first)
    monkeypatch.setattr(windows, "ACCEPT_DEADLINE_S", 0.1)
    rig.input.set_held(["D"])
    assert len(sent) == 2
    assert rig.new_events() == [("D", True)]


def test_a_program_that_takes_all_events_is_reported(monkeypatch, rig):
    monkeypatch.setattr(windows, "send_events", len)
    monkeypatch.setattr(windows, "ACCEPT_DEADLINE_S", 0.1)
    with pytest.raises(InputError, match="Windows has not changed the state of D: a program that filters keys"):
        rig.input.set_held(["D"])


def test_the_pointer_is_moved_over_the_game_before_a_button_is_pressed(rig):
    with painting() as other:
        left = other.open(350, 20, 200, 200, "other")
        rig.input.set_held(["MOUSE_LEFT"])
        rig.input.set_held([])
        assert rig.new_events() == [("MOUSE_LEFT", True), ("MOUSE_LEFT", False)]
        assert other.events() == []
        assert left


def test_a_minimised_game_gets_no_keys(rig):
    rig.input.set_held(["W"])
    rig.painter.ask("show", rig.window.id, 6)
    with pytest.raises(WindowGoneError, match="is minimised"):
        rig.input.set_held(["A"])
    wait_for_down(rig.painter, set())
    rig.painter.ask("show", rig.window.id, 9)
    rig.painter.events()
    rig.input.set_held([])
    rig.input.set_held(["A"])
    assert ("A", True) in rig.new_events()


@pytest.mark.parametrize("end", ["destroyed", "killed"])
def test_a_closed_game_leaves_no_key_down(shared_painter, end):
    with painting() as short_lived:
        window = short_lived.open(5, 6, 200, 150, "short-lived")
        rig = new_rig(short_lived)
        with closing(rig.input):
            rig.input.set_held(["W", "MOUSE_LEFT"])
            wait_for_down(shared_painter, {W, 1})
            if end == "destroyed":
                short_lived.ask("destroy", window)
            else:
                short_lived.process.kill()
                short_lived.process.wait()
            wait_for(lambda: is_gone(rig.window), "the end of the window")
            with pytest.raises(WindowGoneError, match="was closed"):
                rig.input.set_held(["A"])
            wait_for_down(shared_painter, set())


def is_gone(window):
    try:
        window.state()
    except WindowGoneError:
        return True
    return False


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_keys_are_released_when_their_holder_ends(shared_painter, end):
    shared_painter.events()
    command = [sys.executable, "-X", "utf8", "-c", HOLD, str(shared_painter.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "holds\n"
            wait_for_down(shared_painter, {W, 0x20, 1})
            if end == "kill":
                holder.kill()
            else:
                holder.stdin.write("\n")
                holder.stdin.flush()
            wait_for_down(shared_painter, set())
        finally:
            holder.kill()
    # What had been released before was not released again.
    assert [event for event in shared_painter.events() if event[:2] == ("key", KEYS["A"].scan_code)] == [
        ("key", KEYS["A"].scan_code, 1),
        ("key", KEYS["A"].scan_code, 0),
    ]


def test_an_unknown_backend_is_reported(rig):
    with pytest.raises(ConfigError, match="did you mean 'sendinput'"):
        open_input(rig.window, "sendinputs")


def test_integrity_levels_are_read(rig):
    assert integrity_level(os.getpid()) in (MEDIUM, HIGH)
    assert integrity_level(rig.painter.pid) == integrity_level(os.getpid())
    assert why_refused(rig.painter.pid) == ""


def test_a_game_with_more_rights_is_refused_with_advice(monkeypatch, rig):
    monkeypatch.setattr(
        "soulslab.siphon.process.windows_integrity.integrity_level",
        lambda pid: MEDIUM if pid == os.getpid() else HIGH,
    )
    with pytest.raises(InputError, match=r"more rights .* run soulslab as administrator"):
        open_input(rig.window)
