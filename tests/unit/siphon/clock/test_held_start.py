"""Whether the processes of a starting game wait."""

import os
import subprocess
import sys

from soulslab.siphon.clock.held_start import _is_asleep, _times_of
from support.waiting import wait_for


def test_a_process_that_waits_or_has_ended_is_asleep_and_one_that_runs_is_not():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        wait_for(lambda: _is_asleep(waiting.pid), "the process to wait")
        assert len(_times_of([waiting.pid])) == 1
        waiting.kill()
    assert _is_asleep(waiting.pid)
    assert _times_of([waiting.pid]) == {}
    assert not _is_asleep(os.getpid())
    assert _times_of([os.getpid()]) is None
