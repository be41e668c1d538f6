"""A connection to a real X server."""

from __future__ import annotations

import os
import signal

import pytest
import xcffib.randr
import xcffib.shm
import xcffib.xproto
from xcffib.xproto import CW, EventMask

from soulslab.errors import DisplayError, WindowGoneError
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.x11 import XConnection
from support.counts import check_released, held, n_clients

SCREEN_PX = (320, 200)
NO_WINDOW = 0x1FFFFFFF


def test_it_knows_screen_atoms_and_extensions(x, display):
    assert x.size_px == SCREEN_PX
    assert x.root_depth == 24
    name = x.core.GetAtomName(x.atom("_NET_WM_PID")).reply().name
    assert name.raw == b"_NET_WM_PID"
    assert x.atom("_NET_WM_PID") == x.atom("_NET_WM_PID")
    assert x.has_extension(xcffib.shm.key)
    assert x.extension(xcffib.shm.key) is x.extension(xcffib.shm.key)


def test_a_missing_extension_is_named(x):
    key = xcffib.ExtensionKey("NO-SUCH-THING")
    assert not x.has_extension(key)
    with pytest.raises(DisplayError, match="lacks the extension NO-SUCH-THING"):
        x.extension(key)


def test_a_missing_display_is_a_clear_error():
    with pytest.raises(DisplayError, match=r"':9999'.*display=.private"):
        XConnection(":9999")


def test_errors_of_the_server_become_ours(x):
    with pytest.raises(WindowGoneError, match="cannot look: window 0x1fffffff"), x.using("look", NO_WINDOW):
        x.core.GetGeometry(NO_WINDOW).reply()
    with pytest.raises(DisplayError, match=r"cannot guess: .* answers"), x.using("guess"):
        x.core.GetAtomName(0).reply()
    with pytest.raises(WindowGoneError):
        x.select(NO_WINDOW, EventMask.StructureNotify)
    x.sync()


def test_listeners_get_the_events_that_were_selected_in_addition(x):
    seen = []
    x.select(x.root, EventMask.SubstructureNotify)
    x.select(x.root, EventMask.PropertyChange)
    x.listen(seen.append)
    window = x.raw.generate_id()
    x.core.CreateWindow(24, window, x.root, 0, 0, 9, 9, 0, 1, 0, CW.BackPixel, [0], is_checked=True).check()
    x.core.ChangeProperty(0, x.root, x.atom("TEST"), 31, 8, 1, b"t", is_checked=True).check()
    x.dispatch()
    kinds = [type(event).__name__ for event in seen]
    assert kinds == ["CreateNotifyEvent", "PropertyNotifyEvent"]
    x.unlisten(seen.append)
    x.core.DestroyWindow(window, is_checked=True).check()
    x.dispatch()
    assert len(seen) == 2


def test_a_server_that_dies_is_a_display_error():
    display = PrivateDisplay((64, 64))
    try:
        x = XConnection(display.name)
        os.kill(display.pid, signal.SIGKILL)
        display._process.wait()
        for use in (x.sync, x.dispatch, lambda: x.atom("NEW")):
            with pytest.raises(DisplayError, match="has ended or closed"):
                use()
        x.close()
    finally:
        display.close()


def test_the_process_of_the_server_is_known(x, display):
    assert x.server_pid == display.pid


def test_after_close_every_use_is_an_error(display):
    x = XConnection(display.name)
    x.close()
    x.close()
    for use in (x.sync, x.dispatch, x.fileno):
        with pytest.raises(DisplayError, match="is closed"):
            use()


def test_two_hundred_connections_leave_no_resources(x, display):
    before, clients = held(), n_clients(x)
    for _ in range(200):
        other = XConnection(display.name)
        other.sync()
        other.close()
    x.sync()
    check_released(before)
    assert n_clients(x) == clients
