"""Waiting for the end of a process, with descriptors of any number and with the clocks of Windows."""

import math
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from soulslab.errors import ProcessExitedError
from soulslab.siphon.process import process_watch
from soulslab.siphon.process.process_watch import LinuxProcessWatch, WindowsProcessWatch, wait_readable

#: Interval at which Windows ends waits for a process.
TICK_S = 1 / 64

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors of Linux")


@pytest.fixture
def _many_files():
    """More open files than select can name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with ExitStack() as files:
        for _ in range(1100):
            files.enter_context(Path(os.devnull).open())
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
def test_a_process_is_watched_and_a_pipe_is_waited_for():
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child, closing(LinuxProcessWatch(child.pid)) as watch:
        assert watch.fileno() > 1023
        started = time.monotonic()
        watch.wait(0.0105)
        assert time.monotonic() - started >= 0.0105
        assert not wait_readable(0.0, watch.fileno())
        child.stdin.close()
        with pytest.raises(ProcessExitedError):
            watch.wait(60.0)
        assert wait_readable(0.0, watch.fileno())


class FakeWindows:
    """The clock of Windows, and a process that ends at a time; `now_s` is the time."""

    def __init__(self, process_ends_s=math.inf):
        self.now_s = 0.0
        self._process_ends_s = process_ends_s

    def perf_counter(self):
        self.now_s += 1e-6  # each loop takes some time
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds + 0.0005

    def wait_for_end(self, handle, wait_ms=0):
        del handle
        if wait_ms:
            wake_s = math.ceil((self.now_s + wait_ms / 1000) / TICK_S) * TICK_S
            self.now_s = min(wake_s, max(self._process_ends_s, self.now_s))
        return self.now_s >= self._process_ends_s


def fake_watch(monkeypatch, system):
    """Return a watch of a process of a fake system."""
    monkeypatch.setattr(process_watch, "time", SimpleNamespace(perf_counter=system.perf_counter, sleep=system.sleep))
    monkeypatch.setattr(process_watch, "open_process", lambda *_: 1)
    monkeypatch.setattr(process_watch, "close_handle", lambda _: None)
    monkeypatch.setattr(process_watch, "wait_for_end", system.wait_for_end)
    return WindowsProcessWatch(7)


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.1])
def test_a_wait_on_windows_does_not_end_at_a_tick_of_the_system(monkeypatch, seconds):
    system = FakeWindows()
    with closing(fake_watch(monkeypatch, system)) as watch:
        started_s = system.now_s
        watch.wait(seconds)
        assert 0.0 <= system.now_s - started_s - seconds < 0.001


def test_a_wait_on_windows_ends_with_the_process(monkeypatch):
    system = FakeWindows(process_ends_s=0.5)
    with closing(fake_watch(monkeypatch, system)) as watch:
        with pytest.raises(ProcessExitedError, match="process 7 has ended"):
            watch.wait(60.0)
        assert system.now_s == pytest.approx(0.5, abs=0.021)
