"""Pictures of windows on Windows, compared with what a program painted.

Only ``gdi`` runs under Wine; ``wgc`` and ``dxgi`` need Windows.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from contextlib import closing

import numpy as np
import pytest

from soulslab.errors import WindowError, WindowGoneError
from soulslab.siphon.capture import NATIVE
from soulslab.siphon.capture.windows import WindowCapture
from soulslab.siphon.process.windows_window import Window
from support.capture_contract import CaptureContract, CaptureRig
from support.waiting import wait_for
from support.windows_painter import painting, picture

MINIMISE, RESTORE, HIDE = 6, 9, 0


class WindowsRig(CaptureRig):
    """A window of the test program for Windows."""

    def __init__(self, painter):
        self.painter = painter
        self.window = Window(painter.open(10, 10, 200, 100))
        self.captures = []
        self.seed = 1
        self.is_hidden = False

    def reset(self):
        """Close the captures and put the window back; return whether it exists."""
        for capture in self.captures:
            capture.close()
        self.captures.clear()
        if self.painter.ask("exists", self.window.id) == "0":
            return False
        if self.is_hidden:
            self.show()
        self.place(10, 10, 200, 100)
        return True

    def open(self, *backends):
        self.captures.append(WindowCapture(self.window, backends or ("gdi",)))
        return self.captures[-1]

    def paint(self, seed):
        self.seed = seed
        self.painter.ask("paint", self.window.id, seed)

    def picture(self, width, height, seed):
        return picture(width, height, seed)

    def place(self, x, y, width, height):
        self.painter.ask("place", self.window.id, x, y, width, height)
        self.paint(self.seed)

    def hide(self, how=MINIMISE):
        self.is_hidden = True
        self.painter.ask("show", self.window.id, how)

    def show(self):
        self.is_hidden = False
        self.painter.ask("show", self.window.id, RESTORE)
        # Under Wine a window that is shown again may be empty for a moment, also after its program has painted it.
        with closing(WindowCapture(self.window, ("gdi",))) as capture:
            wait_for(lambda: self._shows_painted_pixels(capture), "the window to show its picture")

    def _shows_painted_pixels(self, capture):
        self.paint(self.seed)
        width, height = capture.size_px
        return np.array_equal(capture.grab(NATIVE), self.picture(width, height, self.seed))

    def destroy(self):
        self.painter.ask("destroy", self.window.id)

    def point(self):
        ctypes.WinDLL("user32").SetCursorPos(60, 50)


@pytest.fixture(scope="module")
def shared_painter():
    with painting() as painter:
        yield painter


@pytest.fixture(scope="module")
def rigs():
    """The last window; the tests share it, because Wine waits 2 s when it shows, hides or closes a window."""
    return []


@pytest.fixture
def rig(shared_painter, rigs):
    if not rigs:
        rigs.append(WindowsRig(shared_painter))
    yield rigs[-1]
    if not rigs[-1].reset():
        rigs.clear()


class TestScreenCopy(CaptureContract):
    @pytest.fixture
    def rig(self, rig):
        return rig


def test_the_first_backend_that_works_is_used_and_the_reasons_are_logged(rig, caplog):
    rig.paint(1)
    with caplog.at_level(logging.INFO):
        capture = rig.open("wgc", "dxgi", "gdi")
    assert capture.backend == "gdi"
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "wgc does not work" in text
    assert "dxgi does not work" in text
    rig.assert_shows(capture, 200, 100, 1)


def test_a_window_that_no_backend_captures_is_reported_with_all_reasons(rig):
    with pytest.raises(WindowError, match=r"(?s)cannot be captured:.*wgc: .*dxgi: "):
        rig.open("wgc", "dxgi")


def test_a_covered_window_is_refused_until_it_is_uncovered(rig):
    rig.paint(1)
    capture = rig.open()
    cover = rig.painter.open(100, 50, 200, 100, "cover")
    with pytest.raises(WindowError, match=r"is covered by window .*'cover'"):
        capture.grab(NATIVE)
    rig.painter.ask("destroy", cover)
    rig.paint(1)
    rig.assert_shows(capture, 200, 100, 1)


def test_a_covered_window_comes_to_the_front_when_it_is_opened(rig):
    rig.paint(1)
    cover = rig.painter.open(100, 50, 200, 100, "cover")
    capture = rig.open()
    rig.paint(1)
    rig.assert_shows(capture, 200, 100, 1)
    rig.painter.ask("destroy", cover)


def test_parts_outside_the_screen_are_refused(rig):
    rig.paint(1)
    capture = rig.open()
    rig.place(-30, 20, 200, 100)
    with pytest.raises(WindowError, match=r"reaches off the screen at \(-30, 20\)"):
        capture.grab(NATIVE)


@pytest.mark.parametrize("state", ["minimised", "hidden", "closed"])
def test_a_window_without_a_picture_cannot_be_opened(rig, state):
    if state == "closed":
        rig.destroy()
    else:
        rig.hide(MINIMISE if state == "minimised" else HIDE)
    with pytest.raises(WindowGoneError, match=state):
        rig.open()


def test_a_killed_game_has_no_picture():
    with painting() as painter:
        rig = WindowsRig(painter)
        capture = rig.open()
        painter.process.kill()
        painter.process.wait()
        wait_for(lambda: is_gone(capture), "the end of the window")
        capture.close()


def is_gone(capture):
    try:
        capture.grab(NATIVE)
    except WindowGoneError:
        return True
    return False


def test_a_capture_may_be_closed_in_another_thread(rig):
    capture = rig.open()
    thread = threading.Thread(target=capture.close)
    thread.start()
    thread.join()
    with pytest.raises(WindowGoneError, match="capture was closed"):
        capture.size_px  # noqa: B018


def test_fifty_captures_leave_no_handles(rig):
    rig.paint(1)
    before = n_gdi_objects()
    for _ in range(50):
        capture = rig.open()
        rig.assert_shows(capture, 200, 100, 1)
        capture.close()
    assert n_gdi_objects() <= before


def n_gdi_objects():
    """Return the number of graphics objects of this process."""
    kernel32, user32 = ctypes.WinDLL("kernel32"), ctypes.WinDLL("user32")
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    user32.GetGuiResources.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    return user32.GetGuiResources(kernel32.GetCurrentProcess(), 0)
