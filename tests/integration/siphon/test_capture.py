"""Pictures of windows on a real X server, held against what was painted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xcffib.sync

from benchmarks.siphon_capture import CaptureBenchSettings, measure_capture
from soulslab.errors import DisplayError, WindowError, WindowGoneError
from soulslab.siphon.capture import NATIVE, FrameFormat, window_capture, window_pixels
from soulslab.siphon.capture.window_capture import Barrier, Framebuffer, WindowCapture
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.window import Window, wait_for_window
from soulslab.siphon.process.x11 import XConnection
from support.capture_contract import CaptureContract, CaptureRig
from support.counts import check_released, held, n_clients, segments_of
from support.doom import start_doom
from support.long_form import IS_LONG
from support.painter import Painter, pattern
from support.waiting import PATIENCE_S, wait_for

SCREEN_PX = (400, 300)
GREEN = 0x00FF00


@pytest.fixture(params=["private", "other"])
def open_on(request, x, display):
    """Opens captures, once with and once without the display's framebuffer, and closes them."""
    captures = []

    def open_it(window_id):
        captures.append(WindowCapture(Window(x, window_id), display if request.param == "private" else None))
        return captures[-1]

    open_it.plain = "framebuffer" if request.param == "private" else "shm"
    yield open_it
    for capture in captures:
        capture.close()


class XRig(CaptureRig):
    """A window on an X server, without a window manager."""

    def __init__(self, painter, open_on):
        self.painter = painter
        self.open_on = open_on
        self.window = painter.open(10, 10, 200, 100)

    def open(self):
        return self.open_on(self.window)

    def paint(self, seed):
        self.painter.paint(self.window, seed)

    def picture(self, width, height, seed):
        return pattern(width, height, seed)

    def place(self, x, y, width, height):
        self.painter.configure(self.window, x=x, y=y, width=width, height=height)

    def hide(self):
        self.painter.do("UnmapWindow", self.window)

    def show(self):
        self.painter.do("MapWindow", self.window)

    def destroy(self):
        self.painter.do("DestroyWindow", self.window)

    def point(self):
        self.painter.cursor(self.window)


class TestOnAnXServer(CaptureContract):
    @pytest.fixture
    def rig(self, painter, open_on):
        return XRig(painter, open_on)

    def test_the_cheapest_backend_is_used(self, rig, open_on):
        capture = rig.open()
        rig.paint(1)
        rig.assert_shows(capture, 200, 100, 1)
        assert capture.backend == open_on.plain


def assert_shows(capture, width, height, seed):
    assert np.array_equal(capture.grab(NATIVE), pattern(width, height, seed))
    assert capture.size_px == (width, height)


def test_covering_windows_are_not_captured(painter, open_on):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    capture = open_on(window)
    assert_shows(capture, 100, 80, 1)
    cover = painter.open(50, 50, 100, 100)
    painter.paint(cover, 2)
    assert_shows(capture, 100, 80, 1)
    assert capture.backend == "composite"
    painter.paint(window, 3)
    assert_shows(capture, 100, 80, 3)
    painter.configure(window, width=120, height=90)
    painter.paint(window, 4)
    assert_shows(capture, 120, 90, 4)
    painter.do("UnmapWindow", cover)
    assert_shows(capture, 120, 90, 4)
    assert capture.backend == "shm"
    painter.do("MapWindow", cover)
    painter.configure(cover, x=0, y=0, width=400, height=300)
    assert_shows(capture, 120, 90, 4)
    assert capture.backend == "composite"


def test_one_that_was_covered_before_we_came_is_drawn_first(painter, open_on):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    cover = painter.open(50, 50, 100, 100)
    painter.paint(cover, 2)
    assert_shows(open_on(window), 100, 80, 1)


def test_a_window_that_was_never_drawn_has_no_frame(painter, open_on, monkeypatch):
    monkeypatch.setattr(window_pixels, "REPAINT_DEADLINE_S", 0.05)
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    painter.set_repaints(False)
    cover = painter.open(50, 50, 100, 100)
    painter.paint(cover, 2)
    capture = open_on(window)
    for _ in range(2):
        with pytest.raises(WindowError, match="has not drawn it since"):
            capture.grab(NATIVE)
    painter.paint(window, 3)
    assert_shows(capture, 100, 80, 3)


