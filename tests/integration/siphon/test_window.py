"""Finding a window on a real X server, and following what happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import closing

import pytest
from xcffib.xproto import Atom, ClientMessageEvent, EventMask

from soulslab.errors import (
    DisplayError,
    ProcessExitedError,
    WaitTimeoutError,
    WindowGoneError,
    WindowNotFoundError,
)
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, display_of, find_window, wait_for_window
from soulslab.siphon.process.x11 import XConnection
from support.painter import Painter
from support.waiting import PATIENCE_S, wait_for

SCREEN_PX = (320, 240)


def state_of(window):
    window.x.sync()
    return window.state()


def test_the_largest_visible_window_of_the_process_is_chosen(x, painter):
    painter.open(0, 0, 50, 50)
    large = painter.open(0, 0, 80, 50)
    hidden = painter.open(0, 0, 200, 200)
    painter.do("UnmapWindow", hidden)
    window = find_window(x, painter.pid)
    assert (window.id, window.pid) == (large, painter.pid)


def test_a_title_picks_another(x, painter):
    painter.open(0, 0, 80, 50)
    small = painter.open(0, 0, 50, 50, title="the small one")
    assert find_window(x, painter.pid, "small").id == small


def test_windows_of_others_are_listed_but_not_chosen(x, painter):
    painter.open(0, 0, 80, 50, title="a window")
    with pytest.raises(WindowNotFoundError, match=rf"(?s)process 1 .*of process {painter.pid}, 80x50, 'a window'"):
        find_window(x, 1)
    with pytest.raises(WindowNotFoundError, match="with 'another' in its title"):
        find_window(x, painter.pid, "another")


def test_a_window_inside_the_frame_of_a_window_manager_is_found(x, display, painter):
    window = painter.open(0, 0, 80, 50)
    with Painter(display.name) as manager:
        frame = manager.open(30, 40, 90, 70, title="")
        manager.ask("reparent", window=window, parent=frame, x=5, y=15)
        found = find_window(x, painter.pid)
        assert found.id == window
        state = state_of(found)
        assert (state.x_px, state.y_px, state.width_px, state.height_px) == (35, 55, 80, 50)
        assert not state.is_covered
        manager.configure(frame, x=60)
        assert state_of(found).x_px == 65
        manager.do("UnmapWindow", frame)
        with pytest.raises(WindowGoneError, match="not mapped"):
            state_of(found)


def test_it_is_waited_for(x, painter):
    timer = threading.Timer(0.05, painter.open, (0, 0, 80, 50))
    timer.start()
    window = wait_for_window(x, painter.pid, deadline_s=PATIENCE_S)
    timer.join()
    assert window.state().width_px == 80


def test_waiting_has_an_end(x, painter):
    painter.open(0, 0, 80, 50, title="a window")
    with pytest.raises(WaitTimeoutError, match=r"(?s)waited .* a window of process .*'a window'"):
        wait_for_window(x, painter.pid, "another", deadline_s=0.05)


def test_waiting_ends_with_the_process(x):
    child = subprocess.Popen(["/bin/sleep", "600"])
    timer = threading.Timer(0.05, child.kill)
    timer.start()
    with pytest.raises(ProcessExitedError, match="before it showed a window") as caught:
        wait_for_window(x, child.pid, deadline_s=PATIENCE_S)
    assert caught.value.pid == child.pid
    timer.join()
    child.wait()
    with pytest.raises(ProcessExitedError):
        wait_for_window(x, child.pid, deadline_s=PATIENCE_S)


def test_waiting_ends_with_the_display():
    display = PrivateDisplay((64, 64))
    x = XConnection(display.name)
    timer = threading.Timer(0.05, os.kill, (display.pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(DisplayError, match="has ended"):
        wait_for_window(x, os.getpid(), deadline_s=PATIENCE_S)
    timer.join()
    x.close()
    display.close()


def test_place_and_size_are_followed(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    state = state_of(window)
    assert (state.x_px, state.y_px, state.width_px, state.height_px, state.depth) == (10, 20, 80, 50, 24)
    assert state.is_on_screen
    assert not state.is_covered
    painter.configure(window.id, x=30, y=-5, width=100)
    state = state_of(window)
    assert (state.x_px, state.y_px, state.width_px, state.height_px) == (30, -5, 100, 50)
    assert not state.is_on_screen
    assert state.hidden_px == (0, 0, 100, 5)


def test_drawing_does_not_change_the_window_state(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    before, n_changes = state_of(window), window.n_changes
    painter.paint(window.id, 1)
    assert state_of(window) is before
    assert window.n_changes == n_changes


def test_covering_windows_are_detected(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    below = painter.open(0, 0, 300, 200)
    painter.configure(below, stack_mode=1)
    beside = painter.open(90, 20, 80, 50)
    assert not state_of(window).is_covered
    painter.configure(beside, x=89)
    assert state_of(window).hidden_px == (79, 0, 1, 50)
    painter.configure(below, stack_mode=0)
    assert state_of(window).hidden_px == (0, 0, 80, 50)
    painter.do("UnmapWindow", below)
    painter.do("DestroyWindow", beside)
    assert not state_of(window).is_covered


def test_hidden_shown_and_closed(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    painter.do("UnmapWindow", window.id)
    with pytest.raises(WindowGoneError, match="not mapped"):
        state_of(window)
    painter.do("MapWindow", window.id)
    assert state_of(window).width_px == 80
    painter.do("DestroyWindow", window.id)
    with pytest.raises(WindowGoneError, match="was closed"):
        state_of(window)
    with pytest.raises(WindowGoneError):
        Window(x, window.id)


def test_it_can_be_asked_to_close(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    window.ask_to_close()
    wait_for(lambda: window.id not in painter.windows(), "the window to close itself")


def window_with_protocols(program, protocols):
    """Map a window whose program has declared protocols of window managers."""
    window, screen = program.raw.generate_id(), program.raw.get_setup().roots[0]
    program.core.CreateWindow(0, window, program.root, 0, 0, 80, 50, 0, 1, screen.root_visual, 0, [])
    if protocols:
        atoms = [program.atom(protocol) for protocol in protocols]
        program.core.ChangeProperty(0, window, program.atom("WM_PROTOCOLS"), Atom.ATOM, 32, len(atoms), atoms)
    program.core.MapWindow(window)
    program.sync()
    return window


@pytest.mark.parametrize("protocol", ["WM_TAKE_FOCUS", "WM_DELETE_WINDOW", ""])
def test_a_program_that_asks_for_it_is_notified_of_the_keyboard_focus(display, x, protocol):
    with Painter(display.name) as other, closing(XConnection(display.name)) as program:
        other.open(0, 0, 50, 50)
        window = window_with_protocols(program, [protocol] if protocol else [])
        heard = []
        program.listen(lambda event: heard.append(event) if isinstance(event, ClientMessageEvent) else None)
        Window(x, window).tell_focus()
        x.sync()
        program.sync()
        program.dispatch()
        wanted = [(program.atom("WM_PROTOCOLS"), program.atom("WM_TAKE_FOCUS"))] if protocol == "WM_TAKE_FOCUS" else []
        assert [(event.type, event.data.data32[0]) for event in heard] == wanted


def test_the_message_of_the_focus_has_been_handled_when_the_ping_is_answered(display, x):
    with closing(XConnection(display.name)) as program:
        window = window_with_protocols(program, ["WM_TAKE_FOCUS", "_NET_WM_PING"])
        told = threading.Thread(target=Window(x, window).tell_focus, args=(60.0,))
        heard = []

        def answer(event):
            if isinstance(event, ClientMessageEvent):
                heard.append(event.data.data32[0])
                assert told.is_alive()
                if heard[-1] == program.atom("_NET_WM_PING"):
                    reply = ClientMessageEvent.synthetic(32, program.root, event.type, event.data)
                    mask = EventMask.SubstructureNotify | EventMask.SubstructureRedirect
                    program.core.SendEvent(False, program.root, mask, reply.pack(), is_checked=True).check()

        program.listen(answer)
        told.start()
        wait_for(lambda: program.dispatch() or not told.is_alive(), "the ping to be answered")
        assert heard == [program.atom("WM_TAKE_FOCUS"), program.atom("_NET_WM_PING")]


def test_a_program_that_does_not_answer_the_ping_is_not_waited_for_longer_than_the_deadline(display, x):
    with closing(XConnection(display.name)) as program:
        window = window_with_protocols(program, ["WM_TAKE_FOCUS", "_NET_WM_PING"])
        started_s = time.monotonic()
        Window(x, window).tell_focus(0.2)
        assert time.monotonic() - started_s >= 0.2


def test_the_display_of_a_process(display, painter, monkeypatch):
    assert display_of(painter.pid) == display.name
    monkeypatch.setenv("DISPLAY", ":77")
    child = subprocess.Popen(["/bin/sleep", "600"], env={})
    try:
        assert display_of(child.pid) == ":77"
        monkeypatch.delenv("DISPLAY")
        with pytest.raises(DisplayError, match="DISPLAY is not set"):
            display_of(child.pid)
    finally:
        child.kill()
        child.wait()


def test_a_released_window_is_not_tracked(x, painter):
    window = Window(x, painter.open(10, 20, 80, 50))
    window.close()
    window.close()
    painter.configure(window.id, x=11)
    x.sync()
    x.dispatch()
    assert window.n_changes == 0
