"""Waiting with descriptors of any number."""

import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from soulslab.errors import ProcessExitedError
from soulslab.siphon.process.process_watch import LinuxProcessWatch, wait_readable

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