def test_parts_outside_the_screen_are_captured(painter, open_on):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    capture = open_on(window)
    painter.configure(window, x=-30, y=270)
    assert_shows(capture, 100, 80, 1)
    assert capture.backend == "composite"


def test_colours_with_an_alpha_channel(painter, open_on):
    window = painter.open(10, 10, 100, 80, depth=32)
    painter.paint(window, 1)
    capture = open_on(window)
    assert_shows(capture, 100, 80, 1)
    assert capture.backend == "shm"


def test_hidden_and_closed_windows_have_no_picture(painter, open_on):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    capture = open_on(window)
    assert_shows(capture, 100, 80, 1)
    painter.do("UnmapWindow", window)
    for _ in range(2):
        with pytest.raises(WindowGoneError, match="not mapped"):
            capture.grab(NATIVE)
    with pytest.raises(WindowGoneError):
        capture.size_px  # noqa: B018
    painter.do("MapWindow", window)
    painter.paint(window, 2)
    assert_shows(capture, 100, 80, 2)
    painter.do("DestroyWindow", window)
    with pytest.raises(WindowGoneError, match="was closed"):
        capture.grab(NATIVE)


def test_hidden_while_covered(painter, open_on):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    capture = open_on(window)
    painter.open(0, 0, 200, 200)
    assert_shows(capture, 100, 80, 1)
    painter.do("UnmapWindow", window)
    with pytest.raises(WindowGoneError):
        capture.grab(NATIVE)
    painter.do("MapWindow", window)
    painter.paint(window, 2)
    assert_shows(capture, 100, 80, 2)
    painter.do("DestroyWindow", window)
    with pytest.raises(WindowGoneError):
        capture.grab(NATIVE)


@pytest.mark.parametrize("n", [1, 20, 200])
def test_all_that_was_sent_before_is_drawn(painter, open_on, n, monkeypatch):
    # Beside other tests the server may get no turn for a second, and then the picture may be an old one.
    monkeypatch.setattr(window_capture, "BARRIER_TIMEOUT_S", 60.0)
    window = painter.open(0, 0, 400, 300)
    capture = open_on(window)
    for i in range(20):
        rgb = GREEN if i % 2 else 0xFF0000
        # The painter does not wait for its drawing, as a game need not.
        painter.burst(window, n, rgb)
        frame = capture.grab(NATIVE)
        assert (frame == [rgb >> 16, rgb >> 8 & 0xFF, rgb & 0xFF]).all()


def test_an_interrupted_server_has_drawn_all_requests(painter, open_on, display):
    """On a busy machine the next request may arrive while the server still handles the last one."""
    window = painter.open(0, 0, 400, 300)
    capture = open_on(window)
    is_done = threading.Event()

    def interrupt():
        while not is_done.wait(0.0005):
            os.kill(display.pid, signal.SIGSTOP)
            is_done.wait(0.001)
            os.kill(display.pid, signal.SIGCONT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        for i in range(1000 if IS_LONG else 300):
            rgb = GREEN if i % 2 else 0xFF0000
            painter.burst(window, 1, rgb)
            assert (capture.grab(NATIVE) == [rgb >> 16, rgb >> 8 & 0xFF, rgb & 0xFF]).all()
    finally:
        is_done.set()
        thread.join()


def test_one_that_draws_without_end_is_not_waited_for_without_end(display, x, monkeypatch):
    flood = (
        "import xcffib, xcffib.xproto as p; raw = xcffib.connect(); c = raw.core; root = raw.setup.roots[0].root;"
        "w, g = raw.generate_id(), raw.generate_id(); c.CreateWindow(24, w, root, 0, 0, 400, 300, 0, 1, 0, 0, []);"
        "c.MapWindow(w); c.CreateGC(g, w, 0, []); r = [p.RECTANGLE.synthetic(0, 0, 400, 300)] * 200\n"
        "c.GetInputFocus().reply(); print('on', flush=True)\n"
        "while True: c.PolyFillRectangle(w, g, len(r), r)"
    )
    environment = {**os.environ, **display.environment()}
    monkeypatch.setattr(window_capture, "BARRIER_TIMEOUT_S", 0.1)
    barrier = Barrier(x)
    hurried = []
    hurry = barrier._hurry
    monkeypatch.setattr(barrier, "_hurry", lambda: hurried.append(hurry()))
    with subprocess.Popen([sys.executable, "-c", flood], stdout=subprocess.PIPE, env=environment) as child:
        try:
            assert child.stdout.readline() == b"on\n"
            wait_for(lambda: barrier.wait() or len(hurried) == 2, "a server that has no time for us")
        finally:
            child.kill()
    barrier.close()


def test_turns_end_also_once_we_have_hurried(x):
    barrier = Barrier(x)

    def priority():
        return x.extension(xcffib.sync.key).GetPriority(barrier._name).reply().priority

    for _ in range(3):
        before = priority()
        barrier._end_turn()
        barrier._own.sync()
        # A turn ends only where the priority changes.
        assert priority() != before
        barrier._own.core.GetInputFocus()
        barrier._own.raw.flush()
        barrier._hurry()
        assert priority() == window_capture.LOW_PRIORITY
    barrier.close()


def test_a_display_that_dies_is_an_error_and_close_is_not():
    with PrivateDisplay((200, 100)) as display, Painter(display.name) as painter:
        window = painter.open(0, 0, 100, 80)
        x = XConnection(display.name)
        captures = [WindowCapture(Window(x, window), which) for which in (display, None)]
        for capture in captures:
            capture.grab(NATIVE)
        os.kill(display.pid, signal.SIGKILL)
        for capture in captures:
            with pytest.raises(DisplayError, match="has ended"):
                capture.grab(NATIVE)
            capture.close()
            capture.close()
            with pytest.raises(WindowGoneError, match="capture was closed"):
                capture.grab(NATIVE)
        x.close()


def test_a_file_that_is_not_a_framebuffer_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(1000))
    with pytest.raises(DisplayError, match="is not an XWD file"):
        Framebuffer(file)


