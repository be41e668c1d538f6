"""Finding a window on Windows, and following what happens to it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from soulslab.errors import ProcessExitedError, WaitTimeoutError, WindowError, WindowGoneError, WindowNotFoundError
from soulslab.siphon.process import windows_window
from soulslab.siphon.process.windows_window import Window, find_window, physical_pixels, wait_for_window, with_window
from support.waiting import PATIENCE_S, wait_for
from support.windows_painter import painting

MINIMISE, RESTORE, HIDE = 6, 9, 0


@pytest.fixture(scope="module")
def started():
    """The programs that were started so far, by their fixture; the tests share each until one of them ends it."""
    with ExitStack() as stack:
        yield stack, {}


def lend(started, name):
    stack, programs = started
    if name not in programs or programs[name].process.poll() is not None:
        programs[name] = stack.enter_context(painting())
    yield programs[name]
    if programs[name].process.poll() is None:
        programs[name].close_all()


@pytest.fixture
def painter(started):
    yield from lend(started, "painter")


@pytest.fixture
def other(started):
    yield from lend(started, "other")


def test_the_largest_visible_window_of_the_process_is_chosen(painter):
    painter.open(0, 0, 150, 50)
    large = painter.open(0, 0, 180, 50)
    painter.ask("show", painter.open(0, 0, 400, 400), HIDE)
    painter.ask("show", painter.open(0, 0, 300, 300), MINIMISE)
    window = find_window(painter.pid)
    assert (window.id, window.pid) == (large, painter.pid)


def test_a_title_picks_another(painter):
    painter.open(0, 0, 180, 50)
    small = painter.open(0, 0, 150, 50, "der größte Gegner")
    assert find_window(painter.pid, "größte").id == small


def test_windows_of_others_are_listed_but_not_chosen(painter):
    painter.open(0, 0, 180, 50, "a window")
    with pytest.raises(WindowNotFoundError, match=rf"(?s)process 1 .*of process {painter.pid}, 180x50, 'a window'"):
        find_window(1)
    with pytest.raises(WindowNotFoundError, match="with 'another' in its title"):
        find_window(painter.pid, "another")


def test_a_minimised_window_is_listed_as_such(painter):
    painter.ask("show", painter.open(0, 0, 180, 50, "a window"), MINIMISE)
    with pytest.raises(WindowNotFoundError, match=r"'a window' \(minimised\)"):
        find_window(painter.pid)


def test_processes_with_a_window_are_selected(painter, other):
    painter.open(0, 0, 180, 50, "a window")
    assert with_window([other.pid, painter.pid], "a window") == [painter.pid]


def test_it_is_waited_for(painter):
    timer = threading.Timer(0.1, painter.open, (0, 0, 180, 50))
    timer.start()
    window = wait_for_window(painter.pid, deadline_s=PATIENCE_S)
    timer.join()
    assert window.state().width_px == 180


def test_waiting_has_an_end(painter):
    painter.open(0, 0, 180, 50, "a window")
    with pytest.raises(WaitTimeoutError, match=r"(?s)waited .* a window of process .*'a window'"):
        wait_for_window(painter.pid, "another", deadline_s=0.05)


def test_waiting_ends_with_the_process(painter):
    timer = threading.Timer(0.1, painter.process.kill)
    timer.start()
    with pytest.raises(ProcessExitedError, match="before it showed a window") as caught:
        wait_for_window(painter.pid, deadline_s=PATIENCE_S)
    assert caught.value.pid == painter.pid
    timer.join()


def test_a_process_that_has_ended_is_not_waited_for():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(ProcessExitedError):
        wait_for_window(process.pid, deadline_s=PATIENCE_S)


def test_place_and_size_are_followed(painter):
    window = Window(painter.open(10, 20, 180, 50))
    state = window.state()
    assert (state.x_px, state.y_px, state.width_px, state.height_px) == (10, 20, 180, 50)
    assert state.is_on_screen
    assert not state.cover
    painter.ask("place", window.id, 30, -5, 200, 50)
    state = window.state()
    assert (state.x_px, state.y_px, state.width_px, state.height_px) == (30, -5, 200, 50)
    assert not state.is_on_screen
    assert window.frame_origin_px() == (30, -5)


def test_a_covering_window_is_named(painter):
    window = Window(painter.open(10, 20, 180, 50))
    beside = painter.open(190, 20, 180, 50, "beside")
    assert not window.state().cover
    painter.ask("place", beside, 189, 20, 180, 50)
    assert "'beside'" in window.state().cover
    painter.ask("show", beside, HIDE)
    assert not window.state().cover


def test_minimised_hidden_shown_and_closed(painter):
    window = Window(painter.open(10, 20, 180, 50))
    for how, reason in ((MINIMISE, "is minimised"), (HIDE, "is hidden")):
        painter.ask("show", window.id, how)
        with pytest.raises(WindowGoneError, match=reason):
            window.state()
        painter.ask("show", window.id, RESTORE)
        assert window.state().width_px == 180
    painter.ask("destroy", window.id)
    with pytest.raises(WindowGoneError, match="was closed"):
        window.state()
    with pytest.raises(WindowGoneError, match="was closed"):
        window.ask_to_close()
    with pytest.raises(WindowGoneError, match="was closed"):
        Window(window.id)


def test_a_killed_program_has_no_window(painter):
    window = Window(painter.open(10, 20, 180, 50), painter.pid)
    painter.process.kill()
    painter.process.wait()
    with pytest.raises(WindowGoneError, match="was closed"):
        window.bring_to_front()


def test_it_can_be_asked_to_close(painter):
    window = Window(painter.open(10, 20, 180, 50))
    window.ask_to_close()
    wait_for(lambda: painter.ask("exists", window.id) == "0", "the window to close itself")


def test_it_is_brought_to_the_front_over_another_program(painter, other):
    window = Window(painter.open(10, 20, 180, 50))
    cover = Window(other.open(20, 30, 180, 50))
    other.ask("front", cover.id)
    assert not window.is_in_front()
    window.bring_to_front()
    assert window.is_in_front()
    assert not window.state().cover
    assert window.state().width_px == 180


def test_the_front_window_of_a_program_that_handles_no_messages_is_replaced(painter, other):
    window = Window(painter.open(10, 20, 180, 50))
    other.ask("front", other.open(20, 30, 180, 50))
    other.ask("hold")
    window.bring_to_front()
    assert window.is_in_front()


def test_a_window_that_does_not_come_to_the_front_is_reported_with_advice(painter, other, monkeypatch):
    window = Window(painter.open(10, 20, 180, 50))
    other.ask("front", other.open(20, 30, 180, 50, "in front"))
    monkeypatch.setattr(windows_window, "_user", _without_front(windows_window._user))
    with pytest.raises(WindowError, match=r"'in front' is in front\. Click on the window of the game"):
        window.bring_to_front(0.05)


def _without_front(user):
    """Return `user` with a ``SetForegroundWindow`` that Windows refuses, as it does to most programs."""

    def limited(name, *types):
        return (lambda _: False) if name == "SetForegroundWindow" else user(name, *types)

    return limited


def test_a_program_that_handles_no_messages_is_not_waited_for_longer_than_the_deadline(painter):
    window = Window(painter.open(10, 20, 180, 50))
    assert window.await_messages(20.0)
    painter.ask("hold")
    started_s = time.monotonic()
    assert not window.await_messages(0.1)
    assert time.monotonic() - started_s >= 0.09
    painter.ask("go")
    assert window.await_messages(20.0)


def test_the_scale_of_a_thread_is_restored():
    user32 = ctypes.WinDLL("user32")
    aware = user32.GetAwarenessFromDpiAwarenessContext
    aware.argtypes = [ctypes.c_void_p]
    user32.GetThreadDpiAwarenessContext.restype = ctypes.c_void_p
    before = aware(user32.GetThreadDpiAwarenessContext())
    with physical_pixels():
        assert aware(user32.GetThreadDpiAwarenessContext()) == 2  # per monitor
    assert aware(user32.GetThreadDpiAwarenessContext()) == before
