"""Private displays with a real Xvfb."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.errors import ConfigError, DisplayError
from soulslab.siphon.process import private_display as display_module
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.process.x11 import XConnection
from support.counts import check_released, held
from support.waiting import wait_for

OWNER = """
import os, signal, sys
from soulslab.siphon.process.private_display import PrivateDisplay
display = PrivateDisplay((64, 64))
print(display.pid, display.name, flush=True)
sys.stdin.readline()
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_several_at_once_each_with_its_screen():
    with PrivateDisplay((320, 200)) as one, PrivateDisplay((1280, 720)) as other:
        assert one.name != other.name
        for display in (one, other):
            x = XConnection(display.name)
            assert x.size_px == display.size_px
            x.close()
            assert display.framebuffer.stat().st_size > display.size_px[0] * display.size_px[1] * 4


def test_close_ends_it_and_removes_its_files():
    display = PrivateDisplay((64, 64))
    folder = display.framebuffer.parent
    assert folder.is_dir()
    display.close()
    display.close()
    assert not is_running(display.pid)
    assert not folder.exists()


def test_only_the_cookie_or_this_user_opens_it(tmp_path, monkeypatch):
    with PrivateDisplay((64, 64)) as display:
        authority = Path(display.environment()["XAUTHORITY"])
        assert authority.stat().st_mode & 0o777 == 0o600
        assert display.environment()["DISPLAY"] == display.name
        # By uid, whatever cookie there is.
        monkeypatch.setenv("XAUTHORITY", str(tmp_path / "none"))
        XConnection(display.name).close()
        x = XConnection(display.name, cookie=b"wrong".ljust(16))
        hosts = x.core.ListHosts().reply()
        assert hosts.mode == 1  # access control is on
        x.core.ChangeHosts(1, 5, *address_of_this_user(), is_checked=True).check()
        x.close()
        # By cookie alone.
        with pytest.raises(DisplayError):
            XConnection(display.name)
        with pytest.raises(DisplayError):
            XConnection(display.name, cookie=b"wrong".ljust(16))
        monkeypatch.setenv("XAUTHORITY", str(authority))
        XConnection(display.name).close()


def address_of_this_user():
    address = list(f"localuser\0#{os.getuid()}".encode())
    return len(address), address


def test_it_ends_with_us_when_we_are_killed():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        pid, name = owner.stdout.readline().split()
        XConnection(name.decode()).close()
        assert is_running(int(pid))
    finally:
        owner.kill()
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()
    wait_for(lambda: not is_running(int(pid)), "the end of Xvfb")


def test_missing_xvfb_is_an_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DisplayError, match="apt-get install xvfb"):
        PrivateDisplay()


def test_xvfb_that_fails_is_an_error_with_its_words(tmp_path, monkeypatch):
    fake = tmp_path / "Xvfb"
    fake.write_text("#!/bin/sh\necho no room for a screen >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    before = held()
    with pytest.raises(DisplayError, match="no room for a screen"):
        PrivateDisplay()
    check_released(before)


def test_xvfb_that_hangs_is_given_up(tmp_path, monkeypatch):
    fake = tmp_path / "Xvfb"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(display_module, "START_DEADLINE_S", 0.2)
    before = held()
    with pytest.raises(DisplayError, match="did not start within"):
        PrivateDisplay()
    check_released(before)


@pytest.mark.parametrize("size_px", [(0, 10), (10, -1), (20_000, 100)])
def test_impossible_sizes_are_refused(size_px):
    with pytest.raises(ConfigError, match="screen_px"):
        PrivateDisplay(size_px)


def test_a_server_that_was_killed_can_still_be_closed():
    display = PrivateDisplay((64, 64))
    os.kill(display.pid, signal.SIGKILL)
    display.close()
    assert not display.framebuffer.parent.exists()


def test_ten_displays_leave_no_resources():
    PrivateDisplay((64, 64)).close()
    before = held()
    for _ in range(10):
        PrivateDisplay((64, 64)).close()
    check_released(before)