def test_fifty_captures_leave_no_resources(painter, x, display):
    window = painter.open(10, 10, 100, 80)
    painter.paint(window, 1)
    painter.open(50, 50, 100, 80)
    before, clients = held(), n_clients(x)
    for i in range(50):
        capture = WindowCapture(Window(x, window), display if i % 2 else None)
        assert_shows(capture, 100, 80, 1)
        capture.close()
    x.sync()
    check_released(before)
    assert n_clients(x) == clients


def test_a_killed_owner_leaves_no_shared_memory(display, painter):
    window = painter.open(10, 10, 100, 80)
    script = (
        "import sys; from soulslab.siphon.process.x11 import XConnection;"
        "from soulslab.siphon.process.window import Window;"
        "from soulslab.siphon.capture.window_capture import WindowCapture; from soulslab.siphon.capture import NATIVE;"
        f"capture = WindowCapture(Window(XConnection({display.name!r}), {window}));"
        "capture.grab(NATIVE); print('on', flush=True); sys.stdin.readline()"
    )
    started_s = time.time()
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"on\n"
        assert len(segments_of([child.pid], started_s)) == 1
        child.kill()
    wait_for(lambda: not segments_of([child.pid], started_s), "the end of the shared memory")


def test_doom_is_seen_on_two_displays_until_it_is_killed():
    with PrivateDisplay((640, 480)) as one, PrivateDisplay((640, 480)) as other:
        games, connections, captures = [], [], []
        try:
            for display in (one, other):
                games.append(start_doom(display))
                connections.append(XConnection(display.name))
                window = wait_for_window(connections[-1], games[-1].pid, deadline_s=PATIENCE_S)
                captures.append(WindowCapture(window, display))
            for capture in captures:
                wait_for(lambda capture=capture: capture.grab(NATIVE).std() > 20, "a picture with something in it")
                assert capture.backend == "framebuffer"
                assert capture.grab(FrameFormat(84, 84, is_grey=True)).shape == (84, 84)
            os.kill(games[0].pid, signal.SIGKILL)
            wait_for(lambda: games[0].has_ended, "the end of Doom")
            wait_for(lambda: is_gone(captures[0]), "the end of its window")
            assert games[0].status() == -signal.SIGKILL
            assert captures[1].grab(NATIVE).std() > 20
        finally:
            for part in (*captures, *connections):
                part.close()
            for game in games:
                game.kill(grace_s=0)


def is_gone(capture):
    try:
        capture.grab(NATIVE)
    except WindowGoneError:
        return True
    return False


def test_the_benchmark_measures_each_way():
    result = measure_capture(CaptureBenchSettings(n_frames=1, n_rounds=1))
    assert len(result.rows) == 8
    assert all(row["RGB (ms)"] > 0 for row in result.rows)
